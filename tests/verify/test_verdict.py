"""What a host's answer means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sistership.host.facts import HostFacts
from sistership.host.held import HeldImage, held_image
from sistership.image.identity import Image, Layer
from sistership.image.release import Release
from sistership.verify.verdict import CODES, Kind, Proof, Verdict, candidate, judge


def digest(letter: str) -> str:
    """A digest of one letter repeated."""
    return "sha256:" + letter * 64


LAYERS = tuple(Layer(digest(d), digest(b), 10, 20, base, by) for d, b, base, by in (
    ("1", "a", True, "base layer 1"), ("2", "b", False, "COPY lib"), ("3", "c", False, "COPY bin")))  # fmt: skip
IMAGE = Image(digest("e"), "linux/amd64", digest("f"), digest("0"), LAYERS)
FIELDS = {"created": "2026-05-01T10:00:00Z", "config": {"Env": ["A=1"], "Labels": {"x": "y"}}}
RELEASE = Release("turboquant", "9" * 64, "llamacpp:v1", IMAGE, ("89", "120"), fields=FIELDS)
WHOLE = Proof(created=True)


def held(image_id: str, *tags: str, diff_ids: tuple[str, ...] = IMAGE.diff_ids, **changes: object) -> HeldImage:
    """An image as an engine shows it."""
    image = HeldImage(image_id, tags, diff_ids, "linux/amd64", FIELDS["config"], str(FIELDS["created"]))
    return replace(image, **changes)


def facts(*images: HeldImage, store: str = "classic", platform: str = "linux/amd64") -> HostFacts:
    """A host that holds these images."""
    return HostFacts("26.1.5", store, "ID", platform, 1 << 40, 1 << 40, False, {}, frozenset({"zstd"}), images)


def verdict(host: HostFacts, proof: Proof | None = WHOLE) -> Verdict:
    """The verdict on RELEASE."""
    return judge(RELEASE, host, proof)


def test_each_store_shows_its_own_id_for_one_image() -> None:
    """Config digest on classic and Podman, either manifest digest on containerd: one image, all ok (case D55)."""
    assert verdict(facts(held(IMAGE.config, "llamacpp:v1"))).kind is Kind.OK
    assert verdict(facts(held(IMAGE.config, "llamacpp:v1"), store="podman")).kind is Kind.OK
    assert verdict(facts(held(IMAGE.manifest, "llamacpp:v1"), store="containerd")).kind is Kind.OK
    assert verdict(facts(held(IMAGE.manifest_plain, "llamacpp:v1"), store="containerd")).kind is Kind.OK


def test_an_id_of_the_other_store_proves_nothing() -> None:
    """The config digest shown by a containerd store is no ID of this image there."""
    other = held(IMAGE.config, "llamacpp:v1", created="2020-01-01T00:00:00Z")
    assert verdict(facts(other, store="containerd")).kind is Kind.DIFFERENT


def test_unknown_manifest_with_equal_fields_is_the_same_image() -> None:
    """Recompressed on the way: layers, platform, date and runtime fields equal, so ok, with a note (case D55)."""
    found = verdict(facts(held(digest("7"), "llamacpp:v1"), store="containerd"))
    assert found.kind is Kind.OK
    assert "another manifest" in found.why


@pytest.mark.parametrize(
    "change",
    [
        {"created": "2026-05-01T10:00:01Z"},
        {"config": {"Env": ["A=2"], "Labels": {"x": "y"}}},
        {"diff_ids": (digest("1"), digest("2"), digest("4"))},
        {"diff_ids": (digest("2"), digest("1"), digest("3"))},
        {"diff_ids": ()},
        {"platform": "linux/arm64"},
    ],
)
def test_one_changed_field_is_a_difference(change: dict[str, object]) -> None:
    """Under an unknown manifest a single changed field or layer, or their order, makes it different (case D55)."""
    found = verdict(facts(replace(held(digest("7"), "llamacpp:v1"), **change), store="containerd"))
    assert found.kind is Kind.DIFFERENT
    assert found.exit_code == 23


def test_two_unknowns_are_never_equal() -> None:
    """Without the config at hand nothing but a known ID is believed."""
    release = replace(RELEASE, fields=None)
    assert judge(release, facts(held(digest("7"), "llamacpp:v1"), store="containerd"), WHOLE).kind is Kind.DIFFERENT


def test_repo_digests_play_no_part() -> None:
    """With a RepoDigest of another registry, of another digest, or with none: the same verdict (case D59)."""
    document = {"Id": IMAGE.config, "RepoTags": ["llamacpp:v1"], "RootFS": {"Layers": list(IMAGE.diff_ids)}}
    document |= {"Os": "linux", "Architecture": "amd64", "Created": "2026-05-01T10:00:00Z", "Config": {}}
    for digests in (None, [], ["registry.example/x@" + digest("5")]):
        assert verdict(facts(held_image({**document, "RepoDigests": digests}))).kind is Kind.OK


def test_missing() -> None:
    """Neither name nor ID is there."""
    found = verdict(facts(held(digest("7"), "other:v1")), None)
    assert (found.kind, found.exit_code) == (Kind.MISSING, 22)


def test_replaced_under_the_same_tag() -> None:
    """Another image under the people's name, ours gone: different, and which layer."""
    other = held(digest("7"), "llamacpp:v1", diff_ids=(digest("1"), digest("8"), digest("3")))
    found = verdict(facts(other), None)
    assert (found.kind, found.exit_code, found.shown) == (Kind.DIFFERENT, 23, digest("7"))
    assert found.why == "layer 2 of 3 is 888888888888, should be 222222222222"


