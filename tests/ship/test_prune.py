"""Which images of ours go from a host and which stay, and that nobody else's are ever named."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sistership.errors import IdentityError
from sistership.host.answers import sections
from sistership.host.docker import Docker
from sistership.host.facts import HostFacts
from sistership.host.held import HeldImage, held_image
from sistership.host.inventory import Peer
from sistership.host.local import Local
from sistership.image.identity import Image, Layer
from sistership.image.release import Release
from sistership.matrix.model import Host
from sistership.report.listeners import Silent
from sistership.ship.hostlock import HostLock
from sistership.ship.leftovers import AGED, CAP, DAY, LISTING, Leftover, Staged, leftovers, removal, staged
from sistership.ship.older import Fate, Ours, fates, freed
from sistership.ship.prune import Older, look, prune_all, removal_script, remove, tidy, usage


def digest(letter: str) -> str:
    """A digest of one letter repeated."""
    return "sha256:" + letter * 64


def layer(letter: str, plain: int = 100, packed: int = 10) -> Layer:
    """A layer whose diffID and blob are of one letter."""
    return Layer(digest(letter), digest(letter), packed, plain, base=False, created_by="")


def held(letter: str, *tags: str, at: int = 0, layers: str = "", **changes: object) -> HeldImage:
    """An image whose ID is of one letter, tagged last in the minute `at`."""
    stack = tuple(map(digest, layers or letter))
    image = HeldImage(digest(letter), tags, stack, "linux/amd64", {}, "2026-01-01T00:00:00Z", 1000)
    return replace(image, tagged=f"2026-02-01T10:{at:02}:00.123456789Z" if at else "", **changes)


def facts(*images: HeldImage, store: str = "classic") -> HostFacts:
    """A host that holds these images."""
    return HostFacts("26.1.5", store, "ID", "linux/amd64", None, None, False, {}, frozenset(), images)


def unique(letter: str, repository: str = "llama") -> str:
    """The name of ours for an image."""
    return f"sistership.local/{repository}:{letter * 12}"


def rollback(letter: str, repository: str = "llama") -> str:
    """The name under which an image was kept."""
    return f"{repository}:rollback-{letter * 12}"


def release(letter: str, reference: str = "llama:v1") -> Release:
    """A release whose ID on a classic store is of one letter."""
    return Release("alpha", letter * 64, reference, Image(digest(letter), "linux/amd64", digest(letter), digest(letter),
                                                          (layer(letter),)))  # fmt: skip


OURS = Ours({"llama:v1": "alpha"}, frozenset({"llama:v1"}), (release("a"),))
CURRENT = held("a", "llama:v1", unique("a"), at=9)


def told(host: HostFacts, ours: Ours = OURS, keep: int = 1, used: dict[str, str] | None = None) -> dict[str, str]:
    """Letter of each image of ours → why it stays, "" where its names go."""
    return {fate.image.id[7]: fate.keep for fate in fates(host, used or {}, ours, keep)}


def test_current_and_the_newest_rollback_stay() -> None:
    """Of three that were replaced the last one stays, by the time when it got its name, not by its own date."""
    older = [held("b", unique("b"), rollback("b"), at=1, created="2026-12-01T00:00:00Z"),
             held("c", unique("c"), rollback("c"), at=3), held("d", unique("d"), rollback("d"), at=2)]  # fmt: skip
    found = fates(facts(*older, CURRENT), {}, OURS, 1)
    assert [(fate.image.id[7], fate.keep) for fate in found] == [
        ("a", "current"),
        ("c", "previous"),
        ("b", ""),
        ("d", ""),
    ]
    assert found[2].names == (unique("b"), rollback("b"))
    assert found[2].shown == rollback("b")
    assert found[0].shown == "llama:v1"


@pytest.mark.parametrize(("keep", "stay"), [(0, ""), (1, "d"), (2, "cd"), (9, "bcd")])
def test_as_many_rollbacks_stay_as_asked(keep: int, stay: str) -> None:
    """`--keep` counts rollbacks, the newest first; 0 keeps none."""
    older = [held(letter, rollback(letter), at=at) for at, letter in enumerate("bcd", start=1)]
    found = told(facts(*older, CURRENT), keep=keep)
    assert "".join(letter for letter, why in found.items() if why == "previous") == stay


def test_order_of_time_stamps_is_that_of_time() -> None:
    """Engines write as many digits of a second as they need, and some in their own time zone."""
    texts = [
        "2026-02-01T10:00:00.8Z",
        "2026-02-01T10:00:00.80012Z",
        "2026-02-01T12:00:00.9+02:00",
        "2026-02-01T10:00:01Z",
    ]
    for first, second in itertools.pairwise(texts):
        pair = [replace(held("b", rollback("b")), tagged=first), replace(held("c", rollback("c")), tagged=second)]
        assert told(facts(*pair, CURRENT)) == {"a": "current", "b": "", "c": "previous"}


def test_without_times_the_images_own_date_decides() -> None:
    """Podman tells no time of a tag; a classic engine writes the year 1 for an image that was never tagged."""
    pair = [held("b", rollback("b"), created="2026-01-02T00:00:00Z"), held("c", rollback("c"))]
    assert told(facts(*pair, CURRENT)) == {"a": "current", "b": "previous", "c": ""}
    never = replace(pair[1], tagged="0001-01-01T00:00:00Z")
    assert told(facts(pair[0], never, CURRENT))["b"] == "previous"


def test_what_the_lock_says_stays_under_any_name() -> None:
    """An image that was loaded and not tagged yet, or whose tag somebody moved away, is current by the lock."""
    host = facts(held("a", unique("a"), at=1), held("b", "llama:v1", at=2))
    assert told(host) == {"a": "current by the lock", "b": "current"}


def test_half_a_ship_of_another_recipe_goes() -> None:
    """An image with nothing but our unique name, which no lock asks for: nobody runs it, nobody goes back to it."""
    assert told(facts(held("b", unique("b"), at=5), CURRENT)) == {"a": "current", "b": ""}


def test_containers_keep_their_image() -> None:
    """Running or merely there, whatever the image's names are; the container is named."""
    host = facts(held("b", rollback("b"), at=1), held("c", rollback("c"), at=2), CURRENT)
    assert told(host, used={"b" * 64: "worker-1"}) == {
        "b": "used by container worker-1",
        "c": "previous",
        "a": "current",
    }


