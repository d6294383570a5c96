"""The road by a registry: the image is pushed once, each host pulls it by digest with its own engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sistership.errors import HostUnfitError, ShipError, SistershipError, UsageError
from sistership.host.commands import Commands
from sistership.host.docker import ZSTD_SINCE
from sistership.host.facts import HostFacts
from sistership.host.inventory import Peer
from sistership.host.transport import quote
from sistership.image.layout import Store
from sistership.image.release import Release, short
from sistership.matrix.model import Variant
from sistership.registry.place import Place
from sistership.registry.push import Pushed, missing, open_client, push
from sistership.report.listeners import Reporter
from sistership.report.words import mebibytes
from sistership.ship.have import Manifests, layers_had
from sistership.ship.plan import Action, Encoding, HostPlan, check_disk, disk_needed, layer_plans, plan_host
from sistership.verify.verdict import Kind, Verdict

VIA: Final = ("registry", "direct")
#: A pull slower than this for its whole length has stalled: bytes a second.
_SLOWEST: Final = 250_000
_LEAST_PATIENCE: Final = 600  # seconds
#: docker's line for a layer: 12 digits of its blob's digest, and what became of it.
_LAYER: Final = re.compile(r"^([0-9a-f]{12}): (.+)$", re.MULTILINE)
_THERE: Final = ("Already exists",)
_WHOLE: Final = ("Pull complete",)


@dataclass(frozen=True)
class Road:
    """One variant's way through a registry.

    Attributes:
        others: repositories of the same registry that may have blobs of it.
    """

    place: Place
    others: tuple[str, ...] = ()


def road_of(variants: Mapping[str, Variant], name: str, via: str | None) -> Road | None:
    """The road that a variant is shipped by; None: straight to the hosts.

    Args:
        via: `registry`, `direct`, or None: as the matrix says.

    Raises:
        UsageError: `registry`, and the matrix names none; or another word.
    """
    if via not in {None, *VIA}:
        raise UsageError(f"--via {via}: there is no such road", hint=" or ".join(VIA))
    registry = variants[name].registry
    if via == "registry" and registry is None:
        raise UsageError(
            f"--via registry: the variant {name} names no registry",
            where=variants[name].where or None,
            hint="add `registry: HOST/REPOSITORY` to it, or to defaults",
        )
    if via == "direct" or registry is None:
        return None
    place = Place.of(registry)
    places = [Place.of(each.registry) for each in variants.values() if each.registry]
    beside = {each.repository for each in places if each.host == place.host} - {place.repository}
    return Road(place, tuple(sorted(beside)))


def push_all(group: Sequence[Release], road: Road, store: Store, reporter: Reporter) -> list[Pushed]:
    """Have a variant's images in its registry, before any host is touched.

    Raises:
        HostUnreachableError, ShipError, SistershipError: see `registry.push`.
    """
    client = open_client(road.place)
    done: list[Pushed] = []
    for release in group:
        reporter.step("", f"pushing {release.reference} ({release.image.platform}) to {road.place}")
        pushed = push(
            client,
            release.image,
            store,
            others=road.others,
            progress=lambda done, total: reporter.progress("", "pushed", done, total),
        )
        mounted = f", {pushed.mounted} mounted" if pushed.mounted else ""
        reporter.step("", f"{mebibytes(pushed.sent)} pushed, {pushed.there} blobs were there{mounted}")
        reporter.step("", f"{road.place}@{release.image.manifest}")
        done.append(pushed)
    return done


def to_push(group: Sequence[Release], road: Road, store: Store) -> int:
    """Bytes that a push of a variant's images would send at most; mounts cost none.

    Raises:
        HostUnreachableError, ShipError: the registry cannot be asked.
    """
    client = open_client(road.place)
    blobs = {blob.digest: blob.size for release in group for blob in missing(client, release.image, store)}
    return sum(blobs.values())


def plan_by(
    road: Road | None, host: str, release: Release, facts: HostFacts, verdict: Verdict, known: Manifests
) -> HostPlan:
    """The plan for one host by a road; an engine that cannot read what lies in the registry gets the image directly.

    Raises:
        HostUnfitError: as plan_host.
    """
    if road is None:
        return plan_host(host, release, facts, verdict, known)
    if not facts.reads_zstd:
        plan = plan_host(host, release, facts, verdict, known)
        remark = f"directly: Engine {facts.version} reads no zstd layers, {ZSTD_SINCE} and later do"
        return replace(plan, remark=remark) if plan.action is Action.LOAD else plan
    # Nothing is staged for a pull, and the disk is looked at when it is known what the engine has.
    roomy = replace(facts, stage_free=None, one_disk=False, staged={})
    plan = plan_host(host, release, replace(roomy, free=None), verdict)
    if plan.action is not Action.LOAD:
        return replace(plan, source=road.place.source(release.image))
    # What a classic engine loaded from a file it does not know by the blobs' digests.
    trusted = facts.store != "classic" and verdict.kind is not Kind.INCOMPLETE
    had = layers_had(release.image, facts, known, plain=False) if trusted else frozenset()
    layers = tuple(
        replace(each, state="pull", file="") if each.state == "send" else each
        for each in layer_plans(release, Encoding.ZSTD, {}, had, plain=False)
    )
    disk = disk_needed(layers, facts.store)
    # Podman writes each blob into its folder for temporary files first.
    spool = sum(each.size for each in layers if each.state != "have") if facts.store == "podman" else 0
    plan = replace(plan, layers=layers, stage=0, disk=disk, spool=spool, source=road.place.source(release.image))
    check_disk(plan, roomy)
    return plan


def pull_script(engine: Commands, source: str, unique: str) -> str:
    """Pull by digest, then give the image its own name, which no registry can move."""
    return f"""{engine.functions}
