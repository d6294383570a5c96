"""A host without the usual tools, and one whose key changed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fleet.job.conftest import Project


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
