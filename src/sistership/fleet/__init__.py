"""Practice hosts for demo, tests and benchmarks: real engines as containers of this machine's own Docker Engine."""

from __future__ import annotations

from sistership.fleet.lifecycle import HostState, down, remove, status, up
from sistership.fleet.paths import ProjectFiles, project_files

__all__ = ["HostState", "ProjectFiles", "down", "project_files", "remove", "status", "up"]