def test_the_previous_image_is_counted_while_it_still_runs() -> None:
    """After a ship containers run the previous image until they are restarted: it is the one that is kept."""
    host = facts(held("b", rollback("b"), at=1), held("c", rollback("c"), at=2), CURRENT)
    assert told(host, used={"c" * 64: "worker-1"})["b"] == ""


@pytest.mark.parametrize("name", ["llama:v0", "mine/llama:good", "llama:rollback-mine", f"other:rollback-{'b' * 12}",
                                  f"llama:rollback-{'9' * 12}", f"sistership.local/other:{'b' * 12}"])  # fmt: skip
def test_an_image_that_others_name_stays_as_it_is(name: str) -> None:
    """One tag that neither we made nor this matrix knows is enough, and none of its names is touched."""
    host = facts(held("b", unique("b"), rollback("b"), name, at=1), held("c", rollback("c"), at=2), CURRENT)
    assert told(host) == {"b": f"also named {name}", "c": "previous", "a": "current"}


def test_a_name_that_others_gave_takes_nobodys_place() -> None:
    """Tagging an old rollback by hand makes it the last that got a name; the true previous image stays all the same."""
    host = facts(held("b", rollback("b"), "keep/this:1", at=8), held("c", rollback("c"), at=2), CURRENT)
    assert told(host) == {"b": "also named keep/this:1", "c": "previous", "a": "current"}


def test_other_images_are_not_even_listed() -> None:
    """Images of other repositories, of other projects, and without a name are no matter of ours."""
    others = [held("e", "postgres:16"), held("f", unique("f", "other")), held("1", rollback("1", "other")), held("2"),
              held("3", "llama:v0"), held("4", "registry.example/llama:v1")]  # fmt: skip
    assert told(facts(*others, CURRENT)) == {"a": "current"}


def test_a_pulled_image_goes_with_the_name_it_was_pulled_by() -> None:
    """A registry's reference by digest holds an image as a tag does: ours goes, another registry's keeps the image."""
    ours = replace(OURS, places=frozenset({"registry.lan:5000/llama"}))
    shown = (f"sistership.local/llama@{digest('b')}",)  # beside its tag, by the containerd store
    pulled = held("b", unique("b"), rollback("b"), at=1, digests=(f"registry.lan:5000/llama@{digest('b')}", *shown))
    others = held("c", unique("c"), at=1, digests=(f"ghcr.example/llama@{digest('c')}",))
    found = {fate.image.id[7]: fate for fate in fates(facts(pulled, others, CURRENT), {}, ours, 0)}
    assert found["b"].names == (unique("b"), rollback("b"), f"registry.lan:5000/llama@{digest('b')}")
    assert (found["b"].shown, found["b"].keep) == (rollback("b"), "")
    assert found["c"].keep == f"also named ghcr.example/llama@{digest('c')}"
    assert told(facts(pulled, CURRENT), keep=0)["b"].startswith("also named registry.lan")


