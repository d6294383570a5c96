"""Waiting for a host, and giving up in time."""

from __future__ import annotations

import subprocess
import threading

import pytest

from sistership.errors import HostUnfitError
from sistership.fleet import waiting
from sistership.fleet.paths import project_files
from sistership.fleet.process import Stopped
from sistership.fleet.spec import HOSTS


class _Container:
    status = "running"

    def reload(self):
        """Nothing changes."""

    def logs(self, tail):
        """What the host said last."""
        return f"failed to start daemon (last {tail} lines)".encode()


def _wait(monkeypatch, tmp_path, attempt, *, container=None, stop=None, seconds=0.0):
    monkeypatch.setattr(waiting, "_attempt", lambda *_: attempt)
    stop = stop or threading.Event()
    return waiting.until_ready(HOSTS["builder"], container or _Container(), project_files(tmp_path), stop, seconds)


def test_time_out_shows_the_log(monkeypatch, tmp_path):
    """A host that does not come up in time is an error with what it lacked and its last log lines."""
    with pytest.raises(HostUnfitError) as caught:
        _wait(monkeypatch, tmp_path, (None, "exit 255: Connection refused"))
    assert "Connection refused" in str(caught.value)
    assert "failed to start daemon" in str(caught.value)


def test_a_container_that_ended_is_noticed_at_once(monkeypatch, tmp_path):
    """There is no waiting for a host whose container is gone."""
    dead = _Container()
    dead.status = "exited"
    with pytest.raises(HostUnfitError, match="is exited"):
        _wait(monkeypatch, tmp_path, (None, "exit 255"), container=dead, seconds=60)


def test_interrupted(monkeypatch, tmp_path):
    """Waiting ends when the command is stopped."""
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        _wait(monkeypatch, tmp_path, (None, "exit 255"), stop=stop, seconds=60)


def _answers(monkeypatch, tmp_path, answers):
    """One look at the host with two engines, whose logins answer like this (exit code, output)."""
    asked = []

    def ssh(_files, alias, command):
        asked.append((alias, command))
        code, out = answers[alias]
        return subprocess.CompletedProcess([], code, out, "Cannot connect\n")

    monkeypatch.setattr(waiting, "ssh", ssh)
    return waiting._attempt(HOSTS["docker26"], project_files(tmp_path)), asked


INFO = '{"ServerVersion": "26.1.5", "Driver": "overlay2"}'


def test_a_host_works_once_the_engines_of_its_users_do(monkeypatch, tmp_path):
    """Root's engine alone is not enough; a user's docker command is led to his own."""
    (found, _), asked = _answers(monkeypatch, tmp_path, {"docker26": (0, INFO), "docker26-rootless": (0, INFO)})
    assert str(found) == "Docker 26.1.5, classic store (overlay2)"
    assert "--host" not in asked[0][1]
    assert 'docker --host "unix:///run/user/$(id -u)/docker.sock" info' in asked[1][1]
    (found, problem), _ = _answers(monkeypatch, tmp_path, {"docker26": (0, INFO), "docker26-rootless": (1, "")})
    assert (found, problem) == (None, "exit 1: Cannot connect")
