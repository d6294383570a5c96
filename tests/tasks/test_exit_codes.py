"""Each exit code of the table, provoked through the command line of a real process; no engine, no network.

Codes that need an image on a real host are in tests/fleet/face.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jsonschema
import pytest

SCHEMAS = Path(__file__).parents[2] / "schemas"
PINNED = "debian@sha256:" + "1" * 64
MATRIX = """\
version: 1
ssh_config: {folder}/ssh_config
builder: here
forks:
  sample: {{git: {folder}/fork}}
variants:
  sample:
    fork: sample
    commit: main
    image: sample
    tag: v1
    backend: cpu
    base: {{build: "{pinned}", runtime: "{pinned}"}}
    patches: [{{file: change.patch, why: practice}}]
hosts:
  here: {{local: true, docker: {folder}/docker}}
  gone: {{ssh: gone}}
"""
PATCH = """\
--- a/file.txt
+++ b/file.txt
@@ -1 +1 @@
-{old}
+changed
"""
#: An engine that is asked to build and answers as it is told to.
DOCKER = """\
#!/bin/sh
case "$1" in
  buildx) cat >/dev/null; {build} ;;
  *) echo "Cannot connect to the Docker daemon at unix:///var/run/docker.sock." >&2; exit 1 ;;
esac
"""


@dataclass(frozen=True)
class Done:
    """What a command printed and its exit code."""

    code: int
    out: str
    err: str


@dataclass
class Project:
    """A project in a folder of its own, with its own store, cache, logs and home."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start `sistership WORDS` and do not wait."""
        return subprocess.Popen(
            [sys.executable, "-m", "sistership", *words],
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, code: int) -> Done:
        """Run `sistership WORDS`; it must end with `code` and without a traceback."""
        process = self.start(*words)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, "Traceback" in err) == (code, False), f"{process.returncode}\n{out}\n{err}"
        return Done(code, out, err)

    def docker(self, build: str) -> None:
        """Let the engine answer a build by a line of shell."""
        (self.folder / "docker").write_text(DOCKER.format(build=build))
        (self.folder / "docker").chmod(0o755)

    def pretend_built(self) -> None:
        """Write an image into the lock that no store and no host has."""
        self.run("lock", "--quiet", code=0)
        lines = self.run("build", "--dry-run", "--json", code=0).out.splitlines()
        (recipe,) = (line["recipe"] for line in map(json.loads, lines) if line["type"] == "image")
        digests = [f"sha256:{digit * 64}" for digit in "abcde"]
        layer = {"diff_id": digests[3], "digest": digests[4], "size": 10, "plain_size": 20, "base": False,
                 "created_by": "COPY"}  # fmt: skip
        record = {"variant": "sample", "platform": "linux/amd64", "image": "sample", "tag": "v1",
                  "created": "2026-05-01T10:00:00Z", "config": digests[0], "manifest": digests[1],
                  "manifest_plain": digests[2], "layers": [layer]}  # fmt: skip
        lock = json.loads((self.folder / "buildmatrix.lock.json").read_text())
        lock["images"] = {recipe: record}
        (self.folder / "buildmatrix.lock.json").write_text(json.dumps(lock, indent=2, sort_keys=True) + "\n")


def git(folder: Path, *words: str) -> None:
    """Run git in `folder`."""
    name = ["-c", "user.name=A", "-c", "user.email=a@example.invalid", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *name, "-C", str(folder), *words], check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project that locks: a fork, a patch that applies, an engine that does not answer."""
    return made_in(tmp_path)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose lock says that the image was built; tests that share it change nothing in it."""
    made = made_in(tmp_path_factory.mktemp("built"))
    made.pretend_built()
    return made


