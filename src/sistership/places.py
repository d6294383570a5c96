"""Where sistership keeps what is not the project's: store, source cache, logs.

Each can be moved by an environment variable; all are the user's own folders (XDG on Linux).
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

_APP = "sistership"


def cache() -> Path:
    """What can be fetched again: git objects, root filesystems. `SISTERSHIP_CACHE` moves it."""
    return _place("SISTERSHIP_CACHE", platformdirs.user_cache_dir(_APP))


def store() -> Path:
    """Images and their blobs. `SISTERSHIP_STORE` moves it."""
    return _place("SISTERSHIP_STORE", f"{platformdirs.user_data_dir(_APP)}/store")


def logs() -> Path:
    """One log file per build or run. `SISTERSHIP_LOGS` moves it."""
    return _place("SISTERSHIP_LOGS", platformdirs.user_log_dir(_APP))


def _place(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or default).expanduser()
