"""Bases out of their registry into the store, by way of the builder: it has the credentials, the proxy and the mirror.

The engine pulls and saves; what the pin names is asked as it is, byte for byte, and proves what the engine gave.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial

from sistership.build.build import called, path_of
from sistership.build.causes import explain
from sistership.errors import BuildError
from sistership.host.docker import store_of
from sistership.host.inventory import Peer
from sistership.host.transport import quote
from sistership.image.bases import Base, Kept, config_digest, keep, kept, manifest_digest
from sistership.image.identity import digest_of
from sistership.image.layout import Store
from sistership.report.listeners import Reporter, counted
from sistership.report.words import mebibytes

_NOT_PULLED = 3


def document_script(docker: str, reference: str) -> str:
    """Print what a registry has under a pin, byte for byte."""
    return f"{docker} buildx imagetools inspect --raw {quote(reference)}"


def save_script(docker: str, reference: str, platform: str) -> str:
    """Pull an image and print it as `docker save` does; it is removed again unless it was there before.

    Args:
        reference: `name@sha256:…` of one platform's manifest. An index would move what the engine has under it
            for another platform.
    """
    name = quote(reference)
    return f"""
if ! {docker} image inspect {name} >/dev/null 2>&1; then
  trap '{docker} image rm {name} >/dev/null 2>&1' EXIT; trap 'exit 1' HUP INT TERM
fi
{docker} pull --platform {quote(platform)} {name} >&2 || exit {_NOT_PULLED}
{docker} save {name}
"""


def export_script(docker: str, reference: str, platform: str) -> str:
    """Print an image as an OCI layout, built from a Dockerfile that says nothing but FROM.

    The containerd store does not fetch a layer's blob again when it has the layer unpacked under another compression,
    as after a build from this very archive; then `docker save` gives no layers, without an error (Engine 26.1).
    BuildKit makes the blob anew. It spells the config in its own way, so that is asked from the registry.
    """
    words = ["buildx", "build", "--platform", platform, "--provenance=false", "--sbom=false"]
    words += ["--output", "type=oci,dest=-", "--progress", "plain"]
    return f"printf 'FROM %s\\n' {quote(reference)} | {docker} {quote(*words)} -"


def archive(peer: Peer, base: Base, store: Store, reporter: Reporter) -> Kept:
    """Have a base in the store; one that is there and whole is not asked for again.

    Raises:
        BuildError: its registry does not give it, or the engine gave something else.
        HostUnreachableError, HostUnfitError: the builder does not answer.
        SistershipError: the store cannot be written.
    """
    there = kept(base, store)
    if there is not None:
        return Kept(base, there, 0)
    named = _document(peer, base.reference, base.digest, base)
    digest = manifest_digest(named, base)
    exact = f"{base.repository}@{digest}"
    documents = [named] if digest == base.digest else [named, _document(peer, exact, digest, base)]
    reporter.step(peer.name, f"fetching {base.reference.partition('@')[0]} for {base.platform}")
    try:
        return _taken(peer, base, save_script(peer.engine.cli, exact, base.platform), documents, store, reporter)
    except BuildError as error:
        if not _keeps_blobs(peer):
            raise
        reporter.detail(f"{peer.name}: {error}")
    config = config_digest(base, {digest_of(document): document for document in documents})
    documents.append(_document(peer, f"{base.repository}@{config}", config, base))
    reporter.step(peer.name, "its engine did not save it whole; exporting it by a build")
    return _taken(peer, base, export_script(peer.engine.cli, exact, base.platform), documents, store, reporter)


def _keeps_blobs(peer: Peer) -> bool:
    """Whether the engine has the containerd store, which may lack a blob of an image that it runs."""
    done = peer.transport.run(f"{peer.engine.cli} info --format '{{{{json .}}}}'", timeout=60)
    try:
        return store_of(json.loads(done.text)) == "containerd"
    except (AttributeError, ValueError):
        return False


def _taken(peer: Peer, base: Base, script: str, documents: Sequence[bytes], store: Store, reporter: Reporter) -> Kept:
    """What a script prints of a base, in the store."""
    with store.scratch() as saved:
        ended = peer.transport.run(script, sink=counted(saved.write, reporter, peer.name, "saved"))
        if ended.status != 0:
            verb = "fetched" if ended.status == _NOT_PULLED else "saved"
            raise _failed(f"the base {base.reference} cannot be {verb}", peer.name, ended.err)
        reporter.step(peer.name, f"saved {mebibytes(saved.tell())}")
        reporter.step("", f"archiving {base.reference.partition('@')[0]}")
        with called(path_of(saved), f"what {peer.name} saved") as path:
            return keep(path, base, documents, store, partial(reporter.progress, "", "archived"))


def summary(found: Iterable[Kept]) -> str:
    """What the archive holds of these bases: "2 bases, 3 layers, 412.0 MiB, of them 60.0 MiB new"."""
    each = list({one.base: one for one in found}.values())
    layers = {layer.digest: layer.size for one in each for layer in one.image.layers}
    new = sum(one.new for one in each)
    counted = ", ".join(
        f"{number} {word}{'s' * (number != 1)}" for number, word in ((len(each), "base"), (len(layers), "layer"))
    )
    return f"{counted}, {mebibytes(sum(layers.values()))}, " + (f"of them {mebibytes(new)} new" if new else "none new")


def _document(peer: Peer, reference: str, digest: str, base: Base) -> bytes:
    done = peer.transport.run(document_script(peer.engine.cli, reference), timeout=180)
    if done.status != 0:
        raise _failed(f"the manifest of the base {base.reference} cannot be fetched", peer.name, done.err)
    # Some versions of buildx end it with a newline of their own.
    for document in (done.out, done.out.removesuffix(b"\n")):
        if digest_of(document) == digest:
            return document
    raise BuildError(
        f"the registry answers for {reference} with something else",
        where=peer.name,
        why=f"it has the digest {digest_of(done.out)}",
        hint="is there a proxy between that rewrites answers?",
    )


def _failed(what: str, builder: str, words: str) -> BuildError:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    cause = explain(words)
    return BuildError(
        what,
        where=builder,
        why=lines[-1][:300] if lines else None,
        hint=cause.hint if cause else "check `base:` in the matrix and the builder's way to that registry",
    )
