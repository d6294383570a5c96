"""`prune` by the command line: what it shows, what it does with --yes, and what it never does without."""

from __future__ import annotations

import json
import os
import shlex
import time
from typing import TYPE_CHECKING, Any

import pytest

from sistership.image.identity import Image
from sistership.image.layout import Store

if TYPE_CHECKING:
    from .conftest import Built

OLDER, OLDEST = "b" * 12, "c" * 12
#: Beside the image that the lock names: two older ones, and one that somebody else named.
ENGINE = """\
#!/bin/sh
shift 2
cd FOLDER/engine || exit 1
case "$1 $2" in
  "version "*) echo '{"Version": "26.1.5", "Os": "linux", "Arch": "amd64"}' ;;
  "info "*) echo '{"ID": "one", "DriverStatus": []}' ;;
  "image ls") cat ids ;;
  "image inspect") case "$4" in *.Id*) sed -n "s|^$5 ||p" names ;; *) cat inspect ;; esac ;;
  "image rm") echo "$4" >> removed ;;
  "ps "*|"context "*) ;;
  *) echo "$*" >> unexpected; exit 1 ;;
esac
"""


@pytest.fixture
def host(built: Built, monkeypatch: pytest.MonkeyPatch) -> Built:
    """A project whose one host holds the current image, two older ones, and one that others named."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(built.folder / "home"))  # the host is this machine
    engine = built.folder / "engine"
    engine.mkdir()
    (built.folder / "docker").write_text(ENGINE.replace("FOLDER", str(built.folder)))
    image = built.image()
    held = [(image.config, ["alpha:v1", f"sistership.local/alpha:{image.config[7:19]}"], image.diff_ids, 9)]
    others = [("b", [], 2), ("c", [f"sistership.local/alpha:{OLDEST}"], 1), ("d", ["d:1"], 3)]
    for letter, more, at in others:
        names, layers = [f"alpha:rollback-{letter * 12}", *more], (f"sha256:{letter * 64}",)
        held.append((layers[0], names, layers, at))
    documents: list[dict[str, Any]] = [
        {"Id": each, "RepoTags": tags, "Os": "linux", "Architecture": "amd64", "Config": {}, "Size": 3 << 20,
         "RootFS": {"Layers": list(layers)}, "Metadata": {"LastTagTime": f"2026-02-01T10:0{at}:00Z"}}
        for each, tags, layers, at in held
    ]  # fmt: skip
    (engine / "ids").write_text("".join(f"{each['Id']}\n" for each in documents))
    (engine / "inspect").write_text("".join(json.dumps(each) + "\n" for each in documents))
    (engine / "names").write_text("".join(f"{tag} {each['Id']}\n" for each in documents for tag in each["RepoTags"]))
    return built


def removed(project: Built) -> list[str]:
    """Names that the engine removed; it was asked for nothing that it does not know."""
    assert not (project.folder / "engine" / "unexpected").exists()
    path = project.folder / "engine" / "removed"
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize("words", [(), ("--dry-run",), ("--yes", "--dry-run"), ("--hosts", "gpu-*")])
def test_without_yes_it_only_shows(host: Built, words: tuple[str, ...]) -> None:
    """A row per image with why it stays or what it frees, exit 0, and the command that does it."""
    done = host.run("prune", *words)
    rows = {line.split()[0]: line for line in done.stdout.splitlines()[1:] if line}
    assert done.stdout.splitlines()[0] == "gpu-a: 26.1.5 classic, 3.0 MiB to free"
    assert rows["alpha:v1"].endswith("stays: current")
    assert rows[f"alpha:rollback-{OLDER}"].endswith("stays: previous")
    assert rows["alpha:rollback-" + "d" * 12].endswith("stays: also named d:1")
    assert rows[f"alpha:rollback-{OLDEST}"].split()[-3:] == ["3.0", "MiB", "remove"]
    hosts = ["--hosts", "gpu-*"] if "--hosts" in words else []
    assert done.stdout.splitlines()[-1] == f"next: {shlex.join(['sistership', 'prune', *hosts, '--yes'])}"
    assert removed(host) == []


def test_yes_does_what_was_shown(host: Built) -> None:
    """The names of the oldest image, and nothing else; the bytes are told, and no next command."""
    done = host.run("prune", "--yes")
    assert removed(host) == [f"alpha:rollback-{OLDEST}", f"sistership.local/alpha:{OLDEST}"]
    assert done.stdout.splitlines()[0] == "gpu-a: 26.1.5 classic, 3.0 MiB freed"
    assert "next:" not in done.stdout


def test_keep_counts_rollbacks(host: Built) -> None:
    """With 2 nothing goes; with 0 the previous one goes too; what is no number is refused."""
    assert "nothing to free" in host.run("prune", "--keep", "2").stdout
    done = host.run("prune", "--keep", "0")
    assert "6.0 MiB to free" in done.stdout
    assert done.stdout.splitlines()[-1] == "next: sistership prune --keep 0 --yes"
    for wrong in ("-1", "x", "", "1.5"):
        assert "not a whole number from 0" in host.run("prune", f"--keep={wrong}", code=2).stderr


def test_json_says_the_same(host: Built) -> None:
    """One document in the committed shape, before and after."""
    document = host.json("prune")
    (one,) = document["hosts"]
    assert (document["done"], one["frees"], one["freed"], document["store"]) == (False, 3 << 20, None, None)
    assert [image["keep"] for image in one["images"]] == ["current", "previous", "also named d:1", None]
    assert one["images"][-1]["remove"] == [f"alpha:rollback-{OLDEST}", f"sistership.local/alpha:{OLDEST}"]
    done = host.json("prune", "--yes", "--local")
    assert (done["done"], done["hosts"], done["store"]["freed"]) == (True, [], 0)
    both = host.json("prune", "--yes", "--local", "--hosts", "gpu-a")
    assert (both["hosts"][0]["freed"], both["store"]["freed"]) == (3 << 20, 0)


def test_a_host_that_does_not_answer(host: Built) -> None:
    """Its own trouble and exit code, in text and in JSON."""
    (host.folder / "docker").write_text("#!/bin/sh\nexit 1\n")
    assert "gpu-a: " in host.run("prune", "--yes", code=21).stdout
    document = host.json("prune", code=21)
    assert (document["exit"], document["hosts"][0]["exit"], document["hosts"][0]["engine"]) == (21, 21, None)
    assert document["hosts"][0]["error"]["next"]


def recorded(built: Built, key: str, image: Image, days: float) -> str:
    """Let the store list an image that was last used so long ago; gives the digest of its own layer."""
    store = Store(built.folder / "store")
    store.record(key, image, "2026-05-01T10:00:00Z")
    moment = time.time() - days * 86400
    os.utime(store.path(image.manifest), (moment, moment))
    return image.layers[-1].digest


def test_local_removes_what_nobody_needs(built: Built) -> None:
    """An image that today's lock does not name goes after a month; the one it names stays, and is whole."""
    current = built.image()
    recorded(built, built.key, current, 400)
    own = recorded(built, "e" * 64, built.build(None, b"#!other", recipe="e" * 64), 31)
    shown = built.run("prune", "--local").stdout
    rows = {line.split()[1]: line for line in shown.splitlines()[2:-1]}
    assert rows[built.key[:12]].endswith("stays: in the lock")
    assert rows["e" * 12].endswith("remove")
    assert shown.splitlines()[-1] == "next: sistership prune --local --yes"
    assert Store(built.folder / "store").has(own)
    assert " freed" in built.run("prune", "--local", "--yes").stdout
    store = Store(built.folder / "store")
    assert not store.has(own)
    assert store.image_complete(current, deep=True) == []


def test_local_keeps_what_was_used_lately(built: Built) -> None:
    """An older build of last week may be shipped again tomorrow."""
    own = recorded(built, "e" * 64, built.build(None, b"#!other", recipe="e" * 64), 7)
    assert "stays: used 7 days ago" in built.run("prune", "--local", "--yes").stdout
    assert Store(built.folder / "store").has(own)


def test_a_store_in_use_is_left_alone(built: Built) -> None:
    """Exit 24 says so, before any host was asked."""
    store = Store(built.folder / "store")
    assert "another run uses the store" in built.run("prune", "--local", "--hosts", "gpu-a", "--yes", code=24).stderr
    assert built.json("prune", "--local", "--yes", code=24)["type"] == "error"
    del store
    built.run("prune", "--local", "--yes")
