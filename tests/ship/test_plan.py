"""What a ship would do, decided from facts alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sistership.errors import HostUnfitError
from sistership.host.facts import HostFacts
from sistership.host.held import HeldImage
from sistership.image.identity import Image, Layer
from sistership.image.release import Release
from sistership.ship.plan import Action, Encoding, encoding_for, plan_host
from sistership.verify.verdict import Kind, Verdict


def digest(letter: str) -> str:
    """A digest of one letter repeated."""
    return "sha256:" + letter * 64


LAYERS = (
    Layer(digest("1"), digest("a"), 100, 300, True, "base layer 1"),
    Layer(digest("2"), digest("b"), 50, 200, False, "COPY lib"),
    Layer(digest("2"), digest("b"), 50, 200, False, "COPY lib again"),
)
IMAGE = Image(digest("e"), "linux/amd64", digest("f"), digest("0"), LAYERS)
RELEASE = Release("sample", "9" * 64, "sample:v1", IMAGE)
MISSING = Verdict(Kind.MISSING)


def facts(**changes: object) -> HostFacts:
    """A roomy host with a current engine and nothing on it."""
    host = HostFacts(
        "26.1.5", "classic", "ID", "linux/amd64", 1 << 40, 1 << 40, False, {}, frozenset({"zstd", "gzip"}), ()
    )
    return replace(host, **changes)


@pytest.mark.parametrize(
    ("store", "version", "tools", "encoding", "plain"),
    [
        ("containerd", "26.1.5", {"zstd", "gzip"}, Encoding.ZSTD, False),
        ("classic", "26.1.5", {"zstd", "gzip"}, Encoding.ZSTD, True),
        ("classic", "23.0.1", set(), Encoding.ZSTD, False),
        ("classic", "20.10.24+dfsg1", {"zstd", "gzip"}, Encoding.ZSTD, True),
        ("classic", "20.10.24+dfsg1", {"gzip"}, Encoding.GZIP, True),
        ("classic", "20.10.24+dfsg1", set(), Encoding.PLAIN, True),
    ],
)
def test_encoding_is_chosen_before_anything_is_sent(
    store: str, version: str, tools: set[str], encoding: Encoding, plain: bool
) -> None:
    """Compressed where the store keeps it so; else unpacked by zstd there, the engine, gzip, or here (case C51)."""
    assert encoding_for(facts(store=store, version=version, tools=frozenset(tools))) == (encoding, plain)


def test_missing_image_is_sent_once_per_layer() -> None:
    """A layer that occurs twice in the image travels once."""
    plan = plan_host("h", RELEASE, facts(), MISSING)
    assert plan.action is Action.LOAD
    assert [layer.file for layer in plan.layers] == ["a" * 64 + ".zst", "b" * 64 + ".zst"]
    assert plan.send == 150


def test_what_is_staged_is_not_sent_again() -> None:
    """A finished file is not sent, an unfinished one from where it stopped."""
    staged = {"a" * 64 + ".zst": 100, "b" * 64 + ".zst.part": 20}
    plan = plan_host("h", RELEASE, facts(staged=staged), MISSING)
    assert [(layer.state, layer.send) for layer in plan.layers] == [("staged", 0), ("send", 30)]


@pytest.mark.parametrize(
    ("changes", "file", "sizes"),
    [
        ({}, "b" * 64 + ".zst", {50: 0, 49: 50, 0: 50, 51: 50}),
        ({"version": "20.10.24", "tools": frozenset()}, "2" * 64 + ".tar", {200: 0, 199: 200, 0: 200}),
        ({"version": "20.10.24"}, "2" * 64 + ".tar", {200: 0, 50: 50, 0: 50}),
        ({"version": "20.10.24", "tools": frozenset({"gzip"})}, "2" * 64 + ".gz", {7: 0, 0: 200}),
    ],
)
def test_file_that_a_power_cut_left_short_is_sent_again(
    changes: dict[str, object], file: str, sizes: dict[int, int]
) -> None:
    """A finished name is not enough: its bytes have to be as many as they were; of gzip only an empty one is told."""
    for size, send in sizes.items():
        plan = plan_host("h", RELEASE, facts(staged={file: size}, **changes), MISSING)
        assert (plan.layers[1].state, plan.layers[1].send) == ("send" if send else "staged", send)


def test_whole_image_means_nothing_to_do() -> None:
    """Nothing is sent, loaded or tagged when the host verifies."""
    plan = plan_host("h", RELEASE, facts(), Verdict(Kind.OK))
    assert (plan.action, plan.send, plan.layers, plan.moves) == (Action.NOTHING, 0, (), None)


def test_moved_tag_is_only_moved_back_and_the_other_kept() -> None:
    """No bytes for a tag; what the tag points to now is kept under a rollback name (case C40)."""
    other = HeldImage(digest("7"), ("sample:v1",), (), "linux/amd64", {}, "")
    plan = plan_host("h", RELEASE, facts(images=(other,)), Verdict(Kind.TAG_MOVED))
    assert (plan.action, plan.send) == (Action.TAG, 0)
    assert plan.moves == (digest("7"), "sample:rollback-777777777777")
    assert "keep 777777777777 as sample:rollback-777777777777" in plan.steps


def test_small_disks_are_refused_before_anything_is_sent() -> None:
    """Staging and the engine's own disk are both asked, with the figures."""
    with pytest.raises(HostUnfitError, match=r"staging folder needs 64\.0 MiB, 1000 B are free"):
        plan_host("h", RELEASE, facts(stage_free=1000), MISSING)
    for free in (0, 1000):
        with pytest.raises(HostUnfitError, match="the engine needs"):
            plan_host("h", RELEASE, facts(free=free), MISSING)
    plan_host("h", RELEASE, facts(free=None, stage_free=None), MISSING)


