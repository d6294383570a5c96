"""An older image and the release that follows it, and a stand-in engine that gives the files of the older one."""

from __future__ import annotations

import hashlib
import io
import json
import random
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sistership.host.facts import HostFacts
from sistership.host.held import HeldImage
from sistership.image.difference import Difference, make
from sistership.image.documents import image_of
from sistership.image.identity import Image, Layer
from sistership.image.layout import Store
from sistership.image.pack import layer_of, pack
from sistership.image.release import Release
from sistership.ship.difference_plan import Older, with_differences
from sistership.ship.have import known_manifests
from sistership.ship.plan import HostPlan, plan_host
from sistership.verify.verdict import Kind, Verdict

MISSING = Verdict(Kind.MISSING)
NOISE = random.Random(4).randbytes(3 << 20)
AFTER = NOISE[:1000] + b"patched" + NOISE[1003:]
ROOMY = HostFacts(
    "26.1.5", "classic", "ID", "linux/amd64", 1 << 40, 1 << 40, False, {}, frozenset({"zstd", "gzip"}), (),
    zstd="1.5.4", memory=1 << 40,
)  # fmt: skip


def layer(store: Store, instruction: str, path: str, data: bytes, *, base: bool = False) -> Layer:
    """A layer of one file, in the store."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        member = tarfile.TarInfo(path)
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    plain = out.getvalue()
    diff_id = "sha256:" + hashlib.sha256(plain).hexdigest()
    return layer_of(pack(store, diff_id, len(plain), lambda: iter([plain])), base=base, created_by=instruction)


def image(store: Store, key: str, layers: Sequence[Layer]) -> Image:
    """An image of these layers, recorded as a build does it."""
    config: dict[str, Any] = {"architecture": "amd64", "os": "linux", "config": {}, "created": key}
    config["rootfs"] = {"type": "layers", "diff_ids": [each.diff_id for each in layers]}
    config["history"] = [{"created_by": each.created_by} for each in layers]
    document = json.dumps(config).encode()
    made, *manifests = image_of(document, layers)
    for each in (document, *manifests):
        store.add(each)
    store.record(key * 64, made, "2026-01-01")
    return made


class Pair:
    """An older image and the release that follows it: another library, the same base and program."""

    def __init__(self, store: Store) -> None:
        self.store = store
        base = layer(store, "base layer 1", "etc/x", random.Random(1).randbytes(2 << 20), base=True)
        program = layer(store, "COPY bin", "app/bin/x", b"program")
        self.old_library = layer(store, "COPY lib", "app/lib.so", NOISE)
        self.library = layer(store, "COPY lib", "app/lib.so", AFTER)
        self.old = image(store, "a", [base, self.old_library, program])
        self.release = Release("x", "b" * 64, "x:1", image(store, "b", [base, self.library, program]))

    def facts(self, store: str = "classic", *, plain: bool = False, **changes: Any) -> HostFacts:
        """A host that holds the older image."""
        shown = self.old.manifest_plain if plain else self.old.manifest
        held = HeldImage(
            self.old.config if store == "classic" else shown, ("x:1",), self.old.diff_ids, "linux/amd64", {}, ""
        )
        return replace(ROOMY, store=store, images=(held,), **changes)

    def plan(self, facts: HostFacts) -> HostPlan:
        """What a ship would do without differences."""
        return plan_host("here", self.release, facts, MISSING, known_manifests(self.store))


def found(pair: Pair) -> dict[str, Difference]:
    """The difference of the pair's library."""
    return {pair.library.diff_id: make(pair.store, pair.old_library, pair.library)}


def planned(pair: Pair, facts: HostFacts) -> HostPlan:
    """The plan with it."""
    older = Older(facts.images[0].id, pair.old)
    had = frozenset(pair.old.diff_ids) if older.held == pair.old.manifest_plain else frozenset()
    had = had or (frozenset(pair.old.diff_ids[:1]) if facts.store == "classic" else had)
    return with_differences(pair.plan(facts), pair.release, facts, older, found(pair), had)


def states(plan: HostPlan) -> list[str]:
    """The plan's word for each layer."""
    return [each.state for each in plan.layers]


def engine(tmp_path: Path, library: bytes, saved: dict[str, bytes] | None = None) -> None:
    """A stand-in engine: a container with app/lib.so, and an archive for `docker save`."""
    (tmp_path / "image" / "app").mkdir(parents=True, exist_ok=True)
    (tmp_path / "image" / "app" / "lib.so").write_bytes(library)
    with tarfile.open(tmp_path / "saved", "w") as tar:
        for name, data in (saved or {}).items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    path = tmp_path / "docker"
    path.write_text(f"""#!/bin/sh
cd "{tmp_path}"
case "$1" in
create) echo warning >&2; echo c1; echo c1 >> containers ;;
cp) f=image${{2#c1:}}; [ -f "$f" ] && tar -cf - -C "$(dirname "$f")" "$(basename "$f")" ;;
rm) rm containers ;;
save) cat saved ;;
esac
""")
    path.chmod(0o755)


def never() -> None:
    """Nothing that came before is wrong here."""
    raise AssertionError("sent twice")
