"""The links of the benchmark: shaped where they end in the hosts, or where they begin in the sender."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from sistership.fleet import containers, faults
from sistership.fleet.spec import HOSTS, LABELS, NETWORK

UNSHAPED = "unshaped"
_SENDER = "-sender"
#: Each receiving host gets that much; or whoever sends sends that much, to all hosts together.
LINKS = ("1gbit", f"1gbit{_SENDER}", "100mbit", UNSHAPED)
_BYTES = {"1gbit": 1e9 / 8, "100mbit": 1e8 / 8}


def rate(link: str) -> float | None:
    """Bytes a second that a link carries at most; None: as many as the machine manages."""
    return _BYTES.get(link.removesuffix(_SENDER))


@contextmanager
def shaped(link: str, hosts: Sequence[str], builder: str) -> Iterator[None]:
    """The link is as its name says.

    Args:
        hosts: that receive.
        builder: the practice host from which the pipelines send; a ship sends from this machine.
    """
    with ExitStack() as stack:
        if link.endswith(_SENDER):
            stack.enter_context(_sending(link.removesuffix(_SENDER), builder))
        elif link != UNSHAPED:
            for host in hosts:
                stack.enter_context(faults.shaped(host, link))
        yield


@contextmanager
def _sending(limit: str, builder: str) -> Iterator[None]:
    """What this machine and the builder each send into the fleet's network is limited.

    A token bucket slows what leaves a device: the builder's own, and this machine's end of the network, which what
    hosts send each other does not pass.
    """
    bucket = f"root tbf rate {limit} burst 256kb latency 50ms"
    bridge = _bridge()
    try:
        faults.run(builder, ["sh", "-c", f"tc qdisc replace dev eth0 {bucket}"])
        _on_machine(f"tc qdisc replace dev {bridge} {bucket}")
        yield
    finally:
        faults.run(builder, ["sh", "-c", "tc qdisc del dev eth0 root 2>/dev/null; true"])
        _on_machine(f"tc qdisc del dev {bridge} root 2>/dev/null; true")


def _bridge() -> str:
    """The device of the fleet's network on this machine, as Docker calls it."""
    return f"br-{containers.connect().networks.get(NETWORK).id[:12]}"


def _on_machine(script: str) -> None:
    containers.connect().containers.run(
        next(iter(HOSTS.values())).root.image,
        ["sh", "-c", script],
        network_mode="host",
        cap_add=["NET_ADMIN"],
        labels=dict(LABELS),
        remove=True,
    )
