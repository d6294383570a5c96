"""Root filesystems: made by mmdebstrap from packages, cached as tar+zstd, imported into the machine's engine."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import zstandard

from sistership.errors import HostUnfitError
from sistership.fleet import mirror
from sistership.fleet.process import Reporter, Sink, need, stream, tail
from sistership.fleet.spec import EPOCH, LABEL, SHARED, Root

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Sequence

    import docker

    from sistership.fleet.paths import State

#: mmdebstrap takes about a minute; a slow mirror gets this long (seconds).
PATIENCE = 1200.0
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_CHUNK = 1 << 20


def argv(root: Root, uri: str | None, options: Sequence[str] = (), program: str = "mmdebstrap") -> list[str]:
    """The mmdebstrap call that writes `root` as a tar to standard output.

    Device nodes are left out (engines make their own), and so is what names the machine it was made on.

    Args:
        root: what to make.
        uri: the mirror; None takes mmdebstrap's own default.
        options: lines for its apt, ``NAME "value"`` each.
        program: the path of mmdebstrap.
    """
    left_out = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")
    return [
        program,
        "--variant=minbase",
        "--format=tar",
        "--skip=output/dev",
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude={path}" for path in left_out),
        *(f"--aptopt={option}" for option in options),
        f"--include={','.join(sorted(root.packages))}",
        '--customize-hook=rm -f "$1/etc/resolv.conf" "$1/etc/hostname"',
        root.suite,
        "-",
        *([uri] if uri else []),
    ]


#: How this machine's apt reaches its mirror and how old it lets one be: what it trusts, root filesystems are made of.
_APT = ("Acquire::http::Proxy", "Acquire::Check-Valid-Until")


def apt_options() -> tuple[str, ...]:
    """Those settings of this machine's apt that its mirror needs, as `argv` takes them; none where there is no apt."""
    try:
        done = subprocess.run(
            ["apt-config", "dump", "--no-empty", *_APT],
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(line.removesuffix(";") for line in done.stdout.splitlines())


def explain(root: Root, log: str) -> HostUnfitError:
    """The error for a failed mmdebstrap, with the known causes named."""
    hint = "SISTERSHIP_MIRROR=URI names another Debian mirror"
    if "NO_PUBKEY" in log or "keyring" in log.lower():
        hint = "apt-get install debian-archive-keyring (one that knows the suite)"
    elif "Release file" in log and "is expired" in log:
        hint = "SISTERSHIP_MIRROR=URI names a mirror that is kept up; or see Check-Valid-Until in apt.conf(5)"
    elif "newuidmap" in log or "unshare" in log:
        hint = "apt-get install uidmap, or run as root"
    elif "No space left" in log:
        hint = "free some disk: about 1 GB in TMPDIR and in the cache"
    return HostUnfitError(
        f"root filesystem {root.suite} could not be made", where="practice fleet", why=tail(log), hint=hint
    )


def debootstrap(root: Root, sink: Sink, state: State, stop: threading.Event) -> None:
    """Write the tar of `root` into `sink`."""
    program = need("mmdebstrap", "mmdebstrap")
    if not KEYRING.is_file():
        raise HostUnfitError(
            f"{KEYRING} is missing", where="practice fleet", hint="apt-get install debian-archive-keyring"
        )
    log = state.logs / f"{root.name}.log"
    command = argv(root, mirror.find(), apt_options(), program)
    env = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH), "LC_ALL": "C.UTF-8"}
    if stream(command, sink, log=log, seconds=PATIENCE, stop=stop, env=env) != 0:
        raise explain(root, log.read_text(errors="replace"))


def tarball(root: Root, state: State, stop: threading.Event, report: Reporter) -> Path:
    """The cached ``tar.zst`` of `root`; made when missing, and only whole files ever get its name."""
    path = state.roots / f"{root.name}.tar.zst"
    if path.is_file():
        return path
    report(f"{root.suite}: unpacking Debian packages (about a minute, once)")
    state.roots.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{root.name}.", dir=state.roots)
    try:
        with os.fdopen(descriptor, "wb") as out:
            packer = zstandard.ZstdCompressor(level=3, threads=-1, write_checksum=True)
            with packer.stream_writer(out, closefd=False) as sink:
                debootstrap(root, sink, state, stop)
            out.flush()
            os.fsync(out.fileno())
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)
    return path


def unpacked(path: Path) -> Iterator[bytes]:
    """Bytes of the tar in a ``tar.zst``."""
    with path.open("rb") as packed, zstandard.ZstdDecompressor().stream_reader(packed) as reader:
        while data := reader.read(_CHUNK):
            yield data


def image(root: Root, client: docker.DockerClient, state: State, stop: threading.Event, report: Reporter) -> None:
    """Have `root` as image `root.image` in the machine's engine."""
    if client.images.list(name=root.image, filters={"label": f"{LABEL}={SHARED}"}):
        return
    path = tarball(root, state, stop, report)
    report(f"{root.suite}: importing {path.stat().st_size >> 20} MB into the engine")
    repository, tag = root.image.rsplit(":", 1)
    client.api.import_image_from_data(
        unpacked(path), repository=repository, tag=tag, changes=[f"LABEL {LABEL}={SHARED}"]
    )
    if not client.images.list(name=root.image):
        raise HostUnfitError(f"the engine did not import {path}", hint=f"rm {path} and try again")
