"""known_hosts as ssh reads it."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

from sistership.host.knownhosts import entry, fingerprint, lookup


@pytest.fixture
def key(tmp_path: Path) -> str:
    """`type base64` of a fresh key."""
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return " ".join(path.with_suffix(".pub").read_text().split()[:2])


def test_names_ports_patterns(tmp_path: Path, key: str) -> None:
    """A key is found by name, by `[name]:port`, by pattern, and not by a name that is left out."""
    file = tmp_path / "known_hosts"
    file.write_text(f"# comment\n\ngpu-a,10.0.0.1 {key}\n[gpu-b]:2222 {key} me@here\n*.lan,!bad.lan {key}\nnonsense\n")
    blob = base64.b64decode(key.split()[1])
    for name in ("gpu-a", "GPU-A", "10.0.0.1", entry("gpu-b", 2222), "x.lan"):
        assert [found[1] for found in lookup([file], name).keys] == [blob], name
    for name in ("gpu-b", "bad.lan", "other", entry("gpu-a", 23)):
        assert not lookup([file], name).keys, name
    assert lookup([tmp_path / "missing", file], "gpu-a").keys[0][2] == f"{file}:3"


def test_hashed_names(tmp_path: Path, key: str) -> None:
    """Names hashed by ssh-keygen -H are found."""
    file = tmp_path / "known_hosts"
    file.write_text(f"gpu-a {key}\n[gpu-b]:2222 {key}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True)
    assert "gpu-a" not in file.read_text()
    assert lookup([file], "gpu-a").keys
    assert lookup([file], entry("gpu-b", 2222)).keys
    assert not lookup([file], "gpu-b").keys


def test_markers(tmp_path: Path, key: str) -> None:
    """A revoked key is never one that may be shown; an authority is no key of the host."""
    file = tmp_path / "known_hosts"
    file.write_text(f"@revoked * {key}\n@cert-authority *.lan {key}\n")
    known = lookup([file], "x.lan")
    assert known.keys == ()
    assert known.revoked == {base64.b64decode(key.split()[1])}
    assert known.authorities == (f"{file}:2",)


def test_fingerprint_is_that_of_ssh_keygen(tmp_path: Path, key: str) -> None:
    """SHA256:… as ssh shows it."""
    shown = subprocess.run(["ssh-keygen", "-lf", str(tmp_path / "key")], capture_output=True, text=True, check=True)
    assert fingerprint(base64.b64decode(key.split()[1])) == shown.stdout.split()[1]
