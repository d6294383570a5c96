"""What a host's NVIDIA cards need: code in the image, a driver that runs it, a runtime that hands them over."""

from __future__ import annotations

from collections.abc import Sequence

from sistership.matrix.cuda import parse_arch, runs_on
from sistership.matrix.model import Cuda, Host, Variant
from sistership.start.findings import Finding, fine, problem, warning
from sistership.start.inquiry import Answer
from sistership.start.nvidia import Gpu, branch, minimum_driver, own_driver

_LOOK = "see what `nvidia-smi` says there"


def cards(host: Host, variants: Sequence[Variant], answer: Answer) -> list[Finding]:
    """Findings on a host's cards.

    Args:
        variants: those that may run there.
    """
    smi = answer.smi
    if smi is None or (not smi.gpus and smi.trouble):
        return _unseen(host, answer)
    if not smi.gpus:
        return _none(host)
    cuda = [(each.name, each.cuda) for each in variants if each.cuda is not None and _fits(each, answer)]
    found = [_card(host.name, gpu) for gpu in smi.gpus]
    found += _inventory(host, smi.gpus)
    for capability in dict.fromkeys(gpu.capability for gpu in smi.gpus if gpu.capability):
        found += _code(host.name, capability, cuda)
    for driver in dict.fromkeys(gpu.driver for gpu in smi.gpus if gpu.driver):
        found += _driver(host.name, driver, smi.gpus, cuda)
    return [*found, *_runtime(host.name, answer)]


def _fits(variant: Variant, answer: Answer) -> bool:
    return not answer.platform or any(answer.platform.startswith(platform) for platform in variant.platforms)


def _unseen(host: Host, answer: Answer) -> list[Finding]:
    """No answer from the driver, although there is a card, or should be one."""
    if answer.smi is not None and answer.smi.trouble:
        if "version mismatch" in answer.smi.trouble:
            cure = "the driver was updated under a running kernel: reboot it"
        else:
            cure = "install or repair the NVIDIA driver there, then reboot"
        if host.gpu or answer.cards:
            return [problem(host.name, "gpu", answer.smi.trouble, cure)]
        return [warning(host.name, "gpu", f"nvidia-smi is there: {answer.smi.trouble}", cure)]
    if answer.cards:
        what = f"an NVIDIA card ({', '.join(answer.cards)}), and no nvidia-smi: no driver"
        return [_as_wanted(host, what, "install the NVIDIA driver there")]
    return _none(host)


def _as_wanted(host: Host, what: str, cure: str) -> Finding:
    """A problem where the inventory counts on a card, else a warning."""
    return (problem if host.gpu else warning)(host.name, "gpu", what, cure)


def _none(host: Host) -> list[Finding]:
    if not host.gpu:
        return [fine(host.name, "gpu", "none")]
    what = f"no NVIDIA card is seen, and the matrix says gpu: {_listed(host.gpu)}"
    return [problem(host.name, "gpu", what, f"install the driver there, or take gpu out of {host.name} in the matrix")]


def _card(name: str, gpu: Gpu) -> Finding:
    if gpu.capability is None or gpu.driver is None:
        unknown = " and ".join(
            text for text, value in (("compute capability", gpu.capability), ("driver", gpu.driver)) if value is None
        )
        return warning(name, "gpu", f"{gpu.name}: {unknown} unknown", _LOOK)
    return fine(name, "gpu", f"{gpu.name}, compute capability {gpu.capability}, driver {gpu.driver}")


def _inventory(host: Host, gpus: Sequence[Gpu]) -> list[Finding]:
    """Whether the matrix knows these cards: `verify` judges by what it says."""
    seen = tuple(dict.fromkeys(gpu.capability for gpu in gpus if gpu.capability))
    if not seen or set(seen) == set(host.gpu):
        return []
    if not host.gpu:
        cure = f"write it in the matrix: {host.name}: {{gpu: {_listed(seen)}}}"
        return [warning(host.name, "gpu", "the matrix does not name its cards", cure)]
    what = f"the matrix says gpu: {_listed(host.gpu)}"
    return [warning(host.name, "gpu", what, f"correct it: {host.name}: {{gpu: {_listed(seen)}}}")]


