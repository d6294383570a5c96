"""Login shells, login texts and privileges: the right answer, or a refusal that says what to do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fleet.life.conftest import Life, Project

WAYS = ("openssh", "paramiko")


def rows(life: Life, way: str, users: dict[str, str]) -> dict[str, str]:
    """Matrix rows (user → further keys)."""
    config = life.config()
    return {
        name: f"{{ssh_config: {config}, transport: {way}{', ' if more else ''}{more}}}" for name, more in users.items()
    }


@pytest.mark.parametrize("way", WAYS)
def test_shells_and_login_texts_do_not_matter(shipped: Project, life: Life, way: str) -> None:
    """Bash, tcsh and fish, with banner, motd and login files that print around everything, verify (case C33)."""
    users = dict.fromkeys(("plain", "tcsh", "fish", "noisy"), "")
    shipped.hosts(rows(life, way, users))
    for user in users:
        found = shipped.verify(user)[user]
        assert found["verdict"] == "ok", found
        assert found["engine"]["version"].startswith("26.1")


@pytest.mark.parametrize("way", WAYS)
def test_what_cannot_work_is_refused_in_its_own_words(shipped: Project, life: Life, way: str) -> None:
    """Shells that leave, users without rights, sudo that asks (case C35): bounded, exit 21, others are ok."""
    users = {"plain": "", "leaves": "", "barred": "", "nodocker": "", "sudoer": "sudo: true", "asked": "sudo: true"}
    shipped.hosts(rows(life, way, users))
    started = time.monotonic()
    found = shipped.verify(",".join(users), code=21)
    assert time.monotonic() - started < 30
    assert {name: host["verdict"] for name, host in found.items()} == {
        "plain": "ok",
        "sudoer": "ok",
        "leaves": "not fit",
        "barred": "not fit",
        "nodocker": "not fit",
        "asked": "not fit",
    }
    assert "interactive only" in found["leaves"]["why"]
    assert "not available" in found["barred"]["why"]
    assert "no right to use the engine" in found["nodocker"]["why"]
    assert "docker group" in found["nodocker"]["next"]
    assert "sudo asks for a password" in found["asked"]["why"]
    assert {host["exit"] for name, host in found.items() if host["verdict"] != "ok"} == {21}