def made_in(tmp_path: Path) -> Project:
    """The project in a folder."""
    fork = tmp_path / "fork"
    fork.mkdir()
    (fork / "file.txt").write_text("original\n")
    git(fork, "init", "--quiet")
    git(fork, "add", "-A")
    git(fork, "commit", "--quiet", "-m", "first")
    (tmp_path / "buildmatrix.yaml").write_text(MATRIX.format(folder=tmp_path, pinned=PINNED))
    (tmp_path / "patches" / "sample").mkdir(parents=True)
    (tmp_path / "patches" / "sample" / "change.patch").write_text(PATCH.format(old="original"))
    (tmp_path / "ssh_config").write_text(
        f"Host gone\n HostName 127.0.0.1\n Port 1\n UserKnownHostsFile {tmp_path}/known_hosts\n"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SISTERSHIP_", "DOCKER_"))}
    environ.pop("GITHUB_ACTIONS", None)
    environ |= {
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "SISTERSHIP_STORE": str(tmp_path / "store"),
        "SISTERSHIP_CACHE": str(tmp_path / "cache"),
        "SISTERSHIP_LOGS": str(tmp_path / "logs"),
    }
    (tmp_path / "tmp").mkdir()
    made = Project(tmp_path, environ)
    made.docker("exit 1")
    return made


def log_of(done: Done) -> str:
    """The text of the log that the last line of an error names."""
    last = done.err.splitlines()[-1]
    assert last.startswith("log: "), done.err
    return Path(last.removeprefix("log: ")).read_text()


def test_0_done(project: Project) -> None:
    """A lock of what can be locked."""
    assert "sample: " in project.run("lock", code=0).out


def test_1_none_of_the_others(project: Project) -> None:
    """A folder that is a file: one line with the path, no traceback."""
    (project.folder / "cache").write_text("")
    done = project.run("lock", code=1)
    assert str(project.folder / "cache") in done.err
    assert "exit 1" in log_of(done)


def test_2_usage(project: Project) -> None:
    """A flag that does not exist, and a name that does not exist, with the nearest one."""
    project.run("ship", "--hoosts", "x", code=2)
    done = project.run("ship", "--variant", "sampel", code=2)
    assert '"sample"' in done.err or "sample" in done.err.split("next:")[1]


def test_10_matrix_invalid(project: Project) -> None:
    """Every problem with its line."""
    matrix = project.folder / "buildmatrix.yaml"
    matrix.write_text(matrix.read_text().replace("backend:", "bakend:"))
    assert "buildmatrix.yaml:12:" in project.run("render", code=10).err


def test_11_lock_missing(project: Project) -> None:
    """Nothing was built."""
    assert "next: sistership build" in project.run("verify", "--variant", "sample", code=11).err


def test_12_patch_does_not_apply(project: Project) -> None:
    """The patch is named."""
    (project.folder / "patches" / "sample" / "change.patch").write_text(PATCH.format(old="other"))
    assert "change.patch" in project.run("lock", code=12).err


def test_13_build_failed(project: Project) -> None:
    """What the compiler said, and where its whole output is."""
    project.docker("echo \"#9 1.0 error: expected ';'\"; exit 1")
    done = project.run("build", code=13)
    assert "expected ';'" in done.err
    assert "sample on here" in done.err
    assert list((project.folder / "logs").glob("build-sample-*.log"))


def test_15_check_of_the_image_failed(project: Project) -> None:
    """What failed, in which file, what was expected and found, the cure, and where the whole log is."""
    project.docker("printf '#9 1.0 sistership-check:\\tarchs\\t/app/lib/x.so\\t89\\tnone\\tadd it\\n'; exit 1")
    done = project.run("build", code=15)
    assert "sample on here: a check of the image failed: archs of /app/lib/x.so: expected 89, found none" in done.err
    assert "next: add it; the whole log: " in done.err
    lines = lines_of(project.run("build", "--json", code=15))
    assert (lines[-1]["type"], lines[-1]["exit"]) == ("error", 15)


def test_20_host_unreachable(built: Project) -> None:
    """Nothing listens on its port."""
    done = built.run("verify", "--hosts", "gone", code=20)
    assert "gone: unreachable" in done.out
    assert "Connection refused" in log_of(done)


def test_21_host_not_fit(built: Project) -> None:
    """Its engine does not answer."""
    assert "here: not fit" in built.run("verify", "--hosts", "here", code=21).out


def test_22_ship_incomplete(built: Project) -> None:
    """The store lost the image: nothing is sent, and the cure is named."""
    assert "sistership build --variant sample" in built.run("ship", code=22).err


def test_worst_host_decides(built: Project) -> None:
    """With one host unfit and one unreachable the code is that of the unfit one."""
    done = built.run("verify", code=21)
    assert "gone" in done.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_130_interrupted(project: Project, number: signal.Signals) -> None:
    """An interrupt ends the build's processes too, leaves no socket folder, and says what to do."""
    project.docker(f"echo $$ > {project.folder}/pid; sleep 600 & echo $! > {project.folder}/pid2; wait")
    process = project.start("build")
    deadline = time.monotonic() + 30
    while not (project.folder / "pid2").exists() or not (project.folder / "pid2").read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, (out, err)
    assert "interrupted" in err
    assert "Traceback" not in err
    assert err.splitlines()[-1].startswith("log: ")
    for name in ("pid", "pid2"):
        assert gone(int((project.folder / name).read_text()))
    assert list((project.folder / "tmp").iterdir()) == []


def gone(pid: int) -> bool:
    """Whether a process ends within two seconds."""
    for _ in range(40):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def lines_of(done: Done) -> list[dict[str, object]]:
    """Standard output as JSON lines, each held against the schema."""
    schema = jsonschema.Draft7Validator(json.loads((SCHEMAS / "lines.schema.json").read_text()))
    found = [json.loads(line) for line in done.out.splitlines()]
    for line in found:
        schema.validate(line)
    return found


@pytest.mark.parametrize(
    ("words", "code", "last"),
    [
        (["lock", "--json"], 0, "summary"),
        (["lock", "--json", "--locked"], 11, "error"),
        (["build", "--json"], 13, "error"),
        (["build", "--json", "--dry-run"], 0, "summary"),
        (["ship", "--json", "--hosts", "nobody"], 2, "error"),
    ],
)
def test_json_lines_of_long_verbs(project: Project, words: Sequence[str], code: int, last: str) -> None:
    """From the first line to the last every line is as the schema says, also when it fails."""
    found = lines_of(project.run(*words, code=code))
    assert found[0]["type"] == "version"
    assert [line["type"] for line in found if line["type"] in {"summary", "error"}] == [last]
    assert found[-1]["exit"] == code


@pytest.mark.parametrize("verb", ["plan", "verify"])
def test_json_document_of_queries(project: Project, built: Project, verb: str) -> None:
    """A query prints one document, of an error too, each as its schema says."""
    schema = jsonschema.Draft7Validator(json.loads((SCHEMAS / f"{verb}.schema.json").read_text()))
    error = json.loads(project.run(verb, "--json", code=11).out)
    assert (error["type"], error["exit"]) == ("error", 11)
    schema.validate(error)
    document = json.loads(built.run(verb, "--json", code=21).out)
    assert (document["type"], document["exit"]) == (verb, 21)
    schema.validate(document)


def test_errors_have_four_lines_and_the_log(project: Project) -> None:
    """What (with where), why, next, and the log's path as the last line."""
    for words, code in ((["verify"], 11), (["lock", "--matrix", "none"], 2)):
        lines = project.run(*words, code=code).err.splitlines()
        assert lines[0].startswith("error: ")
        assert len(lines) <= 5
        assert lines[-1].startswith("log: ")


def test_quiet_says_nothing_but_results(project: Project) -> None:
    """--quiet leaves standard error empty, --verbose says more than neither."""
    assert project.run("lock", "--quiet", code=0).err == ""
    (project.folder / "buildmatrix.lock.json").unlink()
    plain = project.run("lock", code=0).err
    (project.folder / "buildmatrix.lock.json").unlink()
    assert len(project.run("lock", "--verbose", code=0).err) > len(plain) > 0


def test_every_verb_has_the_same_words() -> None:
    """--quiet and --verbose are flags of every verb."""
    from sistership.tasks.namespace import namespace  # noqa: PLC0415

    found = namespace()
    assert {"build", "ship", "fleet.up"} <= set(found.task_names)
    for name in found.task_names:
        flags = {argument.name for argument in found[name].get_arguments()}
        assert {"quiet", "verbose"} <= flags, name


def test_github_actions(project: Project) -> None:
    """There, a problem of the matrix shows at its line, and a build is folded."""
    project.environ |= {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(project.folder)}
    project.docker("echo '::add-mask::x' >&2; echo 'error: no'; exit 1")
    err = project.run("build", code=13).err
    assert "::group::sample (linux/amd64)" in err
    assert err.index("::endgroup::") < err.index("::error ")
    assert "\n::add-mask::" not in err
    matrix = project.folder / "buildmatrix.yaml"
    matrix.write_text(matrix.read_text().replace("backend:", "bakend:"))
    assert "::error file=buildmatrix.yaml,line=12,col=" in project.run("render", code=10).err


def test_a_reader_that_leaves(project: Project) -> None:
    """`| head` is no error."""
    script = f"{sys.executable} -m sistership render | head -n 1"
    done = subprocess.run(
        ["bash", "-c", script], cwd=project.folder, env=project.environ, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr


def test_no_place_for_a_log(project: Project) -> None:
    """Without a place for logs everything works, and no path is promised."""
    project.environ["SISTERSHIP_LOGS"] = "/proc/no/such/place"
    assert "log: " not in project.run("verify", code=11).err
