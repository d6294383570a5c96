"""What a ship survives: every host runs what it ran, the message says so, and the next ship completes."""

from __future__ import annotations

import re
import signal
import time
from typing import TYPE_CHECKING

import pytest

from sistership.fleet import faults

if TYPE_CHECKING:
    from tests.fleet.job.conftest import Project


def staged(project: Project, host: str) -> int:
    """Bytes in a host's staging folder."""
    return int(project.fleet.ssh(host, "cat ~/.cache/sistership/stage/* 2>/dev/null | wc -c"))


def until_staged(project: Project, host: str, size: int) -> None:
    """Wait until at least `size` bytes have arrived."""
    deadline = time.monotonic() + 60
    while staged(project, host) < size:
        assert time.monotonic() < deadline, "the bytes did not arrive"
        time.sleep(0.1)


def other_runnable_image(project: Project, host: str) -> str:
    """Put another image that runs under the people's name, nothing of ours beside it; gives its ID."""
    project.run("ship", "--variant", "sample", "--hosts", host)
    flatten = (
        "id=$(docker create job-sample:v1 true) && docker export $id > /root/flat.tar && docker rm $id >/dev/null"
        " && docker images -q | sort -u | xargs docker rmi -f >/dev/null"
        " && docker import -c 'ENV PATH=/app/bin:/usr/bin:/bin' /root/flat.tar job-sample:v1 && rm /root/flat.tar"
    )
    return project.fleet.ssh(host, flatten).strip()


def runs(project: Project, host: str) -> bool:
    """Whether the image under the people's name runs."""
    return "version:" in project.fleet.ssh(
        host, "docker run --rm --network none job-sample:v1 llama-cli --version 2>&1"
    )


@pytest.mark.parametrize(
    "how",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGTERM, marks=pytest.mark.full),
        pytest.param(signal.SIGINT, marks=pytest.mark.full),
    ],
)
def test_ship_killed_at_half(project: Project, how: signal.Signals) -> None:
    """Killed midway: the previous image runs, the next ship completes and does not send the staged bytes again."""
    host = "classic20"
    before = other_runnable_image(project, host)
    with faults.shaped(host, "80mbit"):
        process = project.start("ship", "--variant", "sample", "--hosts", host)
        until_staged(project, host, 20 << 20)
        process.send_signal(how)
        out, err = process.communicate(timeout=60)
        assert process.returncode in {-9, 130}, (out, err)
        assert "Traceback" not in err
    assert project.fleet.ssh(host, "docker image inspect -f '{{.Id}}' job-sample:v1").strip() == before
    assert runs(project, host)
    kept = staged(project, host)
    assert kept >= 20 << 20
    total = sum(layer["size"] for layer in project.record()["layers"])
    out = project.run("ship", "--variant", "sample", "--hosts", host).out
    sent = float(re.findall(r"([\d.]+) MiB +ok", out)[0]) * (1 << 20)
    assert sent < total - kept + (1 << 20)
    project.verify("--hosts", host)
    kept_as = project.fleet.ssh(host, f"docker image inspect -f '{{{{.Id}}}}' job-sample:rollback-{before[7:19]}")
    assert kept_as.strip() == before


@pytest.mark.parametrize("host", [pytest.param("classic20", marks=pytest.mark.full), "containerd26"])
def test_ship_killed_while_the_engine_loads(project: Project, host: str) -> None:
    """Killed during the load: what ran before runs, and the next ship completes."""
    other_runnable_image(project, host)
    process = project.start("ship", "--variant", "sample", "--hosts", host)
    assert process.stderr
    for line in process.stderr:
        if "loading" in line:
            break
    process.kill()
    process.communicate(timeout=60)
    assert runs(project, host)
    project.run("ship", "--variant", "sample", "--hosts", host)
    project.verify("--hosts", host)


@pytest.mark.full
def test_link_cut_in_the_middle(project: Project) -> None:
    """A pulled cable ends the ship to that host within two minutes, exit 20; the next one goes on from there."""
    host = "classic20"
    other_runnable_image(project, host)
    with faults.shaped(host, "80mbit"):
        process = project.start("ship", "--variant", "sample", "--hosts", host)
        until_staged(project, host, 10 << 20)
        with faults.cut(host):
            out, err = process.communicate(timeout=130)
        assert process.returncode == 20, (out, err)
    assert runs(project, host)
    assert staged(project, host) >= 10 << 20
    # The lock on the host goes when nothing was heard of us for a minute.
    deadline = time.monotonic() + 100
    while project.run("ship", "--variant", "sample", "--hosts", host, code=None).code == 24:
        assert time.monotonic() < deadline, "the lock outlived its connection"
        time.sleep(2)
    project.verify("--hosts", host)