def test_variants_that_share_a_repository_keep_one_each() -> None:
    """Two variants under one image name: the label tells whose rollback it was."""
    ours = Ours({"llama:v1": "alpha", "llama:tq": "beta"}, frozenset({"llama:v1", "llama:tq"}))
    variants = enumerate([("b", "beta"), ("c", "alpha"), ("d", "alpha")], start=1)
    labels = {name: {"Labels": {"dev.sistership.variant": name}} for name in ("alpha", "beta")}
    labelled = [held(letter, rollback(letter), at=at, config=labels[name]) for at, (letter, name) in variants]
    found = told(facts(*labelled, CURRENT, held("9", "llama:tq", at=5)), ours)
    assert found == {"b": "previous", "d": "previous", "a": "current", "9": "current", "c": ""}


def test_rollbacks_of_another_project_are_not_counted() -> None:
    """Two projects, one image name, other variants: the label says whose it is, and theirs stay, whatever we keep."""
    labels = {name: {"Labels": {"dev.sistership.variant": name}} for name in ("alpha", "theirs")}
    theirs = [held(letter, unique(letter), rollback(letter), at=at, config=labels["theirs"])
              for at, letter in enumerate("ef", start=5)]  # fmt: skip
    mine = [held(letter, rollback(letter), at=at, config=labels["alpha"]) for at, letter in enumerate("bc", start=1)]
    why = "of variant theirs, which is not of this matrix"
    expected = {"a": "current", "b": "", "c": "previous", "e": why, "f": why}
    assert told(facts(*theirs, *mine, CURRENT)) == expected
    assert told(facts(*theirs, *mine, CURRENT), keep=0) == expected | {"c": ""}


@pytest.mark.parametrize(("clock", "why"), [("10:59", "just loaded"), ("11:31", ""), ("10:00", "just loaded")])
def test_what_another_users_ship_just_loaded_stays(clock: str, why: str) -> None:
    """It has only its unique name and got it within the hour by the host's clock; a rollback is none of that."""
    now = datetime.fromisoformat(f"2026-02-01T{clock}:00Z")
    host = facts(held("b", unique("b"), at=30), held("c", unique("c"), rollback("c"), at=30), CURRENT)
    found = {fate.image.id[7]: fate.keep for fate in fates(host, {}, OURS, 0, now)}
    assert found == {"a": "current", "b": why, "c": ""}


def test_the_hosts_clock_is_asked(tmp_path: Path, peer: Peer) -> None:
    """An image that was loaded a minute ago stays, one that was loaded a day ago goes."""
    now = datetime.now(UTC)
    times = {"b": now - timedelta(minutes=1), "c": now - timedelta(days=1)}
    engine(tmp_path, *(replace(held(each, unique(each)), tagged=when.isoformat()) for each, when in times.items()))
    found = look(peer, OLDER)
    assert {fate.image.id[7]: fate.keep for fate in found.fates} == {"b": "just loaded", "c": ""}


def test_only_selected_variants_are_pruned() -> None:
    """What another variant of the matrix has is left alone, and its people's tag is none of a stranger."""
    ours = Ours({"llama:v1": "alpha", "tq:v1": "beta"}, frozenset({"llama:v1"}))
    host = facts(
        held("b", rollback("b", "tq"), at=1), held("c", rollback("c", "tq"), at=2), held("d", "tq:v1"), CURRENT
    )
    assert told(host, ours) == {"a": "current"}


def test_engines_write_docker_hub_names_their_own_way() -> None:
    """`docker.io/me/llama` of a matrix is `me/llama` to Docker; both are one repository."""
    ours = Ours({"docker.io/me/llama:v1": "alpha"}, frozenset({"docker.io/me/llama:v1"}))
    mine = held("b", unique("b", "docker.io/me/llama"), rollback("b", "me/llama"), at=1)
    host = facts(mine, held("c", rollback("c", "me/llama"), at=2), held("a", "me/llama:v1"))
    assert told(host, ours) == {"c": "previous", "a": "current", "b": ""}


