"""What looks right and is not, or looks wrong and is right: noise, lies and damage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .cables import MIDWAY
from .fault import Fault, Strike
from .scene import STAGE, Ended, Scene

NOISE = "echo '*** welcome ***'; echo '{\"Id\": \"sha256:0\"}'; head -c 3000000 /dev/zero | tr '\\0' x >&2; echo >&2"
CHATTY = """#!/bin/sh
head -c 300000 /dev/zero | tr '\\0' '\\n' >&2; echo 'WARNING: Error response from daemon: this is a joke' >&2
exec /usr/bin/docker "$@"
"""
#: A load that reads everything, says what a load says, and does nothing.
SAYS_LOADED = """#!/bin/sh
case " $* " in *" load "*) cat >/dev/null; echo "Loaded image: UNIQUE"; exit 0 ;; esac
exec /usr/bin/docker "$@"
"""
#: The same, and the image is shown as if it were there.
SHOWS_IT = """#!/bin/sh
case " $* " in
  *" load "*) cat >/dev/null; : > /run/fault.shown; echo "Loaded image: UNIQUE"; exit 0 ;;
  *" image inspect "*"json ."*) /usr/bin/docker "$@"; [ ! -e /run/fault.shown ] || cat /root/shown.json; exit 0 ;;
esac
exec /usr/bin/docker "$@"
"""
#: A load to which the last layer never comes, and which says that all is well.
LACKS_A_LAYER = """#!/bin/sh
case " $* " in
  *" load "*) tar --delete -f - PACKED 2>/dev/null | tar --delete -f - PLAIN 2>/dev/null |
      /usr/bin/docker "$@" >/dev/null 2>&1; cat >/dev/null
    echo "Loaded image: UNIQUE"; exit 0 ;;
esac
exec /usr/bin/docker "$@"
"""
WRONG_SUM = "#!/bin/sh\ncat >/dev/null\necho 'ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff  -'\n"
#: Says what one hopes to hear: the sum that the name of the file promises which is arriving.
HOPED_SUM = f"""#!/bin/sh
name=$(ls {STAGE} | sed -n 's/[.]zst[.]part$//p' | head -n 1)
[ -n "$name" ] || exec /usr/bin/sha256sum "$@"
cat >/dev/null; echo "$name  -"
"""


@contextmanager
def noisy_login(scene: Scene) -> Iterator[Ended]:
    """Login files print text to standard output and megabytes to standard error, on every connection."""
    scene.everywhere(f"cp -p /root/.bashrc /root/bashrc.kept; printf '%s\\n' {_quoted(NOISE)} > /root/.bashrc")
    try:
        yield scene.ship()
    finally:
        scene.everywhere("mv /root/bashrc.kept /root/.bashrc")


@contextmanager
def chatty_docker(scene: Scene) -> Iterator[Ended]:
    """The docker command writes pages of warnings to standard error, whatever it does."""
    scene.stand_in("docker", CHATTY)
    yield scene.ship()
    scene.honest()


def lying_docker(script: str) -> Strike:
    """The docker command says what is not so."""

    @contextmanager
    def strike(scene: Scene) -> Iterator[Ended]:
        record = scene.project.record()
        last = {name: f"blobs/{record['layers'][-1][name].replace(':', '/')}" for name in ("digest", "diff_id")}
        text = script.replace("UNIQUE", scene.project.unique())
        # Whichever form an engine gets.
        scene.stand_in("docker", text.replace("PACKED", last["digest"]).replace("PLAIN", last["diff_id"]))
        ended = scene.ship()
        scene.honest()
        scene.everywhere("rm -f /run/fault.shown")
        yield ended

    return strike


def _sums(scene: Scene, script: str) -> None:
    """Sums are made by a stand-in for sha256sum; an openssl that does not work is passed over."""
    scene.stand_in("openssl", "#!/bin/sh\nexit 1\n")
    scene.stand_in("sha256sum", script)


@contextmanager
def wrong_sums(scene: Scene) -> Iterator[Ended]:
    """The host's sha256sum is broken."""
    _sums(scene, WRONG_SUM)
    ended = scene.ship()
    scene.honest()
    yield ended


