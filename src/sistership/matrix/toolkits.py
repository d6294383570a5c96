"""Base images and CUDA of a variant: toolkit, archs and images must suit one another."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sistership.matrix import cuda as archs
from sistership.matrix import names
from sistership.matrix.model import Base, Cuda
from sistership.matrix.shape import UNREADABLE

if TYPE_CHECKING:
    from sistership.matrix.context import Context
    from sistership.matrix.findings import Findings
    from sistership.matrix.nodes import Path
    from sistership.matrix.schema import BaseRow, CudaRow, VariantRow

_CUDA_TAG: Final = re.compile(
    r"(?P<version>[0-9]+\.[0-9]+(\.[0-9]+)?)(-cudnn[0-9]*)?-(?P<kind>base|runtime|devel)-(?P<os>.+)"
)


def base(name: str, row: VariantRow, context: Context) -> Base:
    """The base images of a variant: its own, else those of the defaults."""
    findings = context.findings
    chosen: BaseRow | None = row.base or context.defaults.base
    path = context.where(name, "base", own=row.base is not None)
    if chosen is None:
        told = findings.was_reported(("variants", name, "base")) or findings.was_reported(("defaults", "base"))
        if not told:
            hint = "add base: {build: IMAGE, runtime: IMAGE}, here or under defaults"
            findings.problem(("variants", name), '"base" is missing', hint, key=True)
        return Base(UNREADABLE, UNREADABLE)
    for key, text in (("build", chosen.build), ("runtime", chosen.runtime)):
        if findings.check((*path, key), text, names.parse_reference):
            reference = names.parse_reference(text)
            if reference.tag is None and reference.digest is None:
                findings.problem((*path, key), f'base.{key}: "{text}" has no tag', "name a tag, and best a digest too")
    return Base(chosen.build, chosen.runtime)


def cuda(name: str, row: VariantRow, context: Context, images: Base) -> Cuda | None:
    """Toolkit and canonical archs of a variant, checked against each other and against the base images."""
    findings = context.findings
    if findings.was_reported(("variants", name, "backend")):
        return None
    if row.backend == "cpu":
        if row.cuda is not None:
            message, hint = "backend: cpu has no cuda section", "take cuda out, or write backend: cuda"
            findings.problem(("variants", name, "cuda"), message, hint, key=True)
        return None
    chosen: CudaRow | None = row.cuda or context.defaults.cuda
    if chosen is None:
        told = findings.was_reported(("variants", name, "cuda")) or findings.was_reported(("defaults", "cuda"))
        if not told:
            hint = "add cuda: {toolkit: 12.8.1, archs: [89]}, or write backend: cpu"
            findings.problem(("variants", name), '"cuda" is missing', hint, key=True)
        return None
    path = context.where(name, "cuda", own=row.cuda is not None)
    toolkit = chosen.toolkit if findings.check((*path, "toolkit"), chosen.toolkit, _check_toolkit) else None
    _base_images(context.where(name, "base", own=row.base is not None), images, toolkit, findings)
    found = _archs((*path, "archs"), chosen.archs, findings)
    for where, arch in found:
        _check_compilers(where, arch, _compilers(toolkit, images), findings)
    unreadable = bool(chosen.archs) and not found
    return Cuda(chosen.toolkit, () if unreadable else _canonical((*path, "archs"), found, findings))


def _check_toolkit(text: str) -> None:
    try:
        archs.parse_toolkit(text)
    except ValueError as error:
        raise names.TextError(str(error), "write it as the base image does, such as 12.8.1") from None


def _archs(path: Path, texts: tuple[str, ...], findings: Findings) -> list[tuple[Path, archs.Arch]]:
    """Every arch that can be read, with the path of the text it is in."""
    found: list[tuple[Path, archs.Arch]] = []
    for index, text in enumerate(texts):
        where: Path = (*path, index)
        for token in archs.split(text):
            if findings.check(where, token, archs.parse_arch):
                arch = archs.parse_arch(token)
                found.append((where, arch))
                _warn_exact(where, arch, findings)
    return found


def _warn_exact(path: Path, arch: archs.Arch, findings: Findings) -> None:
    if not archs.becomes_exact(arch):
        return
    capability = f"{arch.number // 10}.{arch.number % 10}"
    findings.warn(
        path,
        f"cuda.archs: llama.cpp turns {arch} into {arch.number}a (b7538 to b7574 refuse it), "
        f"which runs on compute capability {capability} only",
        f"write {arch.number}a to say so, or {arch.number}f with CUDA 12.9 or newer",
    )


def _canonical(path: Path, found: list[tuple[Path, archs.Arch]], findings: Findings) -> tuple[str, ...]:
    try:
        return tuple(str(arch) for arch in archs.ordered(arch for _, arch in found))
    except archs.ArchError as error:
        findings.problem(path, f"cuda.archs: {error}", error.hint)
        return ()


def _check_compilers(path: Path, arch: archs.Arch, compilers: list[tuple[str, str]], findings: Findings) -> None:
    for version, what in compilers:
        reason = archs.unsupported(arch, version)
        if reason:
            message = f"cuda.archs: CUDA {version} ({what}) cannot compile arch {arch}: {reason}"
            findings.problem(path, message, "take the arch out, or take another toolkit and base")


def _cuda_image(text: str) -> re.Match[str] | None:
    """The parts of an `nvidia/cuda` tag, whatever registry mirrors it."""
    try:
        reference = names.parse_reference(text)
    except names.TextError:
        return None
    is_cuda = f"/{reference.path}".endswith("/nvidia/cuda")
    return _CUDA_TAG.fullmatch(reference.tag) if is_cuda and reference.tag else None


def _compilers(toolkit: str | None, images: Base) -> list[tuple[str, str]]:
    """CUDA versions that the archs must suit, each with what it comes from."""
    image = _cuda_image(images.build)
    found = [(image["version"], f"base {images.build.partition('@')[0]}")] if image else []
    if toolkit and not (image and _agree(toolkit, image["version"])):
        found.append((toolkit, "toolkit"))
    return found


def _agree(one: str, other: str) -> bool:
    """Whether two versions are the same as far as both are written: 12.8 and 12.8.1 are, 12.10 and 12.1 are not."""
    first, second = (archs.parse_toolkit(text).release for text in (one, other))
    length = min(len(first), len(second))
    return first[:length] == second[:length]


def _base_images(path: Path, images: Base, toolkit: str | None, findings: Findings) -> None:
    build, runtime = _cuda_image(images.build), _cuda_image(images.runtime)
    for key, image in (("build", build), ("runtime", runtime)):
        if image and toolkit and not _agree(toolkit, image["version"]):
            message = f"base.{key} has CUDA {image['version']}, but cuda.toolkit is {toolkit}"
            findings.problem((*path, key), message, "make them the same version")
    if build and build["kind"] != "devel":
        message = f"base.build is a {build['kind']} image: it has no compiler"
        findings.problem((*path, "build"), message, "take the devel image")
    if build and runtime and build["os"] != runtime["os"]:
        message = f"base.runtime is {runtime['os']}, but base.build is {build['os']}"
        findings.warn((*path, "runtime"), message, "take both from the same distribution, or libraries may not load")