def test_difference_names_the_field() -> None:
    """Equal layers under another config: the differing field is named."""
    other = held(digest("7"), "llamacpp:v1", config={"Env": ["A=2"], "Labels": {"x": "y"}})
    assert verdict(facts(other), None).why == "same layers, but Env differs"


def test_tag_moved_away() -> None:
    """Ours is there under its own name, but people's name points elsewhere, or nowhere."""
    ours = held(IMAGE.config, RELEASE.unique)
    elsewhere = verdict(facts(ours, held(digest("7"), "llamacpp:v1")))
    assert (elsewhere.kind, elsewhere.exit_code, elsewhere.shown) == (Kind.TAG_MOVED, 23, digest("7"))
    assert "now 777777777777" in elsewhere.why
    assert "gone" in verdict(facts(ours)).why


def test_right_id_without_a_container_is_incomplete() -> None:
    """The containerd store shows the right ID for an image that lacks a layer: only a container proves it."""
    ours = held(IMAGE.manifest, "llamacpp:v1")
    found = verdict(facts(ours, store="containerd"), Proof(created=False, error="x\nfailed to stat: not found"))
    assert (found.kind, found.exit_code) == (Kind.INCOMPLETE, 22)
    assert "failed to stat: not found" in found.why
    assert verdict(facts(ours, store="containerd"), None).kind is Kind.INCOMPLETE


def test_right_id_without_layers_is_incomplete() -> None:
    """Engine 28 and later show no layers when a blob is missing."""
    ours = held(IMAGE.manifest, "llamacpp:v1", diff_ids=())
    assert verdict(facts(ours, store="containerd")).kind is Kind.INCOMPLETE


def test_other_platform() -> None:
    """An arm64 host is told apart before anything else, whatever it holds."""
    found = verdict(facts(held(IMAGE.config, "llamacpp:v1"), platform="linux/arm64"))
    assert (found.kind, found.exit_code) == (Kind.WRONG_PLATFORM, 21)


def test_gpu_without_code() -> None:
    """A whole image without code for the host's GPU is not ok."""
    found = judge(RELEASE, facts(held(IMAGE.config, "llamacpp:v1")), WHOLE, ("12.1",))
    assert (found.kind, found.exit_code) == (Kind.NO_KERNELS, 21)
    assert "12.1" in found.why


def test_whole_image_beats_a_namesake() -> None:
    """When a foreign image has our unique name, ours is still found by its ID."""
    ours = held(IMAGE.config)
    assert candidate(RELEASE, facts(held(digest("7"), RELEASE.unique), ours)) == ours


def test_every_verdict_has_a_code() -> None:
    """Only ok is 0; unknown counts as a difference."""
    assert set(CODES) == set(Kind)
    assert [kind for kind in Kind if CODES[kind] == 0] == [Kind.OK]
    assert CODES[Kind.UNKNOWN] == 23