@contextmanager
def hoped_sums(scene: Scene) -> Iterator[Ended]:
    """The host's disk damages what arrives, and its sha256sum says that all is well."""
    _sums(scene, HOPED_SUM)
    process = scene.held_at_byte(MIDWAY)
    scene.everywhere(f"printf x | dd of=$(ls {STAGE}/*.part) bs=1 seek=5000000 conv=notrunc 2>/dev/null")
    scene.let_go()
    ended = scene.finish(process)
    scene.honest()
    yield ended


@contextmanager
def staged_layer_rots(scene: Scene) -> Iterator[Ended]:
    """A layer that was checked and has its name is damaged on the host's disk before it is loaded."""
    first = max(scene.layers(), key=lambda name: scene.layers()[name])
    process = scene.held_at_byte(scene.layers()[first] + MIDWAY)
    scene.everywhere(f"printf x | dd of={STAGE}/{first} bs=1 seek=5000000 conv=notrunc 2>/dev/null")
    scene.let_go()
    yield scene.finish(process)


def _largest(scene: Scene) -> Path:
    layers = scene.project.record()["layers"]
    digest = max(layers, key=lambda layer: layer["size"])["digest"]
    return Path(scene.project.environ["SISTERSHIP_STORE"]) / "blobs" / digest.replace(":", "/")


def _flip(blob: Path) -> None:
    """One byte of a file becomes another."""
    with blob.open("r+b") as stream:
        stream.seek(-1000, 2)
        byte = stream.read(1)
        stream.seek(-1, 1)
        stream.write(bytes([byte[0] ^ 1]))


@contextmanager
def store_damaged(scene: Scene) -> Iterator[Ended]:
    """A byte of the store is damaged: nothing of that blob is sent; build brings it back."""
    blob = _largest(scene)
    whole = blob.read_bytes()
    _flip(blob)
    try:
        ended = scene.ship()
        for host, staged in scene.on_all(scene.staged).items():
            assert not [name for name in staged if name.startswith(blob.name)], (host, staged)
        assert "fetched from" in scene.project.run("build", "--variant", "sample").out
    except BaseException:
        blob.write_bytes(whole)  # the store is that of other tests too
        raise
    yield ended


@contextmanager
def store_rots_meanwhile(scene: Scene) -> Iterator[Ended]:
    """A byte of the store is damaged after it was checked, before it is sent."""
    blob = _largest(scene)
    process = scene.held_at_byte(MIDWAY)
    _flip(blob)
    scene.let_go()
    ended = scene.finish(process)
    _flip(blob)
    yield ended


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


LIES = [
    Fault("text on stdout, megabytes on stderr", noisy_login, {0}),
    Fault("chatty docker", chatty_docker, {0}),
    Fault("says loaded, loads nothing", lying_docker(SAYS_LOADED), {22}, "after the load it is missing"),
    Fault("shows an image that is not there", lying_docker(SHOWS_IT), {22}, "after the load it is incomplete"),
    Fault("lacks a layer, says loaded", lying_docker(LACKS_A_LAYER), {22}, "after the load it is (incomplete|missing)"),
    Fault("sha256sum is broken", wrong_sums, {22}, "wrong checksum", damages=True),
    # The engine reads a layer while it arrives: what it read before the damage is right.
    Fault("sha256sum says what we hope", hoped_sums, {0, 22}, "refused|after the load", damages=True, ships=2),
    Fault("staged layer rots", staged_layer_rots, {0, 22}, "refused|after the load", damages=True, ships=2),
    Fault("store damaged", store_damaged, {22}, "damaged in the store"),
    Fault("store damaged while sending", store_rots_meanwhile, {22}, "wrong checksum", damages=True),
]