def test_bytes_that_go_are_those_that_no_other_image_has() -> None:
    """Layers of an image that stays cost nothing, those of two that go count once; unknown ones by the image's size."""
    sizes = {digest("1"): (500, 50), digest("2"): (100, 10), digest("3"): (70, 7)}
    stays = held("a", layers="1", size=0)
    gone = [held("b", layers="123", size=0), held("c", layers="12", size=0), held("d", layers="18", size=530)]
    assert list(freed(gone, [stays], sizes, "classic").values()) == [170, 0, 30]
    assert list(freed(gone, [stays], sizes, "containerd").values()) == [187, 0, 480]
    # A classic engine counts files alone, of the image that stays 400 bytes where its tars have 500.
    stays, gone = replace(stays, size=400), [held("d", layers="18", size=430)]
    assert freed(gone, [stays], sizes, "classic") == {digest("d"): 30}
    assert freed([replace(gone[0], size=0)], [stays], sizes, "classic") == {digest("d"): 0}
    # The same layer above another one is another layer to the engine.
    assert freed([held("b", layers="21")], [stays], sizes, "classic") == {digest("b"): 600}


def test_leftovers_by_age_then_by_amount() -> None:
    """Older than a week goes; of the rest the oldest, until what stays fits the cap."""
    files = [Staged("new", 6, 60), Staged("old", 5, 8 * DAY), Staged("middle", 5, 3 * DAY), Staged("week", 4, 7 * DAY)]
    assert [each.staged.file for each in leftovers(files)] == ["old"]
    assert [each.staged.file for each in leftovers(files, cap=11)] == ["old", "week"]
    assert [each.staged.file for each in leftovers(files, cap=5)] == ["old", "week", "middle", "new"]
    assert "8 days ago" in leftovers(files)[0].why
    assert CAP >= 10 << 30


def test_a_ship_removes_what_is_older_than_a_week(stage: Path) -> None:
    """Beside its own files; what is younger stays for a ship that goes on, and no staging folder is no trouble."""
    for days in (1, 6, 8, 30):
        file = stage / f"-{days}.zst"
        file.write_bytes(b"x")
        os.utime(file, (time.time() - days * DAY,) * 2)
    for name in ("copies", "copies.123", "copies-of-mine"):
        (stage / name / "blobs").mkdir(parents=True)
        (stage / name / "blobs" / "x").write_bytes(b"x")
    (stage / "folder").mkdir()
    (stage / "folder" / "file").write_bytes(b"x")
    os.utime(stage / "folder" / "file", (1, 1))
    transport = Local("here")
    assert transport.run(AGED).status == 0
    assert sorted(path.name for path in stage.iterdir()) == ["-1.zst", "-6.zst", "copies-of-mine", "folder"]
    assert (stage / "folder" / "file").exists()
    shutil.rmtree(stage)
    assert transport.run(AGED).status == 0
    transport.close()


def test_prune_removes_what_killed_runs_were_unpacking(stage: Path) -> None:
    """Such a folder is listed with its bytes and goes by age like a file; other folders are not even listed."""
    for name in ("copies", "copies.123", "copies.456", "copies-of-mine"):
        (stage / name / "blobs").mkdir(parents=True)
        (stage / name / "blobs" / "x").write_bytes(b"x" * 100_000)
    (stage / "old.zst").write_bytes(b"x")
    for name in ("copies", "copies.123", "copies-of-mine", "old.zst"):
        os.utime(stage / name, (1, 1))
    transport = Local("here")
    answer = sections(transport.run(f"sec() {{ printf '\\n@@%s\\n' \"$1\"; }}\n{LISTING}").text)
    listed = staged(answer["now"].strip(), answer["leftovers"])
    assert sorted(each.file for each in listed) == ["copies", "copies.123", "copies.456", "old.zst"]
    assert all(each.size >= 100_000 for each in listed if each.file != "old.zst")
    assert transport.run(removal(leftovers(listed))).status == 0
    assert sorted(path.name for path in stage.iterdir()) == ["copies-of-mine", "copies.456"]
    transport.close()


@pytest.fixture
def peer(peer: Peer, stage: Path) -> Peer:
    """This machine, with a staging folder of its own."""
    del stage  # it is enough that it is there
    return peer


