"""Only what is missing is sent, on every engine, and a host that turns out incomplete gets everything once."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fleet.job.conftest import Project

HOSTS = ("classic20", "classic26", "containerd26")


@pytest.fixture
def changed(shipped: Project) -> Iterator[Project]:
    """The shipped project after a commit that touches the server alone, rebuilt but not shipped."""
    matrix = shipped.folder / "buildmatrix.yaml"
    text = matrix.read_text()
    matrix.write_text(text.replace("classic20: {}", "classic20: {}, classic26: {}"))
    shipped.run("ship", "--hosts", "classic26")
    source = shipped.folder / "changed"
    if not source.exists():
        subprocess.run(["git", "clone", "-q", str(shipped.fleet.files.sample), str(source)], check=True)
        server = next((source / "tools" / "server").glob("*.cpp"))
        server.write_text(server.read_text() + '\nextern "C" int one_more_symbol() { return 7; }\n')
        commit = ["git", "-C", str(source), "-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-qam"]
        subprocess.run([*commit, "server: one more symbol"], check=True)
    local = ("--source", f"sample={source}")
    shipped.run("lock", "--upgrade", *local)
    shipped.run("build", *local)
    for host in HOSTS:
        record = shipped.record()
        shipped.fleet.ssh(host, f"docker rmi -f {record['config']} {record['manifest']} 2>/dev/null; true")
    yield shipped
    shipped.run("lock", "--upgrade")
    shipped.run("build")
    matrix.write_text(text)


def sizes(project: Project) -> tuple[int, dict[str, int]]:
    """Stored bytes of the image, and what a ship would send to each host."""
    plan = project.run("plan", "--json").json()["images"][0]
    stored = sum(layer["size"] for layer in project.lock()["images"][plan["recipe"]]["layers"])
    return stored, {host["host"]: host["send"] for host in plan["hosts"]}


def test_small_change_sends_less_than_a_hundredth(changed: Project) -> None:
    """A changed program costs its own layer: under 1 % of the stored bytes on both stores, known before and told."""
    stored, planned = sizes(changed)
    out = changed.run("ship").out
    for host in HOSTS:
        assert 0 < planned[host] < stored / 100
    assert "ok" in out
    changed.verify("--deep")
    for host in HOSTS:
        said = changed.fleet.ssh(host, "docker run --rm --network none job-sample:v1 llama-server --help 2>&1 || true")
        assert said


def test_commit_to_the_server_keeps_the_large_library(changed: Project) -> None:
    """Of the own layers only programs and report are new, and the plan says of every host that it has the rest."""
    now = changed.record()
    before = next(
        record
        for record in changed.lock()["images"].values()
        if record["config"] != now["config"] and record["commit"] != now["commit"]
    )
    kept, new = set(), set()
    for layer in now["layers"]:
        same = layer["diff_id"] in {other["diff_id"] for other in before["layers"]}
        (kept if same else new).add(layer["created_by"])
    assert "COPY --from=build /out/10-ggml-cpu/ /" in kept
    assert new <= {f"COPY --from={name} /" for name in ("build /out/20-libs/", "build /out/30-bin/", "checks /report/")}
    text = changed.run("plan").out
    assert len(re.findall(r"^  have .*/out/10-ggml-cpu/", text, re.MULTILINE)) == len(HOSTS), text
    assert len(re.findall(r"^  send .*/out/30-bin/", text, re.MULTILINE)) == len(HOSTS), text


@pytest.mark.full
def test_image_survives_the_one_it_was_shipped_on_top_of(changed: Project) -> None:
    """After a partial load the older image can go and the new one stays whole."""
    changed.run("ship")
    for host in HOSTS:
        names = changed.fleet.ssh(host, "docker images --format '{{.Repository}}:{{.Tag}}'").split()
        older = [name for name in names if name not in {"job-sample:v1", changed.unique()}]
        changed.fleet.ssh(host, f"docker rmi {' '.join(older)}" if older else "true")
    changed.verify("--deep")


def test_damaged_layer_is_found_and_everything_sent_once(changed: Project) -> None:
    """A layer that the engine counts as there but whose file was changed on disk: found by its hash, told, exit 22."""
    host = "classic20"
    layers = "docker image inspect -f '{{.GraphDriver.Data.UpperDir}}:{{.GraphDriver.Data.LowerDir}}' job-sample:v1"
    find = f"for d in $({layers} | tr : ' '); do ls $d/app/lib/libggml-cpu.so.0 2>/dev/null; done; true"
    library = changed.fleet.ssh(host, find).strip()
    spoil = f"cp -p {library} /root/kept && printf x | dd of={library} bs=1 seek=1000 conv=notrunc 2>/dev/null"
    changed.fleet.ssh(host, spoil)
    try:
        done = changed.run("ship", "--hosts", host, code=22)
        assert "sending everything" in done.err
        assert "libggml-cpu.so.0" in done.out + done.err
    finally:
        changed.fleet.ssh(host, f"cp -p /root/kept {library}")
    changed.run("ship", "--hosts", host)
    changed.verify("--deep", "--hosts", host)


def test_deep_verify_finds_a_changed_file(shipped: Project) -> None:
    """A file changed inside an image keeps every ID; only `verify --deep` sees it, and names it."""
    host = "classic20"
    layers = "docker image inspect -f '{{.GraphDriver.Data.UpperDir}}:{{.GraphDriver.Data.LowerDir}}' job-sample:v1"
    find = f"for d in $({layers} | tr : ' '); do ls $d/app/bin/llama-cli 2>/dev/null; done; true"
    program = shipped.fleet.ssh(host, find).strip()
    shipped.fleet.ssh(host, f"cp -p {program} /root/kept && printf x >> {program}")
    try:
        shipped.verify("--hosts", host)
        done = shipped.verify("--deep", "--hosts", host, code=22)
        assert "/app/bin/llama-cli is not as it was built" in done.out
    finally:
        shipped.fleet.ssh(host, f"cp -p /root/kept {program}")
    shipped.verify("--deep", "--hosts", host)


@pytest.mark.full
def test_planned_ship_does_exactly_that_or_refuses(changed: Project) -> None:
    """`plan --out`, then `ship --plan`: done as planned; after the world moved it is refused with exit 11."""
    plan = changed.folder / "plan.json"
    changed.forget("classic20")
    assert changed.run("plan", "--hosts", "classic20", "--out", str(plan), "--detailed-exitcode", code=2)
    changed.run("ship", "--plan", str(plan))
    changed.verify("--hosts", "classic20")
    refused = changed.run("ship", "--plan", str(plan), code=11)
    assert "the plan no longer holds" in refused.err
    changed.run("plan", "--hosts", "classic20", "--detailed-exitcode")
