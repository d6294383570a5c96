"""What one ship tells of its course."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time

from ship_build import raw_name
from ship_hosts import NAMED
from ship_images import NAME, REPOSITORY, layout_name
from ship_once import Course
from ship_theirs import _PEAKS, pipeline

from sistership import trace


def test_the_course_has_steps_programs_and_scripts():
    """Steps as points, what ran from its start to its end, in seconds since the beginning, on one short line."""
    course = Course(time.monotonic() - 5)
    with trace.observed(course.observe):
        course.step("a", "loading")
        with trace.script("a", "set -e\n  docker load\n" + "x" * 500):
            trace.program(["ssh", "a"]).end(0)

    step, program, script = course.lines
    assert step[0] == step[1] >= 5
    assert (step[2:], program[2:]) == (("a", "loading"), ("a", "ssh a"))
    assert script[3].startswith("set -e docker load xxx")
    assert len(script[3]) == 200
    assert 5 <= script[0] <= program[0] <= program[1] <= script[1] < 60


def test_the_pipelines_are_those_that_people_type():
    """Word for word, but for the file that says how a practice host is reached."""
    typed = "docker save NAME | zstd -3 -T0 | ssh HOST 'zstd -d | docker load >/dev/null'"
    plain = "docker save NAME | ssh HOST 'docker load >/dev/null'"
    reached = f" -F .{NAME}/ssh_config -o BatchMode=yes"
    assert pipeline("NAME", "HOST", packed=True).replace(reached, "") == typed
    assert pipeline("NAME", "HOST", packed=False).replace(reached, "") == plain


def test_the_memory_of_programs_in_turn_is_not_added_up():
    """Of two that follow each other the larger counts, 50 MiB and what Python itself takes."""
    hold = f"{sys.executable} -c 'import sys, time; held = bytearray(int(sys.argv[1]) << 20); time.sleep(1.2)'"
    work = shlex.quote(f"{hold} 50; {hold} 40")
    script = f"{_PEAKS}\nsetsid bash -c {work} </dev/null & work=$!\npeaks $work"

    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=60)

    word, kb = done.stdout.split()
    assert word == "peak"
    assert 50 << 10 < int(kb) < 90 << 10


def test_every_name_that_a_run_gives_is_known_for_removal():
    """Of people, our own, of a builder, in the registry; and no name of anybody else."""
    own = (f"{NAME}:v1", f"sistership.local/{NAME}:0123456789ab", f"10.0.0.1:5444/{REPOSITORY}@sha256:00")
    for name in (*own, f"{NAME}:rollback-0123456789ab", raw_name("a" * 64)):
        assert re.match(NAMED, name), name
    for name in (f"my-{NAME}:v1", "sistership.local/raw:ab12", f"{NAME}-two:v1", "debian:12"):
        assert not re.match(NAMED, name), name
    assert ":" not in layout_name("ab" * 32)
