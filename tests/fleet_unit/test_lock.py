"""One fleet command at a time."""

from __future__ import annotations

import pytest

from sistership.errors import LockedError
from sistership.fleet.lock import held


def test_second_waits_and_gives_up(tmp_path):
    """While the lock is held a second command says that it waits, and ends as "locked" when that takes too long."""
    said: list[str] = []
    with held(tmp_path / "l", said.append), pytest.raises(LockedError), held(tmp_path / "l", said.append, seconds=0.3):
        pass
    assert len(said) == 1


def test_free_again(tmp_path):
    """After a command, even one that failed, the next gets the lock."""
    with pytest.raises(ZeroDivisionError), held(tmp_path / "l", print):
        _ = 1 / 0
    with held(tmp_path / "l", print, seconds=0):
        pass
