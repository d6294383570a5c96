"""One Dockerfile and one odd context, built by engines of both stores: one image, and the same files everywhere."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from sistership.build.build import builder_peer
from sistership.errors import BuildError
from sistership.host.inventory import connected
from sistership.image.canonical import canonicalise
from sistership.image.layout import Store
from sistership.image.readback import read_back
from sistership.image.release import Release
from sistership.matrix.model import Host
from sistership.report.listeners import Silent
from sistership.ship.ship import ship_all
from sistership.verify.verdict import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fleet.conftest import Fleet

    from sistership.image.identity import Image

BUILDERS = ("classic26", "containerd26")
ENGINES = (*BUILDERS, "classic20")
BASE, RAW, NAME = "practice-odd-base:1", "practice-odd-raw:1", "practice-odd:1"
CREATED = "2026-05-01T10:00:00Z"
#: Files that engines put into every container.
THEIRS = ("dev", "proc", "sys", ".dockerenv", "etc/hostname", "etc/hosts", "etc/mtab", "etc/resolv.conf")
CAPABILITY = b"\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0"


@dataclass(frozen=True)
class Item:
    """An entry of a tar; the kind is tarfile's, `what` is content or target."""

    name: bytes
    what: bytes = b""
    mode: int = 0o644
    owner: tuple[int, int] = (0, 0)
    kind: bytes = tarfile.REGTYPE
    pax: tuple[tuple[str, bytes], ...] = ()


def folder(name: bytes, mode: int = 0o755, owner: tuple[int, int] = (0, 0)) -> Item:
    """A directory."""
    return Item(name, b"", mode, owner, tarfile.DIRTYPE)