def _code(name: str, capability: str, cuda: Sequence[tuple[str, Cuda]]) -> list[Finding]:
    """Whether the variants hold code for a card."""
    without = [variant for variant, each in cuda if not runs_on(each.archs, capability)]
    if not cuda or not without:
        return [fine(name, "archs", f"every CUDA variant has code for {capability}")] if cuda else []
    what = f"no code for {capability} in {', '.join(without)}"
    cure = f"add {capability.replace('.', '')} to archs, or leave the host out: --hosts ^{name}"
    return [(problem if len(without) == len(cuda) else warning)(name, "archs", what, cure)]


def _driver(name: str, driver: str, gpus: Sequence[Gpu], cuda: Sequence[tuple[str, Cuda]]) -> list[Finding]:
    """Whether the driver runs what the variants' toolkits make."""
    found = []
    for toolkit in dict.fromkeys(each.toolkit for _, each in cuda):
        least, own = minimum_driver(toolkit), own_driver(toolkit)
        if least is None:
            continue
        if branch(driver) < least:
            cure = f"install driver {own or least} or newer there, or build with an older toolkit"
            what = f"driver {driver} is too old for CUDA {toolkit}: it needs {least} or newer"
            found.append(problem(name, "driver", what, cure))
        elif own is not None and branch(driver) < own:
            found.append(_older(name, driver, toolkit, own, _needs_ptx(gpus, cuda, toolkit)))
        else:
            found.append(fine(name, "driver", f"{driver} runs CUDA {toolkit}"))
    return found


def _older(name: str, driver: str, toolkit: str, own: int, ptx: bool) -> Finding:
    """A driver that is older than the toolkit: machine code runs, PTX does not."""
    cure = f"install driver {own} or newer there"
    if ptx:
        what = f"driver {driver} cannot compile the PTX of CUDA {toolkit}, and there is only PTX for this card"
        return problem(name, "driver", what, f"{cure}, or add the card's own number to archs")
    what = f"driver {driver} is older than that of CUDA {toolkit} ({own}): no PTX, and a container runtime may refuse"
    return warning(name, "driver", what, cure)


def _needs_ptx(gpus: Sequence[Gpu], cuda: Sequence[tuple[str, Cuda]], toolkit: str) -> bool:
    """Whether some card runs a variant of the toolkit by PTX alone."""
    lists = [each.archs for _, each in cuda if each.toolkit == toolkit]
    known = [gpu.capability for gpu in gpus if gpu.capability]
    return any(runs_on(archs, card) and not runs_on(_machine_code(archs), card) for archs in lists for card in known)


def _machine_code(archs: Sequence[str]) -> list[str]:
    """The archs without PTX: what needs nothing compiled on the host."""
    parsed = [parse_arch(token) for token in archs]
    return [f"{arch.number}{arch.letter}-real" for arch in parsed if arch.kind != "virtual"]


def _runtime(name: str, answer: Answer) -> list[Finding]:
    """Whether containers can be given the cards."""
    runtimes = answer.info.get("Runtimes") or {}
    if "nvidia" in runtimes:
        return [fine(name, "runtime", "the nvidia container runtime")]
    if answer.cdi:
        return [fine(name, "runtime", f"CDI: {', '.join(answer.cdi)}")]
    if answer.server is None:
        return []
    installed = "nvidia-ctk" in answer.programs
    what = "the engine does not know the nvidia runtime" if installed else "no nvidia-container-toolkit"
    steps = "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
    cure = f"there: {steps}" if installed else f"install nvidia-container-toolkit there, then: {steps}"
    return [problem(name, "runtime", f"{what}: containers see no card", cure)]


def _listed(capabilities: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{each}"' for each in capabilities) + "]"
