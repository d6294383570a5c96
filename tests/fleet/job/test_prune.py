"""Older images go from real engines, and nothing that anybody uses, names or needs goes with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from tests.fleet.job.conftest import Project

T = TypeVar("T")
HOSTS = ("classic20", "classic26", "containerd26")
STAGE = "~/.cache/sistership/stage"
SIZE = 3_000_000
#: Five images upon the current one, replaced one after the other: the first and the last but one have no friends,
#: the second is a container's, the third somebody else's, the last is the previous one. Prints their IDs.
LITTER = f"""
set -e
kept=$(docker create job-sample:v1 true)
for number in 1 2 3 4 5; do
  head -c {SIZE} /dev/urandom > /tmp/litter
  docker cp -q /tmp/litter "$kept:/litter" >/dev/null 2>&1 || docker cp /tmp/litter "$kept:/litter" >/dev/null
  id=$(docker commit "$kept" practice/made:$number)
  short=$(echo "${{id#sha256:}}" | cut -c1-12)
  docker tag practice/made:$number "sistership.local/job-sample:$(echo eeee$number$short | cut -c1-12)"
  docker tag practice/made:$number "job-sample:rollback-$short"
  [ $number -ne 2 ] || docker create --name practice-worker "job-sample:rollback-$short" true >/dev/null
  [ $number -ne 3 ] || docker tag practice/made:$number people/mine:3
  docker rmi practice/made:$number >/dev/null
  echo "$id"
done
docker rm "$kept" >/dev/null
mkdir -p {STAGE} && cd {STAGE}
head -c 1000 /dev/zero > old.zst && touch -d '9 days ago' old.zst && echo fresh > fresh.zst
"""


@pytest.fixture
def littered(shipped: Project) -> Iterator[tuple[Project, dict[str, list[str]]]]:
    """The shipped project on three engines that have been in use for a while; host → IDs of its five older images."""
    matrix = shipped.folder / "buildmatrix.yaml"
    text = matrix.read_text()
    matrix.write_text(text.replace("classic20: {}", "classic20: {}, classic26: {}"))
    shipped.run("ship", "--hosts", "classic26")
    shipped.run("prune", "--hosts", ",".join(HOSTS), "--keep", "0", "--yes")  # what other tests left of this project
    yield shipped, on_all(lambda host: shipped.fleet.ssh(host, LITTER).split())
    names = "docker images --format '{{.Repository}}:{{.Tag}}' | grep -E 'rollback-|people/|/job-sample:eeee' || true"
    clear = f"docker rm practice-worker; docker rmi -f $({names}) 2>/dev/null; rm -f {STAGE}/fresh.zst"
    on_all(lambda host: shipped.fleet.ssh(host, clear))
    matrix.write_text(text)


def held(project: Project, host: str) -> dict[str, str]:
    """Name → ID of every image on a host."""
    lines = project.fleet.ssh(host, "docker images --no-trunc --format '{{.Repository}}:{{.Tag}} {{.ID}}'")
    return dict(line.split() for line in lines.splitlines())


def on_all(work: Callable[[str], T]) -> dict[str, T]:
    """Host → what `work` gives for it, all hosts at once."""
    with ThreadPoolExecutor() as pool:
        return dict(zip(HOSTS, pool.map(work, HOSTS), strict=True))


def of(document: Any, host: str) -> dict[str, Any]:
    """One host of a document of `prune --json`."""
    found: dict[str, Any] = next(each for each in document["hosts"] if each["host"] == host)
    return found


def test_prune_takes_what_nobody_needs(littered: tuple[Project, dict[str, list[str]]]) -> None:
    """On both stores: shown first, then done; current, previous, used and others' images stay whole; then --keep 0."""
    project, ids = littered
    hosts = ("--hosts", ",".join(HOSTS))
    before = on_all(lambda host: held(project, host))
    planned = project.run("prune", *hosts, "--json").json()
    assert on_all(lambda host: held(project, host)) == before
    done = project.run("prune", *hosts, "--yes", "--json").json()
    for host, left in on_all(lambda host: held(project, host)).items():
        first, used, others, fourth, last = ids[host]
        keeps = {image["id"]: image["keep"] for image in of(planned, host)["images"]}
        assert keeps[used] == "used by container practice-worker"
        assert (keeps[others], keeps[last]) == ("also named people/mine:3", "previous")
        rest = [keep for image, keep in keeps.items() if image not in ids[host]]
        assert "current" in rest
        assert None not in rest
        gone = {name for name, image in before[host].items() if image in {first, fourth}}
        assert left == {name: image for name, image in before[host].items() if name not in gone}
        assert of(planned, host)["frees"] == of(done, host)["freed"]
        assert 2 * SIZE < of(done, host)["freed"] < 2.2 * SIZE
    # What stays can still be run, although it shares its layers with what went; so can the current one.
    run = "docker run --rm --network none {} /app/bin/llama-cli --version >/dev/null 2>&1"
    scripts = {host: " && ".join(run.format(ids[host][number]) for number in (1, 2, 4)) for host in HOSTS}
    staged = on_all(lambda host: project.fleet.ssh(host, f"{scripts[host]} && ls {STAGE}").split())
    assert staged == {host: ["fresh.zst"] for host in HOSTS}
    project.verify("--deep", *hosts)
    assert sum(each["frees"] for each in project.run("prune", *hosts, "--json").json()["hosts"]) == 0
    project.run("ship", "--keep", "0", *hosts)
    for host, left in on_all(lambda host: held(project, host)).items():
        assert set(left.values()) & set(ids[host]) == {ids[host][1], ids[host][2]}
    project.verify(*hosts)


@pytest.mark.full
@pytest.mark.parametrize("host", ["classic20", "containerd26"])
def test_coming_back_to_an_image_makes_it_the_previous_one(shipped: Project, host: str) -> None:
    """A rollback's name that was given long ago counts from the last time the image was replaced, on any store."""
    script = """
    set -e
    for n in 1 2; do
      echo $n > /tmp/n; tar -cf - -C /tmp n | docker import - practice/made:$n
    done
    """
    first, second = shipped.fleet.ssh(host, script).split()
    # The first is replaced, then the second, then the first again.
    for image in (first, second, first):
        shipped.fleet.ssh(host, f"docker tag {image} job-sample:v1")
        shipped.run("ship", "--hosts", host)
    shipped.fleet.ssh(host, "docker rmi practice/made:1 practice/made:2")
    found = of(shipped.run("prune", "--hosts", host, "--json").json(), host)
    assert {image["id"]: image["keep"] for image in found["images"]}[first] == "previous"
    shipped.run("prune", "--hosts", host, "--keep", "0", "--yes")
    assert len(set(held(shipped, host).values()) & {first, second}) == 0
