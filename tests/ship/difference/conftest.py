"""The two images, packed once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sistership.image.layout import Store

from .pair import Pair, found


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the two images and their difference: packed once."""
    root = tmp_path_factory.mktemp("packed") / "store"
    found(Pair(Store(root)))
    return root


@pytest.fixture
def pair(packed: Path, tmp_path: Path) -> Pair:
    """The two images in a store."""
    return Pair(Store(shutil.copytree(packed, tmp_path / "store")))
