"""The sample fork as a git repository: same content, same commits."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from sistership.errors import SourceError
from sistership.fleet.process import need, tail

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTENT = Path(__file__).with_name("sample")
#: Author and committer of every commit; time (Unix) of the first, one day between two.
_WHO = "sistership <sample@sistership.invalid>"
_FIRST = 1_767_225_600
_DAY = 86_400
_NOT_CONTENT = frozenset({"__pycache__", "build", ".git"})
_NEXT = "refs/sample/next"


def content(folder: Path) -> dict[str, bytes]:
    """Path → bytes of the sample's files; what a checkout or an interpreter leaves behind is not part of it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not _NOT_CONTENT & set(path.relative_to(folder).parts)
    }


def steps(files: dict[str, bytes]) -> list[tuple[str, dict[str, bytes]]]:
    """The history: one commit per top-level entry, in order of name (message, files added).

    More than one commit, because a build number counts them.
    """
    tops = sorted({name.split("/", 1)[0] for name in files})
    return [
        (f"Add {top}", {name: data for name, data in files.items() if name.split("/", 1)[0] == top}) for top in tops
    ]


def _mode(data: bytes) -> str:
    """Executable when it is a script: packaging loses modes, so content decides."""
    return "100755" if data.startswith(b"#!") else "100644"


def fast_import(files: dict[str, bytes]) -> Iterator[bytes]:
    """Input for ``git fast-import`` that makes the whole history on a side branch."""
    for number, (message, added) in enumerate(steps(files)):
        stamp = f"{_WHO} {_FIRST + number * _DAY} +0000"
        yield f"commit {_NEXT}\nauthor {stamp}\ncommitter {stamp}\n".encode()
        yield f"data {len(message.encode())}\n{message}\n".encode()
        if number == 0:
            yield b"deleteall\n"
        for name, data in added.items():
            quoted = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            yield f'M {_mode(data)} inline "{quoted}"\ndata {len(data)}\n'.encode() + data + b"\n"
    yield b"done\n"


def _git(repo: Path, *args: str, data: bytes | None = None) -> str:
    env = {"PATH": os.environ.get("PATH", ""), "HOME": str(repo), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    done = subprocess.run(
        [need("git", "git"), "-C", str(repo), *args], input=data, capture_output=True, check=False, timeout=120, env=env
    )
    if done.returncode != 0:
        raise SourceError(
            f"git {args[0]} failed",
            where=str(repo),
            why=tail(done.stderr.decode(errors="replace")),
            hint=f"rm -r {repo}",
        )
    return done.stdout.decode().strip()


def make(repo: Path, folder: Path = CONTENT) -> str | None:
    """Have branch main of the bare repository `repo` hold the sample; returns its commit, None when there is no sample.

    Older content stays reachable by its hash, as a lock may name it.
    """
    files = content(folder) if folder.is_dir() else {}
    if not files:
        return None
    if not (repo / "HEAD").is_file():
        repo.mkdir(parents=True, exist_ok=True)
        _git(repo, "init", "--quiet", "--bare", "--initial-branch=main", ".")
    for setting in ("uploadpack.allowAnySHA1InWant", "uploadpack.allowFilter"):
        _git(repo, "config", setting, "true")
    # Onto a side branch first: main moves in one step, and only when the content differs.
    _git(repo, "fast-import", "--quiet", "--force", "--done", data=b"".join(fast_import(files)))
    tip = _git(repo, "rev-parse", _NEXT)
    _git(repo, "update-ref", "refs/heads/main", tip)
    return tip
