"""The examples that need hosts, run in the order in which someone would type them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sistership.fleet.spec import HOSTS

if TYPE_CHECKING:
    from tests.fleet.conftest import Fleet

_SPEC = importlib.util.spec_from_file_location("docs_pages", Path(__file__).parents[2] / "docs" / "pages.py")
assert _SPEC
assert _SPEC.loader
pages = importlib.util.module_from_spec(_SPEC)
sys.modules["docs_pages"] = pages
_SPEC.loader.exec_module(pages)

ORDER = (
    "lock",
    "render",
    "build",
    "plan",
    "ship",
    "prune",
    "matrix",
    "export",
    "import",
    "diff",
    "check",
    "verify",
    "doctor",
    "fleet",
)
FORGET = (
    "docker ps -aq | xargs -r docker rm -f; docker images -q | sort -u | xargs -r docker rmi -f; "
    "docker system prune -af >/dev/null; rm -rf ~/.cache/sistership/stage"
)
ON_REQUEST = tuple(spec.name for spec in HOSTS.values() if spec.on_request)
PEERS = ("containerd26", "classic20")


@pytest.fixture(scope="module")
def project(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory):
    """The project of the examples; its peers hold nothing yet."""
    folder = tmp_path_factory.mktemp("docs")
    for host in PEERS:
        fleet.ssh(host, FORGET)
    yield folder, pages.example_project(folder, fleet.project)
    for host in PEERS:
        fleet.ssh(host, FORGET)


def test_all_pages_with_such_examples_are_run() -> None:
    """A page that is new has its place in the order."""
    assert {block.page.stem for block in pages.consoles("fleet")} <= set(ORDER)


@pytest.mark.parametrize("page", ORDER)
def test_examples_print_what_the_page_shows(project, page: str) -> None:
    """Each command of the page, one after the other, in one project.

    Hosts on request that a developer has on this machine are shown too, running or not; no page knows them.
    """
    folder, environ = project
    for block in pages.consoles("fleet"):
        if block.page.stem == page:
            for step in pages.steps(block):
                pages.run(step, folder, environ)
