"""What `down` and `remove` take away, and what they never touch; what `status` shows."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from docker.errors import NotFound

from sistership.errors import HostUnfitError
from sistership.fleet import containers, lifecycle
from sistership.fleet.paths import State, project_files
from sistership.fleet.spec import HOST_LABEL, LABEL, LABELS


class _Engine:
    """An engine with one container, one volume, one network and one image of the fleet."""

    def __init__(self, labels):
        self.removed: list[object] = []
        self.filters: list[object] = []
        self.container = SimpleNamespace(
            name="sistership-practice-builder",
            labels=labels,
            status="running",
            stop=lambda timeout: self.removed.append("stopped"),
            remove=lambda v, force: self.removed.append(("container", v, force)),
        )
        self.containers = SimpleNamespace(get=self._get, list=lambda filters, **_: self._list(filters, self.container))
        self.networks = SimpleNamespace(list=lambda filters: self._list(filters, self._thing("network")))
        self.volumes = SimpleNamespace(list=lambda filters: self._list(filters, self._thing("volume")))
        image = SimpleNamespace(tags=["sistership-practice/trixie:1", "mine:1"])
        self.images = SimpleNamespace(list=lambda filters: self._list(filters, image), remove=self.removed.append)

    def _get(self, name):
        if name != self.container.name:
            raise NotFound(name)
        return self.container

    def _thing(self, kind):
        return SimpleNamespace(remove=lambda: self.removed.append(kind))

    def _list(self, filters, thing):
        self.filters.append(filters)
        return [thing]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A fleet state with something in each cache."""
    state = State(tmp_path / "fleet")
    for folder in (state.roots, state.registry, state.keys, state.logs):
        folder.mkdir(parents=True)
        (folder / "x").write_text("x")
    monkeypatch.setattr(lifecycle, "state", lambda: state)
    return state


def _down(monkeypatch, **options):
    engine = _Engine({**LABELS, HOST_LABEL: "builder"})
    monkeypatch.setattr(containers, "connect", lambda: engine)
    lifecycle.down(**options)
    return engine


def test_down_keeps_caches(monkeypatch, home):
    """Hosts go with their volumes, the network goes, caches and images stay; only the label is asked for."""
    engine = _down(monkeypatch)
    assert engine.removed == ["stopped", ("container", True, True), "network", "volume"]
    assert engine.filters == [{"label": f"{LABEL}={LABELS[LABEL]}"}] * 3
    assert (home.roots / "x").exists()


def test_purge_removes_caches(monkeypatch, home):
    """With purge the fleet's own tags and files go as well; another tag of the same image stays."""
    engine = _down(monkeypatch, purge=True)
    assert engine.removed[4:] == ["sistership-practice/trixie:1"]
    assert [path.name for path in home.root.iterdir()] == ["lock"]


def test_a_strangers_container_is_refused():
    """A container that has a host's name but not the fleet's label is never taken over."""
    with pytest.raises(HostUnfitError, match="not of the fleet"):
        containers.find(_Engine({}), "sistership-practice-builder")
    assert containers.find(_Engine({}), "sistership-practice-other") is None


def test_removing_some_leaves_the_others(monkeypatch, home, tmp_path):
    """A host that is named goes with its volumes; others, the network and the caches stay, and ssh forgets the one."""
    host, other = (_Engine({**LABELS, HOST_LABEL: name}).container for name in ("docker28", "builder"))
    gone: list[str] = []
    monkeypatch.setattr(containers, "connect", lambda: None)
    monkeypatch.setattr(containers, "all_of_fleet", lambda _client: {"docker28": host, "builder": other})
    monkeypatch.setattr(containers, "remove", lambda container: gone.append(container.labels[HOST_LABEL]))
    monkeypatch.setattr(containers, "address", lambda _container: "192.0.2.7")
    lifecycle.remove(tmp_path, hosts=["*28"])
    assert gone == ["docker28"]
    assert (home.roots / "x").exists()
    text = project_files(tmp_path).ssh_config.read_text()
    assert ("Host builder" in text, "Host docker28" in text) == (True, False)


@pytest.mark.parametrize(("there", "shown"), [((), False), (("docker28",), True)])
def test_status_shows_a_host_on_request_where_it_exists(monkeypatch, there, shown):
    """Hosts that nobody asked for are not missing; one that exists is shown, also when it is off."""
    off = SimpleNamespace(status="exited", attrs={"NetworkSettings": {"Networks": {}}})
    monkeypatch.setattr(containers, "connect", lambda: None)
    monkeypatch.setattr(containers, "all_of_fleet", lambda _client: dict.fromkeys(there, off))
    states = {state.name: state.state for state in lifecycle.status()}
    assert states.pop("docker28", None) == ("exited" if shown else None)
    assert states == dict.fromkeys(["builder", "classic20", "classic26", "containerd26"], "missing")
