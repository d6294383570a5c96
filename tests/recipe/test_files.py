from __future__ import annotations

import subprocess
import sys
import time

import pytest

from sistership.recipe.files import locked, write_atomic


def test_write_atomic(tmp_path):
    """A file is replaced as a whole, its folder made, and nothing stays beside it."""
    path = tmp_path / "a" / "b"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert [entry.name for entry in path.parent.iterdir()] == ["b"]


def test_failed_write_keeps_the_old(tmp_path):
    """What cannot be written leaves the old bytes."""
    path = tmp_path / "f"
    write_atomic(path, b"old")
    with pytest.raises(TypeError):
        write_atomic(path, "text")
    assert path.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_lock_lives_as_long_as_who_inherited_it(tmp_path):
    """A git that outlives its killed parent still keeps others out; the kernel frees the lock after it."""
    with locked(tmp_path) as descriptor:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.7)"], pass_fds=[descriptor])
    begun = time.monotonic()
    with locked(tmp_path):
        waited = time.monotonic() - begun
    assert child.wait() == 0
    assert waited > 0.1
