"""What several tests of the image room need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sistership.image.layout import Store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "store")
