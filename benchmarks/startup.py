"""How long people wait for what should answer at once: the median of ten runs of each, against its budget.

    .venv/bin/python benchmarks/startup.py           what needs no host: a quarter of a second
    .venv/bin/python benchmarks/startup.py --fleet   `plan` for three practice hosts too: two seconds
                                                     (after scripts/demo, which starts them and builds the sample)

Exits 1 when a median is over its budget.
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
PLAN_BUDGET = 2.0
PLAN = ("plan", "--variant", "sample", "--hosts", "classic20,classic26,containerd26", "--quiet")


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


def measure(command: tuple[str, ...], budget: float, logs: str) -> bool:
    """Print one row; whether the median is over the budget."""
    once(command, logs)  # fills the caches of the file system
    times = [once(command, logs) for _ in range(RUNS)]
    median = statistics.median(times)
    shown = " ".join(f"'{word}'" if " " in word or not word else word for word in ("sistership", *command))
    numbers = "".join(f"{value * 1000:>9.0f}" for value in (median, min(times), max(times), budget))
    print(f"{shown:<88}{numbers}{'   over' if median > budget else ''}")
    return median > budget


def main() -> int:
    """Measure and print a table; the exit code says whether the budgets hold."""
    print(f"{'command':<88}{'median':>9}{'least':>9}{'most':>9}{'budget':>9}   (ms; {RUNS} runs)")
    with tempfile.TemporaryDirectory() as logs:
        over = [measure(command, BUDGET, logs) for command in COMMANDS]
        if "--fleet" in sys.argv[1:]:
            over.append(measure(PLAN, PLAN_BUDGET, logs))
    return 1 if any(over) else 0


if __name__ == "__main__":
    sys.exit(main())