#: An engine that keeps one file per name, whose content is the image's ID; it refuses names that are in `refuse`.
ENGINE = """\
#!/bin/sh
cd FOLDER || exit 1
case "$1 $2" in
  "version "*) echo '{"Version": "26.1.5", "Os": "linux", "Arch": "amd64"}' ;;
  "info "*) echo '{"ID": "one", "DriverStatus": []}' ;;
  "image ls") cut -c1-71 images/* | sort -u ;;
  "image inspect") name=$(printf '%s' "$5" | tr / _)
    case "$4" in *.Id*) cat "names/$name" 2>/dev/null ;; *) cat documents/* ;; esac ;;
  "image rm") shift 2; [ "$1" = --no-prune ] || exit 9; name=$(printf '%s' "$2" | tr / _)
    ! grep -qx "$name" refuse || { echo "conflict: container x uses it" >&2; exit 1; }
    echo "$2" >> removed; rm "names/$name" ;;
  "ps "*) cat containers; exit "$(cat ps-status)" ;;
  "container inspect") cat used ;;
  *) echo "unexpected: $*" >&2; exit 1 ;;
esac
"""


def engine(folder: Path, *images: HeldImage) -> None:
    """Let the stand-in hold these images."""
    for name in ("images", "names", "documents"):
        (folder / name).mkdir()
    for each in images:
        (folder / "images" / each.id[7:]).write_text(f"{each.id}\n")
        document = {"Id": each.id, "RepoTags": list(each.tags), "Os": "linux", "Architecture": "amd64", "Config": {}}
        document |= {"Size": each.size, "Metadata": {"LastTagTime": each.tagged}}
        document |= {"RootFS": {"Layers": list(each.diff_ids)}}
        (folder / "documents" / each.id[7:]).write_text(json.dumps(document) + "\n")
        for tag in each.tags:
            (folder / "names" / tag.replace("/", "_")).write_text(f"{each.id}\n")
    for name, text in {"refuse": "", "containers": "", "used": "", "ps-status": "0"}.items():
        (folder / name).write_text(text)
    (folder / "docker").write_text(ENGINE.replace("FOLDER", str(folder)))
    (folder / "docker").chmod(0o755)


def removed(folder: Path) -> list[str]:
    """Names that the stand-in removed, in order."""
    return (folder / "removed").read_text().split() if (folder / "removed").exists() else []


TWO = (held("b", unique("b"), rollback("b"), at=1), held("c", rollback("c"), at=2))
OLDER = Older(OURS, 1)


