"""Podman keeps a damaged layer of an image that it has: the image goes, is loaded again, and gets its names back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sistership.host.facts import HostFacts
from sistership.host.held import HeldImage
from sistership.host.inventory import Peer
from sistership.host.local import Local
from sistership.host.podman import Podman
from sistership.image.identity import Image, Layer
from sistership.image.release import Release
from sistership.matrix.model import Host
from sistership.ship.anew import load_anew
from sistership.verify.hosts import Seen
from sistership.verify.verdict import Proof

ID, LAYER = "sha256:" + "e" * 64, "sha256:" + "1" * 64
IMAGE = Image(ID, "linux/amd64", "sha256:" + "f" * 64, "sha256:" + "0" * 64, (Layer(LAYER, LAYER, 1, 1, False, "x"),))
RELEASE = Release("sample", "9" * 64, "sample:v1", IMAGE)
HELD = HeldImage(ID, (RELEASE.unique, "sample:v1"), (LAYER,), "linux/amd64", {}, "")


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    """This machine, whose engine notes what it is asked."""
    podman = tmp_path / "podman"
    podman.write_text(f'#!/bin/sh\necho "$1 $2 $3 $4" >> {tmp_path}/asked\n')
    podman.chmod(0o755)
    transport = Local("here")
    yield Peer(Host("here", local=True, engine="podman"), transport, Podman(str(podman)))
    transport.close()


def seen(store: str = "podman", *, whole: bool = False, held: bool = True) -> Seen:
    """The host after the load."""
    images = (HELD,) if held else ()
    facts = HostFacts("5.4.2", store, "ID", "linux/amd64", None, None, False, {}, frozenset(), images, engine="podman")
    return Seen(facts, {ID: Proof(whole, "lower layer is gone")})


def test_a_broken_image_is_loaded_anew(peer: Peer, tmp_path: Path) -> None:
    """By all of its names it goes, before it is loaded, and people's name is there again afterwards."""
    said: list[str] = []

    def load() -> None:
        with (tmp_path / "asked").open("a") as file:
            file.write("load\n")

    assert load_anew(peer, RELEASE, seen(), load, said.append)
    assert (tmp_path / "asked").read_text().splitlines() == [
        f"image rm --no-prune {RELEASE.unique}",
        "image rm --no-prune localhost/sample:v1",
        "load",
        f"tag {ID} {RELEASE.unique} ",
        f"tag {ID} localhost/sample:v1 ",
    ]
    assert "lower layer is gone" in said[0]


@pytest.mark.parametrize("host", [seen(whole=True), seen("classic"), seen(held=False)], ids=["whole", "docker", "none"])
def test_nothing_else_is_touched(peer: Peer, tmp_path: Path, host: Seen) -> None:
    """A whole image stays as it is, and other engines mend theirs by a load."""
    assert not load_anew(peer, RELEASE, host, lambda: pytest.fail("it was loaded"), print)
    assert not (tmp_path / "asked").exists()