def test_one_disk_holds_both_what_is_staged_and_what_is_loaded() -> None:
    """Where staging and engine share a file system their needs add up."""
    plan = plan_host("h", RELEASE, facts(), MISSING)
    room = plan.disk + (64 << 20) + plan.stage - 1
    plan_host("h", RELEASE, facts(free=room, stage_free=room), MISSING)
    with pytest.raises(HostUnfitError, match="the engine needs"):
        plan_host("h", RELEASE, facts(free=room, stage_free=room, one_disk=True), MISSING)


def test_other_platform_is_refused() -> None:
    """No plan for a host that cannot run the image, exit code 21."""
    with pytest.raises(HostUnfitError, match="wrong platform") as caught:
        plan_host("h", RELEASE, facts(), Verdict(Kind.WRONG_PLATFORM, why="the host is linux/arm64"))
    assert caught.value.code == 21


def test_podman_needs_room_for_temporary_files() -> None:
    """It writes what it loads to another folder three times over: on a disk of its own, or on one of the others."""
    podman = {"engine": "podman", "store": "podman", "version": "5.4.2"}
    plan = plan_host("h", RELEASE, facts(**podman), MISSING)
    assert (plan.encoding, plan.plain) == (Encoding.ZSTD, False)
    assert (plan.disk, plan.stage, plan.spool) == (500, 150, 450)
    slack = 64 << 20
    plan_host("h", RELEASE, facts(**podman, spool_free=slack + 450), MISSING)
    with pytest.raises(HostUnfitError, match=r"(?s)podman needs 64\.0 MiB for temporary files.*image_copy_tmp_dir"):
        plan_host("h", RELEASE, facts(**podman, spool_free=slack + 449), MISSING)
    with pytest.raises(HostUnfitError, match="temporary files"):
        plan_host("h", RELEASE, facts(**podman, spool_free=slack + 450, spool_on=frozenset({"stage"})), MISSING)
    plan_host("h", RELEASE, facts(**podman, free=slack + 500), MISSING)
    with pytest.raises(HostUnfitError, match="podman image prune"):
        plan_host("h", RELEASE, facts(**podman, free=slack + 500, spool_on=frozenset({"engine"})), MISSING)


def test_podman_takes_layers_that_came_in_another_form() -> None:
    """What somebody loaded by hand is left out in the plain form; with our own blobs there, packed ones are sent."""
    by_hand = HeldImage(digest("7"), (), (digest("1"), digest("9")), "linux/amd64", {}, "")
    podman = {"engine": "podman", "store": "podman", "version": "5.4.2"}
    plan = plan_host("h", RELEASE, facts(**podman, images=(by_hand,)), MISSING, {})
    assert (plan.plain, plan.encoding, [each.state for each in plan.layers]) == (True, Encoding.ZSTD, ["have", "send"])
    ours = replace(by_hand, digests=(f"x@{digest('6')}",))
    plan = plan_host("h", RELEASE, facts(**podman, images=(ours,)), MISSING, {digest("6"): frozenset({digest("a")})})
    assert (plan.plain, [each.state for each in plan.layers]) == (False, ["have", "send"])
