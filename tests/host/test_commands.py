"""What every kind of engine has in common."""

from __future__ import annotations

import subprocess

import pytest

from sistership.host.commands import FUNCTIONS, Commands
from sistership.host.containerd import Containerd
from sistership.host.docker import Docker
from sistership.host.facts import probe_script
from sistership.host.podman import Podman


@pytest.mark.parametrize("kind", [Docker("docker"), Podman("podman"), Containerd("ctr", "k8s.io")])
def test_every_kind_has_every_function(kind: Commands) -> None:
    """The functions are defined, nothing is run by that, and all of it is POSIX shell that sh reads."""
    ask = "; ".join(f"command -v {name}" for name in FUNCTIONS)
    done = subprocess.run(["sh", "-ec", f"{kind.functions}\n{ask}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == list(FUNCTIONS)
    assert "ask_engine" in probe_script(kind)
