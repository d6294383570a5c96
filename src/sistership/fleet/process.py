"""Running programs that may take long: bounded, quiet, and gone when the fleet command is interrupted."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Protocol

from sistership.errors import HostUnfitError

if TYPE_CHECKING:
    import threading
    from pathlib import Path

_CHUNK = 1 << 20

#: Takes one line for the person who waits.
Reporter = Callable[[str], None]


class Sink(Protocol):
    """Takes bytes."""

    def write(self, data: bytes, /) -> object:
        """Take `data`."""


class Stopped(Exception):  # noqa: N818  not an error: the person pressed Ctrl-C
    """The command was interrupted while a helper thread still worked."""


def need(program: str, package: str) -> str:
    """Path of `program`; HostUnfitError that names the Debian package where it is missing."""
    path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
    if path is None:
        raise HostUnfitError(f"{program} is not installed", where="practice fleet", hint=f"apt-get install {package}")
    return path


def tail(text: str, lines: int = 6) -> str:
    """The last `lines` non-empty lines of a log, indented for an error message."""
    kept = [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]
    return "\n        ".join(kept)


def end_group(process: subprocess.Popen[bytes], grace: float = 20.0) -> None:
    """End a process and its children: SIGTERM, `grace` seconds to clean up, SIGKILL."""
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue


def stream(
    argv: Sequence[str], sink: Sink, *, log: Path, seconds: float, stop: threading.Event, env: dict[str, str]
) -> int:
    """Run `argv`, its standard output into `sink` and its standard error into `log`; returns the exit code.

    Raises:
        Stopped: `stop` was set meanwhile; the program has been ended.
        HostUnfitError: it took longer than `seconds`.
    """
    deadline = time.monotonic() + seconds
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as errors:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True, env=env
        )
        try:
            assert process.stdout is not None  # noqa: S101  a pipe was asked for
            while True:
                if stop.is_set():
                    raise Stopped
                if time.monotonic() > deadline:
                    raise HostUnfitError(
                        f"{argv[0]} did not finish within {seconds:.0f} s", why=tail(log.read_text(errors="replace"))
                    )
                if not select.select([process.stdout], [], [], 0.5)[0]:
                    continue
                if not (data := os.read(process.stdout.fileno(), _CHUNK)):
                    return process.wait(60)
                sink.write(data)
        finally:
            end_group(process)
            if process.stdout:
                process.stdout.close()


def together(jobs: Sequence[Callable[[], object]], *, at_once: int, stop: threading.Event) -> None:
    """Run `jobs` in threads, `at_once` at a time; the first failure or Ctrl-C stops the others and is raised."""
    if not jobs:
        return
    pool = ThreadPoolExecutor(max_workers=at_once)
    try:
        futures = [pool.submit(job) for job in jobs]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        failed = [error for future in done if (error := future.exception())]
        if failed:
            stop.set()
            raise next((error for error in failed if not isinstance(error, Stopped)), failed[0])
    finally:
        if any(not future.done() for future in futures):
            stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
