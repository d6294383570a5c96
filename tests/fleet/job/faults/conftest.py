"""The scene of the fault suite, and its figures at the end of the run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from .links import lay
from .promises import Figures
from .scene import Scene

if TYPE_CHECKING:
    from tests.fleet.job.conftest import Project

HOSTS = ("classic20", "classic26", "containerd26")


FIGURES = pytest.StashKey[Figures]()


@pytest.fixture(scope="session")
def figures(pytestconfig: pytest.Config) -> Figures:
    """Counted over all cases, printed at the end of the run."""
    return pytestconfig.stash.setdefault(FIGURES, Figures())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The suite's figures."""
    found = config.stash.get(FIGURES, None)
    if found:
        kinds = len({case.split("@")[0] for case in found.cases})
        terminalreporter.write_line(
            f"faults: {kinds}, on {len(found.cases)} hosts in all: "
            f"{found.broken} hosts left broken, {found.false_successes} false successes, "
            f"{found.sent_again} bytes of finished blobs sent again"
        )


@pytest.fixture(scope="package")
def stage(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[tuple[str, ...]], Scene]]:
    """A scene with any of the hosts, its links laid once; the store is that of the project."""
    folder = tmp_path_factory.mktemp("faults")
    links, ssh_config = lay(folder / "links", project.fleet.files.ssh_config, HOSTS)
    text = (project.folder / "buildmatrix.yaml").read_text()
    text = text.replace(str(project.fleet.files.ssh_config), str(ssh_config))
    (folder / "buildmatrix.yaml").write_text(text.replace("containerd26: {}}", "classic26: {}, containerd26: {}}"))
    shutil.copy(project.folder / "buildmatrix.lock.json", folder)
    ours = type(project)(folder, project.fleet, project.environ)
    whole = Scene(ours, links, HOSTS)

    def of(hosts: tuple[str, ...]) -> Scene:
        return Scene(ours, links, hosts, whole.old, whole.started, whole.whole)

    yield of
    whole.leave()
