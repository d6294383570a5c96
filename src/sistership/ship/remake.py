"""A host makes plain layers of what it has: of a difference and older files, or of its engine's own blobs.

The older files come out of a container that is made, read and removed; the host's own zstd makes the new layer of
them, and its sha256 is checked there before an engine sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sistership.host.commands import Commands
from sistership.host.facts import STAGE
from sistership.host.inventory import Peer
from sistership.host.openfiles import FOLDERS, READ_OUT
from sistership.host.sums import SHA256
from sistership.host.transport import quote
from sistership.image.difference import Difference
from sistership.image.identity import Layer
from sistership.ship.leftovers import COPIES
from sistership.ship.plan import Encoding, HostPlan, LayerPlan, staged_name

_NO_CONTAINER, _NO_FILES, _NO_DECODING, _WRONG_SUM, _NO_BLOB = range(11, 16)
_WHY: Final = {
    _NO_CONTAINER: "no container can be made of the older image",
    _NO_FILES: "the older image's files cannot be read",
    _NO_DECODING: "zstd there could not unpack it",
    _WRONG_SUM: "the layer came out wrong; the older image's files are not as they were built",
    _NO_BLOB: "its engine does not give the blob",
}


def apply(peer: Peer, plan: HostPlan, each: LayerPlan) -> str:
    """Have a host make the layer of its difference, which is staged. Returns why it could not; "" when it did.

    Raises:
        HostUnreachableError: the connection was cut.
    """
    if each.difference is None:
        return ""
    script = apply_script(peer.engine, plan.older, each.layer, each.difference, each.file)
    return _trouble(peer, script)


def copy(peer: Peer, plan: HostPlan) -> str:
    """Have a host unpack its engine's own blobs. Returns why it could not; "" when it did, or had none to unpack.

    Raises:
        HostUnreachableError: the connection was cut.
    """
    copies = [each for each in plan.layers if each.state == "copy"]
    return _trouble(peer, copy_script(peer.engine, plan.older, copies)) if copies else ""


def _trouble(peer: Peer, script: str) -> str:
    done = peer.transport.run(script, timeout=3600)
    if done.status == 0:
        return ""
    words = done.text.strip().splitlines()
    why = _WHY.get(done.status, f"exit status {done.status}")
    return f"{why}: {words[-1][:200]}" if words and done.status != _WRONG_SUM else why


def apply_script(engine: Commands, held: str, layer: Layer, difference: Difference, file: str) -> str:
    """Make a plain layer of a staged difference and the files of an image that the host holds.

    Nothing of the image is run. zstd says nothing of wrong old bytes: the layer's sha256 does. The shell's number is in
    the names of what is not checked yet: the script of a ship whose link was cut may still be at work.
    """
    plain = staged_name(layer, Encoding.PLAIN)
    part, base = _own(f"{plain}.$$.part"), _own(f"{layer.diff_id.removeprefix('sha256:')}.$$.base")
    said = _own(f"{plain}.$$.said")
    files = " && ".join(f"read_out {quote(path)}" for path in difference.files)
    # The status of a pipe is that of its end: a file that broke off is told by its size.
    sizes = f'[ "$(wc -c < {base})" -eq {difference.base_size} ]'
    window = layer.plain_size + (1 << 20)
    # Hashed on its way to the disk, which may be full: then the file is short.
    whole = f'[ "$(wc -c < {part})" -eq {layer.plain_size} ]'
    return f"""{engine.functions}{SHA256}{READ_OUT}
cd {STAGE} || exit 1
open_image {quote(held)} || exit {_NO_CONTAINER}
trap 'close_image >/dev/null 2>&1; rm -f -- {base} {part} {said}' EXIT; trap 'exit 1' HUP INT TERM
{FOLDERS}
{{ {files}; }} > {base} 2>/dev/null && {sizes} || exit {_NO_FILES}
sum=$({{ zstd -dqc --patch-from={base} --memory={window} {quote(file)} 2>{said} || echo "zstd failed" >>{said}; }} |
  tee {part} | sha256)
if [ "$sum" != {layer.diff_id.removeprefix("sha256:")} ] || ! {whole}; then
  [ ! -s {said} ] || {{ head -n 1 {said}; exit {_NO_DECODING}; }}
  [ "$sum" != {layer.diff_id.removeprefix("sha256:")} ] || {{ echo "the disk is full"; exit {_NO_DECODING}; }}
  exit {_WRONG_SUM}
fi
mv {part} {quote(plain)} && rm -f -- {quote(file)}
"""


def _own(name: str) -> str:
    """A name with the number of the shell that runs, as a word for it; ours have nothing else that a shell reads."""
    return f'"{name}"'


def copy_script(engine: Commands, held: str, copies: Sequence[LayerPlan]) -> str:
    """Stage plain layers out of the zstd blobs that the engine keeps of an image; each is checked by its sha256."""
    folder = _own(f"{COPIES}.$$")
    blobs = {each.layer.diff_id: f"blobs/sha256/{each.blob.removeprefix('sha256:')}" for each in copies}
    lines = []
    for each in copies:
        blob, plain = quote(blobs[each.layer.diff_id]), quote(each.loads)
        part = _own(f"{each.loads}.$$.part")
        lines.append(
            f"zstd -dcq {folder}/{blob} > {part} && rm -f -- {folder}/{blob} || exit {_NO_BLOB}\n"
            f'[ "$(sha256 < {part})" = {each.layer.diff_id.removeprefix("sha256:")} ] || exit {_WRONG_SUM}\n'
            f"mv {part} {plain} || exit 1"
        )
    parts = " ".join(_own(f"{each.loads}.$$.part") for each in copies)
    body = "\n".join(lines)
    return f"""{engine.functions}{SHA256}
cd {STAGE} && rm -rf {folder} && mkdir {folder} || exit 1
trap 'rm -rf {folder}; rm -f -- {parts}' EXIT; trap 'exit 1' HUP INT TERM
save_image {quote(held)} | tar -C {folder} -xf - {quote(*blobs.values())} 2>&1 || exit {_NO_BLOB}
{body}
"""