def test_two_ships_to_one_host(shipped: Project) -> None:
    """The second is refused with exit 24 and changes nothing; the first completes."""
    host = "classic20"
    shipped.forget(host)
    with faults.shaped(host, "200mbit"):
        first = shipped.start("ship", "--variant", "sample", "--hosts", host)
        until_staged(shipped, host, 1 << 20)
        done = shipped.run("ship", "--variant", "sample", "--hosts", host, code=24)
        assert "another ship" in done.out
        out, err = first.communicate(timeout=200)
        assert first.returncode == 0, (out, err)


def test_damaged_store_is_never_sent(shipped: Project) -> None:
    """A flipped byte in the store is found by its checksum before anything is sent; build brings the blob back."""
    shipped.forget("classic20")
    digest = max(shipped.record()["layers"], key=lambda layer: layer["size"])["digest"].removeprefix("sha256:")
    blob = shipped.folder / "store" / "blobs" / "sha256" / digest
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 1
    blob.write_bytes(data)
    done = shipped.run("ship", "--variant", "sample", "--hosts", "classic20", code=22)
    assert "damaged" in done.err
    assert "sistership build --variant sample" in done.err
    assert "fetched from" in shipped.run("build", "--variant", "sample").out
    shipped.run("ship", "--variant", "sample", "--hosts", "classic20")


@pytest.mark.parametrize(
    ("hidden", "word"), [(["zstd"], "gzip"), pytest.param(["zstd", "gzip"], "plain", marks=pytest.mark.full)]
)
def test_old_engine_on_a_host_without_tools(shipped: Project, hidden: list[str], word: str) -> None:
    """Without zstd an old engine gets gzip, without gzip plain bytes; the image is the same (case C51)."""
    host = "classic20"
    shipped.forget(host)
    # Not moved away: a rename back and forth on the host's overlay file system left the old name behind once.
    shipped.fleet.ssh(host, "; ".join(f"chmod a-x /usr/bin/{tool}" for tool in hidden))
    try:
        done = shipped.run("ship", "--variant", "sample", "--hosts", host)
        assert f"as {word}" in done.err
        shipped.verify("--hosts", host)
    finally:
        shipped.fleet.ssh(host, "; ".join(f"chmod a+x /usr/bin/{tool}" for tool in hidden))


def test_login_text_is_no_answer(shipped: Project) -> None:
    """A login file that prints on every connection neither fools the probe nor spoils a ship (case C33)."""
    host = "containerd26"
    shipped.forget(host)
    shipped.fleet.ssh(host, "cp ~/.bashrc ~/bashrc.kept; sed -i '1i echo \"*** welcome ***\"' ~/.bashrc")
    try:
        assert "welcome" in shipped.fleet.ssh(host, "true")
        shipped.run("ship", "--variant", "sample", "--hosts", host)
        shipped.verify("--hosts", host)
    finally:
        shipped.fleet.ssh(host, "mv ~/bashrc.kept ~/.bashrc")


def test_changed_host_key(shipped: Project) -> None:
    """A host with another key gets nothing, both fingerprints are shown, known_hosts stays as it was (case C49)."""
    known = shipped.fleet.files.known_hosts
    before = known.read_text()
    lines = before.splitlines()
    keys = {line.split()[0].split(",")[0]: line for line in lines}
    builder = next(line for name, line in keys.items() if "builder" in name)
    swapped = [
        " ".join([line.split()[0], *builder.split()[1:]]) if "containerd26" in line.split()[0] else line
        for line in lines
    ]
    known.write_text("\n".join(swapped) + "\n")
    during = known.read_text()
    try:
        done = shipped.verify(code=20)
        host = next(host for host in done.json()["hosts"] if host["host"] == "containerd26")
        assert host["verdict"] == "unreachable"
        assert len(set(re.findall(r"SHA256:[A-Za-z0-9+/]{43}", host["why"]))) == 2
        assert known.read_text() == during
    finally:
        known.write_text(before)


def test_full_disk_while_staging(shipped: Project) -> None:
    """A staging folder without room is refused before anything is sent, with the figures, exit 21."""
    host = "classic20"
    shipped.forget(host)
    shipped.fleet.ssh(host, "mkdir -p /root/.cache/sistership/stage")
    with faults.small_disk(host, "/root/.cache/sistership", 40 << 20):
        done = shipped.run("ship", "--variant", "sample", "--hosts", host, code=21)
        assert "staging folder needs" in done.out
    shipped.run("ship", "--variant", "sample", "--hosts", host)