def packed(items: list[Item], mtime: int = 1_700_000_000) -> bytes:
    """A tar of these entries, in this order."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", errors="surrogateescape", encoding="utf-8") as tar:
        for item in items:
            info = tarfile.TarInfo(item.name.decode("utf-8", "surrogateescape"))
            info.type, info.mode, (info.uid, info.gid), info.mtime = item.kind, item.mode, item.owner, mtime
            info.pax_headers = {key: value.decode("utf-8", "surrogateescape") for key, value in item.pax}
            if item.kind == tarfile.REGTYPE:
                info.size = len(item.what)
            else:
                info.linkname = item.what.decode("utf-8", "surrogateescape")
            tar.addfile(info, io.BytesIO(item.what))
    return out.getvalue()


BASE_TREE = [
    folder(b"etc"),
    Item(b"etc/keep", b"keep"),
    Item(b"etc/replaced", b"before"),
    folder(b"root", 0o700),
    folder(b"tmp", 0o1777),
    folder(b"usr"),
    folder(b"usr/bin"),
    Item(b"usr/bin/tool", b"#!tool", 0o755),
    Item(b"usr/bin/alias", b"usr/bin/tool", 0o755, kind=tarfile.LNKTYPE),
    Item(b"bin", b"usr/bin", 0o777, kind=tarfile.SYMTYPE),
]
DEEP = [b"a/opt/new/" + b"/".join([b"d" * 60] * depth) for depth in range(1, 6)]
ODD_TREE = [
    folder(b"a"),
    folder(b"a/opt", 0o711, (5, 6)),
    folder(b"a/opt/new", 0o2755, (0, 7)),
    Item(b"a/opt/new/z", b"one file", owner=(1000, 1000)),
    Item(b"a/opt/new/m", b"a/opt/new/z", owner=(1000, 1000), kind=tarfile.LNKTYPE),
    Item(b"a/opt/new/a", b"a/opt/new/z", owner=(1000, 1000), kind=tarfile.LNKTYPE),
    Item(b"a/opt/new/up", b"../../../../up", 0o777, kind=tarfile.SYMTYPE),
    Item(b"a/opt/new/out", b"/nowhere/./at/all", 0o777, kind=tarfile.SYMTYPE),
    Item(b"a/opt/new/empty", b"", 0o600, (65534, 65534)),
    folder(b"a/opt/new/void", 0o700, (3_000_000, 3_000_001)),
    Item(b"a/opt/new/setuid", b"#!", 0o4755),
    Item(b"a/opt/new/setgid", b"#!", 0o2711, (0, 50)),
    Item(b"a/opt/new/capable", b"#!", 0o755, pax=(("SCHILY.xattr.security.capability", CAPABILITY),)),
    Item(b"a/opt/new/" + b"n" * 200, b"long"),
    *map(folder, DEEP),
    Item(DEEP[-1] + b"/leaf", b"leaf"),
    Item(b"a/opt/new/\xff\xfe odd\n", b"odd"),
    Item(b"a/opt/new/\xc3\xa4", b"umlaut"),
    folder(b"a/etc"),
    Item(b"a/etc/replaced", b"after!"),
    folder(b"touched"),
    folder(b"touched/etc"),
    Item(b"touched/etc/keep", b"keep"),
    folder(b"b"),
    folder(b"b/root", 0o700),
    Item(b"b/root/x", b"x"),
    folder(b"b/tmp", 0o1777),
    Item(b"b/tmp/x", b"x", 0o640),
]
ODD = """FROM scratch AS build
ADD tree.tar /
FROM practice-odd-base:1
COPY --from=build /a/ /
COPY --from=build /touched/ /
COPY --from=build /b/ /
COPY --from=build --chown=1234:5678 /b/root/ /srv/owned/
ENV PRACTICE=odd
LABEL practice=odd
USER 1000:1000
ENTRYPOINT ["/usr/bin/tool"]
CMD ["--help"]
"""


def build(fleet: Fleet, host: str, dockerfile: str, tree: bytes, *options: str) -> None:
    """What a builder makes of a Dockerfile with this tree beside it, as sistership asks for it."""
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in (("Dockerfile", dockerfile.encode()), ("tree.tar", tree)):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    words = f"docker buildx build --provenance=false --sbom=false --load {' '.join(options)} -t {RAW} -"
    log = "/tmp/practice-build.log"
    # Once more where the engine's own clean-up came between, as sistership does.
    script = f"{words} >{log} 2>&1"
    again = f"grep -q 'parent snapshot sha256:.* does not exist' {log}"
    with_context = f"cat > /tmp/practice-context; b() {{ {script} < /tmp/practice-context; }}"
    fleet.ssh(
        host, f"{with_context}; b || {{ {again} && b; }} || {{ cat {log} >&2; exit 1; }}", stdin=context.getvalue()
    )


def canonical(fleet: Fleet, host: str, dockerfile: str, store: Store, folder_: Path) -> Image:
    """The canonical image of what a builder made, read back."""
    saved = folder_ / f"{host}.tar"
    with saved.open("wb") as file, builder_peer(host_of(fleet, host)) as peer:
        assert peer.transport.run(f"docker save {RAW}", sink=file.write).status == 0
    copies = [line for line in dockerfile.partition("practice-odd-base:1")[2].splitlines() if line.startswith("COPY")]
    return canonicalise(saved, instructions=copies, created=CREATED, labels={"practice": "odd"}, store=store)


def host_of(fleet: Fleet, name: str) -> Host:
    """A practice host, as a matrix names it."""
    return Host(name, ssh=name, ssh_config=fleet.files.ssh_config)


@pytest.fixture(scope="module")
def bases(fleet: Fleet) -> Iterator[Fleet]:
    """The fleet with one base image on every engine; only its layer is the same, configs of imports never are."""
    remove = f"docker rmi -f {BASE} {RAW} {NAME} >/dev/null 2>&1; true"
    for host in ENGINES:
        fleet.ssh(host, f"{remove}; docker import - {BASE} >/dev/null", stdin=packed(BASE_TREE))
    yield fleet
    for host in ENGINES:
        ours = (
            "docker images --format '{{.Repository}}:{{.Tag}}' | grep practice-odd: | xargs -r docker rmi -f >/dev/null"
        )
        fleet.ssh(host, f"{remove}; {ours}")


@pytest.fixture(scope="module")
def made(bases: Fleet, tmp_path_factory: pytest.TempPathFactory) -> tuple[Image, Store]:
    """The canonical image of the first builder; its store has the blobs."""
    path = tmp_path_factory.mktemp("canonical")
    store = Store(path / "store")
    build(bases, BUILDERS[0], ODD, packed(ODD_TREE))
    return canonical(bases, BUILDERS[0], ODD, store, path), store


def exported(fleet: Fleet, host: str, image: str) -> dict[str, tuple[object, ...]]:
    """Every file of a container of an image, as its engine exports it: all that counts, times left out."""
    script = f"id=$(docker create {image}) && docker export $id; docker rm $id >/dev/null"
    out = bytearray()
    with builder_peer(host_of(fleet, host)) as peer:
        assert peer.transport.run(script, sink=out.extend).status == 0
    found: dict[str, tuple[object, ...]] = {}
    with tarfile.open(fileobj=io.BytesIO(bytes(out)), encoding="utf-8", errors="surrogateescape") as tar:
        for info in tar:
            if info.name in THEIRS or info.name.startswith(("dev/", "proc/", "sys/")):
                continue
            stream = tar.extractfile(info) if info.isreg() or info.islnk() else None
            content = hashlib.sha256(stream.read()).hexdigest() if stream else info.linkname
            xattrs = tuple(item for item in info.pax_headers.items() if item[0].startswith("SCHILY.xattr."))
            # Which name of a hard link is the file depends on the order in which an engine walks.
            kind = "file" if stream else info.type
            found[info.name] = (
                kind,
                info.mode & 0o7777,
                info.uid,
                info.gid,
                content,
                xattrs if not info.islnk() else (),
            )
    return found


def test_one_digest_from_every_builder(bases: Fleet, made: tuple[Image, Store], tmp_path: Path) -> None:
    """Classic and containerd stores, with and without cache: one config digest, accepted when read back."""
    image, store = made
    assert len(image.layers) == 4, "the layer that only touched files is gone"
    read_back(image, store)
    for host in BUILDERS:
        for options in ((), ("--no-cache",)):
            build(bases, host, ODD, packed(ODD_TREE), *options)
            other = Store(tmp_path / f"{host}{len(options)}")
            again = canonical(bases, host, ODD, other, tmp_path)
            assert again.config == image.config, f"{host} {options}"
            assert read_back(again, other)["/etc/replaced"] == hashlib.sha256(b"after!").hexdigest()


def test_every_engine_holds_what_its_own_build_holds(bases: Fleet, made: tuple[Image, Store]) -> None:
    """Loaded on all engines, 20.10 among them: the predicted ID, and each file as in the builders' own images."""
    image, store = made
    release = Release("odd", "0" * 64, NAME, image, files=read_back(image, store))
    build(bases, "containerd26", ODD, packed(ODD_TREE))
    own = exported(bases, "containerd26", RAW)
    assert len(own) > len(BASE_TREE)
    assert exported(bases, "classic26", RAW) == own
    with connected([host_of(bases, host) for host in ENGINES]) as peers:
        for shipped in ship_all(peers, [release], store, Silent(), lambda *_: None):
            host = shipped.host
            assert shipped.verdict.kind is Kind.OK, f"{host}: {shipped.verdict.why}"
            shown = bases.ssh(host, f"docker image inspect --format '{{{{.Id}}}}' {NAME}").strip()
            assert shown in ({image.manifest, image.manifest_plain} if host == "containerd26" else {image.config})
            assert exported(bases, host, NAME) == own, host


def test_a_file_that_the_store_loses_is_found(bases: Fleet, tmp_path: Path) -> None:
    """The containerd store drops a second file of equal size and time; the build stage's list knows better."""
    time = (("mtime", b"1700000000.5"),)
    lost, listed = b"second", hashlib.sha256(b"second").hexdigest().encode() + b"  /app/x\n"
    tree = [folder(b"a"), folder(b"a/app"), Item(b"a/app/x", b"first.", pax=time)]
    tree += [folder(b"b"), folder(b"b/app"), Item(b"b/app/x", lost, pax=time)]
    tree += [
        folder(b"b/app/share"),
        folder(b"b/app/share/sistership"),
        Item(b"b/app/share/sistership/b.sha256", listed),
    ]
    dockerfile = (
        f"FROM scratch AS build\nADD tree.tar /\nFROM {BASE}\nCOPY --from=build /a/ /\nCOPY --from=build /b/ /\n"
    )
    for host, said in (("containerd26", "is not the file that the build stage made"), ("classic26", "two layers")):
        build(bases, host, dockerfile, packed(tree))
        store = Store(tmp_path / host)
        with pytest.raises(BuildError, match=f"/app/x .*{said}"):
            read_back(canonical(bases, host, dockerfile, store, tmp_path), store)
