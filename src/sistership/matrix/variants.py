"""Variants: from rows to values, with the defaults merged in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sistership import resources
from sistership.matrix import cmake, inventory, names, series, snapshots, toolkits
from sistership.matrix.model import BASELINES, Cuda, Options, Registry, Variant, architecture, fits

if TYPE_CHECKING:
    from sistership.matrix.context import Context
    from sistership.matrix.findings import Findings
    from sistership.matrix.nodes import Path
    from sistership.matrix.schema import VariantRow

_PLATFORMS: Final = ("linux/amd64",)
_CUDA_PLATFORMS: Final = ("amd64", "arm64")
_CPU: Final = re.compile(r"x86-64(-v[234])?|armv[89](\.[0-9])?-a(\+[a-z0-9]+)*")
_PACKAGE: Final = re.compile(r"[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+)?")
_FULL_HASH: Final = re.compile(r"[0-9A-Fa-f]{40}")


def variant(name: str, row: VariantRow, context: Context) -> Variant:
    """A complete variant; faults go to the context's findings."""
    findings, path = context.findings, ("variants", name)
    findings.check(path, name, names.check_name, key=True)
    findings.is_known((*path, "fork"), row.fork, findings.written("forks"), "fork")
    findings.check((*path, "commit"), row.commit, names.check_commit)
    findings.check((*path, "image"), row.image, names.check_image)
    findings.check((*path, "tag"), row.tag, names.check_tag)
    platforms = _platforms(name, row, context)
    options = _options(name, row, context, platforms)
    base = toolkits.base(name, row, context)
    toolkit = toolkits.cuda(name, row, context, base)
    packages = _packages(name, row, context)
    return Variant(
        name=name,
        fork=row.fork,
        commit=row.commit.lower() if _FULL_HASH.fullmatch(row.commit) else row.commit,
        image=row.image,
        tag=row.tag,
        backend=row.backend,
        cuda=toolkit,
        base=base,
        patches=series.patches(path, row, findings),
        options=options,
        cmake=_cmake(name, row, context, options, toolkit),
        packages=packages,
        snapshot=snapshots.snapshot(name, row, context, base.build, packages),
        platforms=platforms,
        template=_template(name, row, context),
        builders=_builders(path, row, platforms, context),
        registry=_registry(name, row, context),
        where=_place(path, findings),
    )


def _place(path: Path, findings: Findings) -> str:
    mark = findings.document.mark(path, key=True)
    return f"{findings.document.file}:{mark.line}:{mark.column}"


def _platforms(name: str, row: VariantRow, context: Context) -> tuple[str, ...]:
    own = "platforms" in row.model_fields_set
    path = context.where(name, "platforms", own=own)
    defaulted = "platforms" in context.defaults.model_fields_set
    platforms = row.platforms if own else context.defaults.platforms if defaulted else _PLATFORMS
    if not platforms:
        context.findings.problem(path, "the list of platforms is empty", "write [linux/amd64]")
    good = [
        text
        for index, text in enumerate(platforms)
        if context.findings.check((*path, index), text, names.check_platform)
    ]
    for text in good:
        if row.backend == "cuda" and architecture(text) not in _CUDA_PLATFORMS:
            context.findings.problem(path, f"CUDA does not exist for {text}", "use linux/amd64 or linux/arm64")
    return tuple(dict.fromkeys(good))


def _options(name: str, row: VariantRow, context: Context, platforms: tuple[str, ...]) -> Options:
    own = row.options.model_dump(exclude_unset=True)
    options = Options(**{**context.defaults.options.model_dump(exclude_unset=True), **own})
    where = {key: (*context.where(name, "options", own=key in own), key) for key in ("native", "cpu")}
    if options.native:
        message = "native: the image runs on CPUs like the builder's only"
        context.findings.warn(where["native"], message, "name a baseline instead, such as cpu: x86-64-v3")
    if not context.findings.check(where["cpu"], options.cpu, _check_cpu):
        return options
    if "cpu" in own and platforms and not any(fits(options.cpu, architecture(text)) for text in platforms):
        message = f"cpu: {options.cpu} is no baseline of {', '.join(platforms)}"
        baselines = [BASELINES.get(architecture(text)) for text in platforms]
        context.findings.problem(where["cpu"], message, f"write {baselines[0]}" if baselines[0] else "take it out")
    return options


def _check_cpu(text: str) -> None:
    if not _CPU.fullmatch(text):
        hint = "list a baseline, not this machine's CPU: " if text == "native" else "write for example "
        raise names.TextError(f'"{text}" is not a CPU baseline', f"{hint}x86-64-v3 or armv8-a")


def _cmake(name: str, row: VariantRow, context: Context, options: Options, toolkit: Cuda | None) -> dict[str, str]:
    decided = cmake.owned(options, row.backend)
    archs = toolkit.archs if toolkit else ()
    inherited = {key: value for key, value in context.defaults.cmake.items() if key not in row.cmake}
    return {
        **cmake.flags(("defaults", "cmake"), inherited, decided, archs, context.findings),
        **cmake.flags(("variants", name, "cmake"), row.cmake, decided, archs, context.findings),
    }


def _packages(name: str, row: VariantRow, context: Context) -> tuple[str, ...]:
    own = "packages" in row.model_fields_set
    path = context.where(name, "packages", own=own)
    packages = row.packages if own else context.defaults.packages
    for index, package in enumerate(packages):
        context.findings.check((*path, index), package, _check_package)
    return tuple(dict.fromkeys(packages))


def _check_package(text: str) -> None:
    if not _PACKAGE.fullmatch(text):
        raise names.TextError(f'"{text}" is not a Debian package', "write its name, such as ninja-build")


def _template(name: str, row: VariantRow, context: Context) -> str:
    own = "template" in row.model_fields_set
    template = row.template if own else context.defaults.template
    if not own and "template" not in context.defaults.model_fields_set:
        return template
    path = context.where(name, "template", own=own)
    if context.findings.check(path, template, names.check_file):
        found = resources.find(context.findings.project, "dockerfiles", template)
        if found is None:
            context.findings.problem(path, f"there is no template dockerfiles/{template}", "put it into dockerfiles/")
    return template


def _registry(name: str, row: VariantRow, context: Context) -> Registry | None:
    own = "registry" in row.model_fields_set
    found = row.registry if own else context.defaults.registry
    if found is None:
        return None
    path = context.where(name, "registry", own=own)
    written = (*path, "repository")
    where = written if written in context.findings.document.values else path
    context.findings.check(where, found.repository, names.check_repository)
    if found.pull is not None:
        context.findings.check((*path, "pull"), found.pull, names.check_repository)
    return Registry(found.repository, found.insecure, found.pull or "")


def _builders(path: Path, row: VariantRow, platforms: tuple[str, ...], context: Context) -> dict[str, str]:
    """The variant's own builders, else the matrix's, for the platforms it has."""
    own = "builder" in row.model_fields_set
    where: Path = (*path, "builder") if own else ("builder",)
    chosen = row.builder if own else context.builders
    found = inventory.builders(where, chosen, platforms, context.hosts, context.findings)
    return {platform: found[platform] for platform in platforms if platform in found}
