"""The benchmark on practice hosts: its images are canonical, its links are as narrow as they say, it leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ship_hosts import WATCH, cpu_seconds, received, staged_most
from ship_images import CREATED, INSTRUCTIONS, NAME, make
from ship_links import shaped

from sistership.fleet.paths import state
from sistership.image.archive import pieces, write
from sistership.image.canonical import canonicalise
from sistership.image.layout import Store

SHIP = Path(__file__).parents[3] / "benchmarks" / "ship.py"
BYTES = 4_000_000
HOSTS = ("builder", "classic26")


def seconds(command, data=b""):
    """How long a program of this machine takes."""
    began = time.monotonic()
    subprocess.run(command, input=data, stdout=subprocess.DEVNULL, check=True, timeout=60)
    return time.monotonic() - began


def test_a_link_that_is_shaped_at_the_sender(fleet):
    """What this machine and the builder send is slowed, and afterwards not: 4 MB take 0.8 s at 40 Mbit/s."""
    ssh = ["ssh", "-F", str(fleet.files.ssh_config), "-o", "BatchMode=yes"]
    before, used = received(["classic26"]), cpu_seconds(["classic26"])
    with shaped("40mbit-sender", ["classic26"], "builder"):
        assert seconds([*ssh, "classic26", "cat >/dev/null"], os.urandom(BYTES)) > 0.7
        assert seconds([*ssh, "builder", f"head -c {BYTES} /dev/zero"]) > 0.7
        assert "rate 40Mbit" in fleet.ssh("builder", "tc qdisc show dev eth0")
    assert "tbf" not in fleet.ssh("builder", "tc qdisc show dev eth0")
    assert received(["classic26"]) - before > BYTES
    assert cpu_seconds(["classic26"]) > used


def test_the_most_that_was_staged_is_seen(fleet):
    """A file that has gone again when the watch ends."""
    stage = "/root/.cache/sistership/stage"
    with staged_most("classic26") as most:
        seen = f"until [ $(cat {WATCH}) -ge 3000000 ]; do sleep 0.1; done"
        file = f"{stage}/{NAME}"
        fleet.ssh("classic26", f"mkdir -p {stage} && head -c 3000000 /dev/zero > {file} && {seen} && rm {file}")
    assert 3_000_000 <= most[0] < 10_000_000
    assert NAME not in fleet.ssh("classic26", "ls -A /run")


@pytest.mark.full
def test_a_build_makes_of_its_export_the_image_that_is_shipped(fleet, tmp_path):
    """So both begin with the same: the benchmark's images are in canonical form."""
    store = Store(tmp_path / "store")
    release = make("small", store, state(), print)["program"]
    with (tmp_path / "saved.tar").open("wb") as file:
        write(pieces(release.image, store, name=release.unique, plain=True), store, file)
    fresh = Store(tmp_path / "fresh")

    image = canonicalise(tmp_path / "saved.tar", instructions=INSTRUCTIONS, created=CREATED, store=fresh)

    assert image == release.image


def left(fleet):
    """What a benchmark would have left on practice hosts."""
    look = f"docker images --format '{{{{.Repository}}}}' | grep {NAME}; ls -dA ~/.{NAME}* /etc/docker/certs.d/*:5444"
    return {host: fleet.ssh(host, f"{{ {look}; }} 2>/dev/null || true") for host in HOSTS}


@pytest.mark.full
@pytest.mark.timeout(900)
def test_every_way_to_one_host_once(fleet, tmp_path):
    """All of them bring the image, the files are written, and nothing is left."""
    file, folder = tmp_path / "found.json", tmp_path / "pictures"
    argv = [sys.executable, str(SHIP), "--scenarios", "cold,small", "--links", "1gbit", "--json", str(file)]
    done = subprocess.run([*argv, "--pictures", str(folder)], capture_output=True, text=True, timeout=800, check=False)

    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    rows = {(row["scenario"], row["way"]): row for row in found["rows"]}
    packed = sum(layer["packed"] for layer in found["images"]["first"]["layers"])
    assert len(rows) == 12
    assert packed < rows["cold", "ship"]["received"] < rows["cold", "pipeline"]["received"]
    assert 2 * packed < rows["cold", "skopeo"]["received"]
    assert rows["small", "ship"]["received"] < 0.01 * rows["small", "pipeline"]["received"]
    assert rows["small", "registry"]["received"] < 0.1 * packed
    assert packed <= rows["cold", "watched"]["staged"] < packed + 64_000_000
    assert all(row["cpu"] > 0 and row["peak"] > 10_000_000 for row in rows.values())
    assert (folder / "benchmark-ship.svg").read_text().startswith("<svg")
    assert "What it must show" in done.stdout
    assert not any(left(fleet).values())


@pytest.mark.full
def test_ctrl_c_prints_what_there_is_and_leaves_nothing(fleet, tmp_path):
    """After the first sample."""
    argv = [sys.executable, str(SHIP), "--scenarios", "cold", "--ways", "ship,pipeline", "--runs", "9"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "of 72" in line:
                process.send_signal(signal.SIGINT)
                break
        out, err = process.communicate(timeout=120)

    assert process.returncode == 130, err
    assert "these are the samples so far" in err
    assert "| cold " in out
    assert not any(left(fleet).values())
