"""One small image as a builder leaves it, used where the content does not matter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sistership.image.canonical import canonicalise

from .savefile import Item, Save, directory, tar_of

if TYPE_CHECKING:
    from pathlib import Path

    from sistership.image.identity import Image
    from sistership.image.layout import Store

CREATED = "2026-05-01T10:00:00Z"
INSTRUCTIONS = ("COPY --from=build /out/lib /opt/lib", "COPY --from=build /out/bin /opt/bin")
BASE = tar_of([directory(b"etc"), Item(b"etc/os-release", data=b"ID=x\n"), directory(b"opt")])
LIB = tar_of([directory(b"opt"), directory(b"opt/lib"), Item(b"opt/lib/libone.so.0", data=b"\x7fELF" * 5000)])
BIN = tar_of([directory(b"opt"), directory(b"opt/bin"), Item(b"opt/bin/app", data=b"#!", mode=0o755)])


def save() -> Save:
    """As the builder leaves it."""
    return Save([BASE, LIB, BIN], {"Env": ["PATH=/bin"], "Labels": {"a": "builder", "b": "base"}})


def image(store: Store, folder: Path, made: Save | None = None, instructions: tuple[str, ...] = INSTRUCTIONS) -> Image:
    """The canonical image of a save, in the store."""
    path = (made or save()).legacy(folder / "save.tar")
    return canonicalise(path, instructions=instructions, created=CREATED, labels={"a": "recipe"}, store=store)
