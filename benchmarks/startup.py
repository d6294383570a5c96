"""How long people wait for what should answer at once: the median of ten runs of each, against a quarter of a second.

    .venv/bin/python benchmarks/startup.py

Exits 1 when a median is over the budget.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUDGET = 0.25
RUNS = 10
PROJECT = Path(__file__).parents[1]
COMMANDS = (
    ("--list",),
    ("--help",),
    ("--help", "ship"),
    ("--version",),
    ("--complete", "bash", "sh", "sistership sh"),
    ("--complete", "zsh", "ship", "--"),
    ("--complete", "fish", "ship", "--hosts", ""),
    ("--complete", "fish", "ship", "--variant", "^"),
)


def once(command: tuple[str, ...], logs: str) -> float:
    """Seconds of one run."""
    program = Path(sys.executable).with_name("sistership")
    argv = [str(program)] if program.exists() else [sys.executable, "-m", "sistership"]
    began = time.perf_counter()
    subprocess.run(
        [*argv, *command],
        cwd=PROJECT,
        env={**os.environ, "SISTERSHIP_LOGS": logs},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - began


def main() -> int:
    """Measure and print a table; the exit code says whether the budget holds."""
    slow = False
    print(f"{'command':<56}{'median':>9}{'least':>9}{'most':>9}   (ms; {RUNS} runs, budget {BUDGET * 1000:.0f})")
    with tempfile.TemporaryDirectory() as logs:
        for command in COMMANDS:
            once(command, logs)  # fills the caches of the file system
            times = [once(command, logs) for _ in range(RUNS)]
            median = statistics.median(times)
            slow = slow or median > BUDGET
            shown = " ".join(f"'{word}'" if " " in word or not word else word for word in ("sistership", *command))
            numbers = "".join(f"{value * 1000:>9.0f}" for value in (median, min(times), max(times)))
            print(f"{shown:<56}{numbers}{'   over' if median > BUDGET else ''}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
