"""Which layers need not be sent."""

from __future__ import annotations

from dataclasses import replace

from sistership.host.facts import HostFacts
from sistership.host.held import HeldImage
from sistership.image.identity import Image, Layer
from sistership.ship.have import layers_had, manifests_of


def digest(letter: str) -> str:
    """A digest of one letter repeated."""
    return "sha256:" + letter * 64


def image(*layers: str, config: str = "e", manifest: str = "f", plain: str = "0") -> Image:
    """An image of layers named by letters: diffID "a" has the blob "A"."""
    made = tuple(Layer(digest(name), digest(name.upper()), 10, 20, False, "") for name in layers)
    return Image(digest(config), "linux/amd64", digest(manifest), digest(plain), made)


def facts(*held: HeldImage, store: str) -> HostFacts:
    """A host that holds these images."""
    return HostFacts("26.1.5", store, "ID", "linux/amd64", None, None, False, {}, frozenset(), held)


def held(image_id: str, *layers: str) -> HeldImage:
    """An image as a host shows it."""
    return HeldImage(digest(image_id), (), tuple(map(digest, layers)), "linux/amd64", {}, "")


def test_classic_needs_the_same_layers_below() -> None:
    """A chain ID covers everything below: a common prefix counts, the same layer elsewhere does not."""
    ours = image("a", "b", "c", "d")
    host = facts(held("1", "a", "b", "x"), held("2", "c", "d"), held("3", "a"), store="classic")
    assert layers_had(ours, host, {}, plain=False) == {digest("a"), digest("b")}
    assert layers_had(ours, facts(held("2", "b", "a"), store="classic"), {}, plain=False) == frozenset()


def test_containerd_needs_the_very_blob() -> None:
    """Only an image under a manifest of ours says which blobs are there; equal diffIDs prove nothing."""
    old, new = image("a", "b", "x", manifest="1", plain="2"), image("a", "b", "c")
    known = manifests_of([old])
    shipped = facts(held("1", "a", "b", "x"), store="containerd")
    assert layers_had(new, shipped, known, plain=False) == {digest("a"), digest("b")}
    foreign = facts(held("9", "a", "b", "x"), store="containerd")
    assert layers_had(new, foreign, known, plain=False) == frozenset()


def test_containerd_form_has_to_match() -> None:
    """Plain blobs do not serve an archive of zstd blobs, nor the other way round."""
    old, new = image("a", "x", manifest="1", plain="2"), image("a", "c")
    known = manifests_of([old])
    loaded_plain = facts(held("2", "a", "x"), store="containerd")
    assert layers_had(new, loaded_plain, known, plain=False) == frozenset()
    assert layers_had(new, loaded_plain, known, plain=True) == {digest("a")}


def test_image_without_layers_shown_counts_for_nothing() -> None:
    """Engine 28 shows no layers of an image that lacks a blob."""
    old, new = image("a", "x", manifest="1"), image("a", "c")
    assert layers_had(new, facts(held("1"), store="containerd"), manifests_of([old]), plain=False) == frozenset()


def test_podman_needs_the_layer_or_the_very_blob() -> None:
    """A plain layer counts wherever it lies in any image; a packed one when an image came under a manifest of ours."""
    old, new = image("a", "b", "x", config="1", manifest="2", plain="3"), image("b", "a", "c")
    known = manifests_of([old])
    by_hand = held("1", "a", "b", "x")
    assert layers_had(new, facts(by_hand, store="podman"), known, plain=True) == {digest("a"), digest("b")}
    assert layers_had(new, facts(by_hand, store="podman"), known, plain=False) == frozenset()
    shipped = replace(by_hand, digests=(f"sistership.local/x@{digest('2')}", f"other@{digest('9')}"))
    assert layers_had(new, facts(shipped, store="podman"), known, plain=False) == {digest("a"), digest("b")}


def test_blobs_that_an_engine_lists_decide() -> None:
    """Where the engine tells what it has, nothing is concluded from images: neither more nor less."""
    old, new = image("a", "x", manifest="1"), image("a", "b")
    host = replace(facts(held("1", "a", "x"), store="containerd"), blobs=frozenset({digest("B"), digest("a")}))
    known = manifests_of([old])
    assert layers_had(new, host, known, plain=False) == {digest("b")}
    assert layers_had(new, host, known, plain=True) == {digest("a")}
