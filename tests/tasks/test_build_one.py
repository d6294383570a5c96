"""How `build` ends when the image is there and the builder's own engine does not get it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sistership.build import build as rooms
from sistership.errors import LockedError
from sistership.report.events import Event, Note
from sistership.report.listeners import Listener
from sistership.tasks.building import build_one


class Session(Listener):
    """What `build_one` uses of a session; keeps what was recorded and told."""

    def __init__(self) -> None:
        self.matrix = SimpleNamespace(hosts={"box": SimpleNamespace(name="box")})
        self.lock = None
        self.reporter = self
        self.recorded: list[str] = []
        self.notes: list[str] = []

    def store(self) -> None:
        """No store: nothing is read here."""

    def record(self, key: str, record: object) -> None:
        """Keep the key."""
        self.recorded.append(key)

    def tell(self, event: Event) -> None:
        """Keep what stays to be read."""
        if isinstance(event, Note):
            self.notes.append(event.text)


RECIPE: Any = SimpleNamespace(key="k" * 64, platform="linux/amd64", variant=SimpleNamespace(name="alpha"))
RELEASE = SimpleNamespace(files={}, image=SimpleNamespace(config="sha256:1"), reference="alpha:v1")


def build(monkeypatch: pytest.MonkeyPatch, error: BaseException | None, builder: str = "box") -> Session:
    """A build whose load on the builder ends like this."""
    session = Session()

    def load(*_: object) -> None:
        assert session.recorded == [], "a run that is killed now would be found to be complete"
        if error:
            raise error

    monkeypatch.setattr(rooms, "builder_host", lambda *_: SimpleNamespace(name=builder))
    monkeypatch.setattr(rooms, "build", lambda *_, **__: SimpleNamespace(release=RELEASE, how="built", measured={}))
    monkeypatch.setattr(rooms, "record_of", lambda *_: {})
    monkeypatch.setattr(rooms, "load_on_builder", load)
    if error is None:
        build_one(session, RECIPE)  # type: ignore[arg-type]
    else:
        with pytest.raises(type(error)):
            build_one(session, RECIPE)  # type: ignore[arg-type]
    return session


def test_loaded_and_then_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In that order, and nothing more is said."""
    session = build(monkeypatch, None)
    assert (session.recorded, session.notes) == ([RECIPE.key], [])


def test_interrupted_while_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock does not know it yet, so that the next run ends the work instead of finding it done."""
    assert build(monkeypatch, KeyboardInterrupt()).recorded == []


def test_engine_that_does_not_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The image is built all the same: it is recorded, and said how it gets there later."""
    session = build(monkeypatch, LockedError("another ship to this host is under way"))
    assert session.recorded == [RECIPE.key]
    (note,) = session.notes
    assert note.endswith("only the engine of box lacks it: sistership ship --variant alpha --hosts box")
    (note,) = build(monkeypatch, LockedError("another"), builder="this-machine").notes
    assert "sistership ship" not in note
