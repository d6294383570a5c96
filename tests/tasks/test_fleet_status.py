"""`fleet.status`: which hosts must run for it to be content, and what it says of the others."""

from __future__ import annotations

import json

import pytest

from sistership import fleet
from sistership.fleet.engines import Engine
from sistership.fleet.lifecycle import HostState
from sistership.tasks.program import program

ENGINE = Engine("26.1.5", "overlay2", "classic")
BUILDER = HostState("builder", "running", "192.0.2.2", ENGINE)
ASKED_FOR = HostState("podman", "exited", on_request=True)


def ran(monkeypatch: pytest.MonkeyPatch, *hosts: HostState, json: bool = False) -> int:
    """The exit code of `fleet.status` where the fleet is so."""
    monkeypatch.setattr(fleet, "status", lambda: hosts)
    try:
        program().run(["sistership", "fleet.status", *(["--json"] if json else [])])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_a_host_on_request_may_stand_still(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It is shown with what starts it, and the fleet is whole without it."""
    assert ran(monkeypatch, BUILDER, ASKED_FOR) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == "podman: exited; start it again: sistership fleet.up --hosts podman"


def test_a_host_of_the_fleet_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of those that `fleet.up` starts stands still, or nothing is there: exit 1."""
    assert ran(monkeypatch, BUILDER, HostState("classic20", "exited")) == 1
    assert ran(monkeypatch, BUILDER, HostState("classic20", "missing")) == 1
    assert ran(monkeypatch) == 1


def test_json_tells_the_same(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One document with the exit code and every host's state."""
    assert ran(monkeypatch, BUILDER, ASKED_FOR, json=True) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["exit"] == 0
    assert [(each["host"], each["state"]) for each in document["hosts"]] == [
        ("builder", "running"),
        ("podman", "exited"),
    ]