pull_image {quote(source)} || exit 1
tag_image {quote(source, unique)} 2>&1
"""


def pull(peer: Peer, release: Release, plan: HostPlan, reporter: Reporter) -> tuple[int, bool]:
    """Have a host's engine pull the image, with that host's own login.

    Returns:
        Bytes of the layers that it fetched, and whether it took others from what it had.

    Raises:
        HostUnfitError: the host cannot reach the registry, does not trust it, or is not logged in.
        ShipError: the engine refused the image.
        HostUnreachableError: the connection was cut.
    """
    sizes = {short(layer.digest): layer.size for layer in release.image.layers}
    said = bytearray()

    def take(chunk: bytes) -> None:
        said.extend(chunk)
        whole = _layers(said, _WHOLE) & sizes.keys()
        reporter.progress(peer.name, "pulled", sum(sizes[each] for each in whole), plan.send)

    patience = _LEAST_PATIENCE + plan.send / _SLOWEST
    done = peer.transport.run(pull_script(peer.engine, plan.source, release.unique), sink=take, timeout=patience)
    if done.status != 0:
        words = said.decode(errors="replace").strip() or done.err.strip()
        raise refused(peer.name, plan.source, words, peer.engine.kind)
    if peer.engine.kind != "docker":
        # Others do not tell what they had; what their facts told before says so.
        return plan.send, any(each.state == "have" for each in plan.layers)
    there = _layers(said, _THERE) & sizes.keys()
    return sum(size for digits, size in sizes.items() if digits not in there), bool(there)


def _layers(said: bytearray, words: Sequence[str]) -> set[str]:
    """The layers of which docker has said one of these words."""
    return {digits for digits, word in _LAYER.findall(said.decode(errors="replace")) if word.strip() in words}


#: Cures that are Docker's alone → those of Podman.
_PODMANS: Final = {
    "put its authority's certificate there into /etc/docker/certs.d/{host}/ca.crt": (
        "put its authority's certificate there into /etc/containers/certs.d/{host}/ca.crt"
    ),
    "add {host} to insecure-registries in its daemon.json, or give the registry a certificate": (
        "say `insecure = true` for {host} in its registries.conf, or give the registry a certificate"
    ),
}
#: The same for containerd, by the file that ctr and the kubelet's runtime read.
_TOML: Final = "/etc/containerd/certs.d/{host}/hosts.toml"
_CONTAINERDS: Final = {
    "there: {docker} login {host}": f"put the login there into {_TOML}, as `authorization` of the host's `header`",
    "put its authority's certificate there into /etc/docker/certs.d/{host}/ca.crt": (
        f'name its authority\'s certificate there in {_TOML}: ca = "…"'
    ),
    "add {host} to insecure-registries in its daemon.json, or give the registry a certificate": (
        f'write server = "http://{{host}}" there in {_TOML}, or give the registry a certificate'
    ),
    "try there: {docker} pull {source}": "try there: ctr images pull {source}",
}
_CURES: Final[Mapping[str, Mapping[str, str]]] = {"podman": _PODMANS, "containerd": _CONTAINERDS}
#: What engines say → what it means, and the cure. The first that fits counts.
_REFUSALS: Final = (
    (
        r"no basic auth|unauthorized|authentication required|(?<!permission )denied|\b40[13]\b",
        "is not logged in to the registry, or may not pull from it",
        "there: {docker} login {host}",
    ),
    (
        r"x509|certificate",
        "does not trust the registry's certificate",
        "put its authority's certificate there into /etc/docker/certs.d/{host}/ca.crt",
    ),
    (
        r"http response to https client",
        "wants TLS, the registry speaks plain HTTP",
        "add {host} to insecure-registries in its daemon.json, or give the registry a certificate",
    ),
    (r"no space left", "has no disk left for the image", "remove images there that nothing uses"),
    (
        r"dial tcp|no such host|connection refused|connection reset|timeout|deadline exceeded|unreachable|\beof\b",
        "cannot reach the registry",
        "try there: {docker} pull {source}",
    ),
)


def refused(host: str, source: str, words: str, kind: str = "docker") -> SistershipError:
    """The error that an engine's words stand for; every one names the direct way.

    Args:
        kind: of the engine.
    """
    registry = source.partition("/")[0]
    last = words.splitlines()[-1][:300] if words else None
    for pattern, what, cure in _REFUSALS:
        if re.search(pattern, words.lower()):
            ours = _CURES.get(kind, {}).get(cure, cure)
            hint = ours.format(host=registry, source=source, docker=kind)
            return HostUnfitError(f"it {what}", where=host, why=last, hint=f"{hint}; or ship --via direct")
    return ShipError(
        "its engine could not pull the image; what it ran before is untouched",
        where=host,
        why=last,
        hint="see the engine's log there, or ship --via direct",
    )