class Heard(Silent):
    """Keeps the steps."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def step(self, host: str, text: str) -> None:
        """Keep it."""
        self.steps.append(f"{host}: {text}")


def test_looking_changes_nothing(tmp_path: Path, stage: Path, peer: Peer) -> None:
    """The plan of a host names what would go and its bytes; no name and no file is gone, and no lock was taken."""
    engine(tmp_path, *TWO, CURRENT)
    (found,) = prune_all([peer], OLDER, Silent(), act=False)
    assert [fate.shown for fate in found.going] == [rollback("b")]
    assert (found.frees, found.freed, found.pending, found.code) == (1000, None, True, 0)
    assert removed(tmp_path) == []
    assert not (stage.parent / "ship.lock").exists()


def test_removing_takes_exactly_these_names(tmp_path: Path, stage: Path, peer: Peer) -> None:
    """Our two names of the oldest image go, one by one and without force or parents; old staged files go too."""
    engine(tmp_path, *TWO, CURRENT)
    (stage / "left.zst").write_bytes(b"x" * 30)
    (stage / "fresh.zst.part").write_bytes(b"x")
    os.utime(stage / "left.zst", (1, 1))
    heard = Heard()
    (found,) = prune_all([peer], OLDER, heard, act=True)
    assert removed(tmp_path) == [unique("b"), rollback("b")]
    assert [path.name for path in stage.iterdir()] == ["fresh.zst.part"]
    assert (found.freed, found.refused, found.code) == (1030, {}, 0)
    assert heard.steps == ["here: removed 1 older image, 1 staged file: 1030 B"]
    (again,) = prune_all([peer], Older(OURS, 9), Silent(), act=True)
    assert again.freed == 0


def test_a_name_that_moved_meanwhile_stays(tmp_path: Path, peer: Peer) -> None:
    """Between looking and removing somebody gave our name to another image: it is not ours to remove any more."""
    engine(tmp_path, *TWO, CURRENT)
    found = look(peer, OLDER)
    (tmp_path / "names" / rollback("b")).write_text(digest("7"))
    done = remove(peer, found, OURS, Silent())
    assert removed(tmp_path) == [unique("b")]
    assert (done.freed, done.refused) == (0, {})


def test_what_the_engine_refuses_is_told(tmp_path: Path, peer: Peer) -> None:
    """A container that began to use the image meanwhile: its words, its bytes not counted, exit 1."""
    engine(tmp_path, *TWO, CURRENT)
    (tmp_path / "refuse").write_text(f"{rollback('b')}\n")
    (found,) = prune_all([peer], OLDER, Silent(), act=True)
    assert found.refused == {rollback("b"): "conflict: container x uses it"}
    assert (found.freed, found.code) == (0, 1)


@pytest.mark.parametrize(("status", "used"), [("1", ""), ("0", f"{digest('b')} /one\n")])
def test_without_knowing_the_containers_nothing_goes(tmp_path: Path, peer: Peer, status: str, used: str) -> None:
    """`docker ps` fails, or tells of fewer containers than there are: what cannot be asked is not taken for unused."""
    engine(tmp_path, *TWO, CURRENT)
    (tmp_path / "containers").write_text("one\ntwo\n")
    (tmp_path / "used").write_text(used)
    (tmp_path / "ps-status").write_text(status)
    with pytest.raises(IdentityError, match="nothing was removed"):
        look(peer, OLDER)
    heard = Heard()
    tidy(peer, OLDER, heard)
    assert "warning: older images are still there" in heard.steps[0]
    assert removed(tmp_path) == []


def test_containers_are_asked_for_by_image(tmp_path: Path, peer: Peer) -> None:
    """The ID that a container was made from keeps its image, whatever name it was started by."""
    engine(tmp_path, *TWO, CURRENT)
    (tmp_path / "containers").write_text("one\n")
    (tmp_path / "used").write_text(f"{digest('b')} /worker-1\n")
    assert look(peer, OLDER).going == ()
    assert usage(f"{digest('b')} /worker-1\n{'c' * 64} podman-1\n") == {"b" * 64: "worker-1", "c" * 64: "podman-1"}


def test_a_ship_under_way_is_waited_for(tmp_path: Path, peer: Peer) -> None:
    """Under the lock of a ship nothing is removed: exit 24, and the same after it."""
    engine(tmp_path, *TWO, CURRENT)
    with HostLock(peer):
        (found,) = prune_all([peer], OLDER, Silent(), act=True)
        assert found.code == 24
        assert removed(tmp_path) == []
        assert prune_all([peer], OLDER, Silent(), act=False)[0].pending
    assert prune_all([peer], OLDER, Silent(), act=True)[0].code == 0


def test_two_names_of_one_engine_are_pruned_once(tmp_path: Path, peer: Peer) -> None:
    """The second name of an engine does not run into the lock of the first."""
    engine(tmp_path, *TWO, CURRENT)
    other = Local("there")
    twin = Peer(Host("there", local=True, docker_host="unix:///nowhere"), other, peer.engine)
    first, second = prune_all([peer, twin], OLDER, Silent(), act=True)
    other.close()
    assert (first.freed, second.twin, second.code) == (1000, "here", 0)


def test_names_are_quoted() -> None:
    """Whatever a name or a file holds, the shell sees it as one word."""
    fate = Fate(held("b"), ("a b;$(x)",), "", "")
    script = removal_script(Docker("docker"), [fate], [Leftover(Staged("-rf $(x)", 1, 1), "")])
    assert f"drop {digest('b')} 'a b;$(x)'" in script
    assert "rm -f -- '-rf $(x)'" in script
    assert removal([]) == ":"


def test_a_listing_that_cannot_be_read_is_no_file() -> None:
    """Lines without time or size, as from a host without `stat`, and names with spaces."""
    text = "10 100 a b.zst\n 7  c.zst\nx 5 d.zst\n9 900 late.zst\n"
    assert staged("500", text) == (Staged("a b.zst", 10, 400), Staged("late.zst", 9, 0))
    assert staged("", text) == ()


def test_what_engines_say_of_an_image_is_read() -> None:
    """Size and the time of the last tag; an engine that tells neither is none the worse."""
    image = held_image({"Id": "x", "Size": 5, "Metadata": {"LastTagTime": "2026-02-01T10:00:00Z"}})
    assert (image.size, image.tagged) == (5, "2026-02-01T10:00:00Z")
    assert held_image({"Id": "x", "Metadata": None}).tagged == ""


def test_reporters_are_told(tmp_path: Path, peer: Peer) -> None:
    """Nothing to do is no news; a host without an engine is."""
    engine(tmp_path, CURRENT)
    heard = Heard()
    assert prune_all([peer], OLDER, heard, act=True)[0].freed == 0
    assert heard.steps == []
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 1\n")
    assert prune_all([peer], OLDER, heard, act=True)[0].code == 21
    assert heard.steps[0].startswith("here: failed")
