"""Loads that begin early, and are given up at any moment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sistership.host.transport import Completed
from sistership.ship import early
from sistership.ship.early import EarlyLoad
from sistership.ship.load import Assembly

FIRST = Assembly("a.meta-1", b"first", "true", "a.meta-1.coming")
SECOND = Assembly("a.meta-2", b"second", "true", "a.meta-2.coming", after="a.meta-1")


class Host:
    """A host that notes what it is asked, and does something else meanwhile."""

    def __init__(self, meanwhile: Any) -> None:
        self.promises: set[str] = set()
        self.loads: list[str] = []
        self._meanwhile = meanwhile

    def run(self, script: str, *, stdin: object = None, timeout: float | None = None) -> Completed:
        """Keep promises as the staging folder would."""
        del timeout
        named = {each for each in (FIRST.promise, SECOND.promise) if each in script}
        if stdin is not None:
            self._meanwhile(self)
            self.promises |= named
        elif "load_image" in script:
            self.loads += sorted(named)
        else:
            self.promises -= named
        return Completed(0, b"", "")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An early load of two archives on a host of ours."""

    def make(host: Host) -> EarlyLoad:
        plan: Any = SimpleNamespace()
        monkeypatch.setattr(early, "batches", lambda *_: (1, 2))
        archives = iter([(FIRST, ""), (SECOND, "image:x")])
        monkeypatch.setattr(early, "_assembly", lambda *_: next(archives))
        monkeypatch.setattr(early, "put", lambda peer, assembly, _: host.run(assembly.promise, stdin=b""))
        monkeypatch.setattr(early, "load", lambda peer, assembly, *_, **__: host.run(f"load_image {assembly.promise}"))
        peer: Any = SimpleNamespace(name="here", transport=host)
        return EarlyLoad(peer, plan, plan, plan, {})

    return make


def test_both_are_loaded(made: Any) -> None:
    """Nobody gives up: two archives, two loads, no trouble."""
    host = Host(lambda _: None)
    with made(host) as loading:
        assert loading.wait() == ""
    assert host.loads == [FIRST.promise, SECOND.promise]


@pytest.mark.parametrize("at", [1, 2])
def test_given_up_while_a_promise_is_made(made: Any, at: int) -> None:
    """No promise stays for which a load would wait, although it was made after the others were broken."""
    puts = 0

    def give_up(_: Host) -> None:
        nonlocal puts
        puts += 1
        if puts == at:
            loading.give_up()

    host = Host(give_up)
    loading = made(host)
    with loading:
        assert loading.wait() == "a layer came otherwise than it was announced"
    assert not host.promises - ({FIRST.promise} if at == 2 else set())
    assert SECOND.promise not in host.loads
