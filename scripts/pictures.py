"""The pictures of docs/pictures: recorded on the practice fleet, then drawn as a terminal of a given width.

    .venv/bin/python scripts/pictures.py record    what really happens, into docs/pictures/recorded (needs the fleet);
                                                   `record ship`, `record verdicts` or `record errors` for a part of it
    .venv/bin/python scripts/pictures.py draw      docs/pictures/*.svg from it: the same recording, the same bytes

Recording removes every image from two practice hosts. Folders, addresses and the names of log files are replaced by
example values, always the same ones.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.text import Text

from sistership.fleet import faults, project_files
from sistership.image.archive import pieces, write
from sistership.image.identity import Image
from sistership.image.layout import Store
from sistership.report.picture import board_at, svg

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURES: Final = ROOT / "docs" / "pictures"
RECORDED: Final = PICTURES / "recorded"
EXAMPLE: Final = ROOT / "docs" / "example.yaml"

#: Practice host → its name in the example.
PEERS: Final = {"containerd26": "gpu-worker", "classic20": "old-box"}
OTHER: Final = "printf x > /tmp/f && tar -C /tmp -c f | docker import - llama-sample:v1 >/dev/null"

#: Width of a character in rich's pictures.
_COLUMN: Final = 12.2


@dataclass(frozen=True)
class Project:
    """The example of the documentation in a folder of its own."""

    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        """Store and logs lie in the folder; a terminal that can show colours."""
        own = {"SISTERSHIP_STORE": f"{self.folder}/store", "SISTERSHIP_LOGS": f"{self.folder}/logs"}
        return {**os.environ, **own, "TERM": "xterm-256color", "COLORTERM": "truecolor"}

    def run(self, *words: str, width: int = 80, quiet: bool = True) -> str:
        """What `sistership WORDS` leaves on a terminal once the live board is gone: its results, then its errors."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        argv = [sys.executable, "-m", "sistership", *words, *(["--quiet"] if quiet else [])]
        process = subprocess.Popen(argv, cwd=self.folder, env=self.environ, stdout=theirs, stderr=subprocess.PIPE)
        os.close(theirs)
        out = b"".join(_read(ours))
        os.close(ours)
        errors = process.communicate(timeout=300)[1] if quiet else b""
        process.wait(timeout=300)
        return self.scrubbed((out + errors).decode().replace("\r\n", "\n"))

    def lines(self, *words: str) -> str:
        """The JSON lines of `sistership WORDS`."""
        argv = [sys.executable, "-m", "sistership", *words, "--json"]
        done = subprocess.run(argv, cwd=self.folder, env=self.environ, stdout=subprocess.PIPE, check=False, timeout=300)
        return self.scrubbed(done.stdout.decode())

    def scrubbed(self, text: str) -> str:
        """Text with example values in place of this machine's."""
        text = re.sub(r"[^\s\"]*/logs/", "~/.local/state/sistership/log/", text)
        text = re.sub(r"/log/run-\d+T\d+Z-([a-z.]+)-\d+\.log", r"/log/run-\1.log", text)
        text = text.replace(str(self.folder), "~/llama").replace(str(ROOT), "~/llama")
        text = re.sub(r"\b(172|10|192)(\.\d{1,3}){3}\b", "192.0.2.7", text)
        return text.replace("127.0.0.1:5000", "registry.example:5000")

    def lock(self) -> dict[str, Any]:
        """The lock file."""
        found: dict[str, Any] = json.loads((self.folder / "buildmatrix.lock.json").read_text())
        return found

    def elsewhere(self, name: str, **changes: object) -> str:
        """A lock file of that name whose image has other fields, for `verify --expect`."""
        lock = self.lock()
        record = next(iter(lock["images"].values()))
        record.update(changes)
        (self.folder / name).write_text(json.dumps(lock))
        return name


def _read(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(terminal, 1 << 16)
        except OSError:  # the other end was closed
            return
        if not chunk:
            return
        yield chunk


def on(host: str, script: str, data: bytes = b"") -> str:
    """Run a script on a practice host."""
    config = project_files(ROOT).ssh_config
    argv = ["ssh", "-F", str(config), "-o", "BatchMode=yes", host, script]
    return subprocess.run(argv, input=data, capture_output=True, check=True, timeout=120).stdout.decode()


def forget(*hosts: str) -> None:
    """Remove every image and staged file from practice hosts."""
    script = "docker ps -aq | xargs -r docker rm -f; docker images -q | sort -u | xargs -r docker rmi -f"
    for host in hosts:
        on(host, f"{script}; docker system prune -af; rm -rf ~/.cache/sistership/stage")


@contextmanager
def project() -> Iterator[Project]:
    """The example, its image built."""
    with tempfile.TemporaryDirectory(prefix="pictures-") as folder:
        made = Project(Path(folder))
        (made.folder / ".sistership").symlink_to(ROOT / ".sistership")
        (made.folder / "buildmatrix.yaml").write_text(EXAMPLE.read_text())
        made.run("build")
        yield made


def keep(name: str, text: str) -> None:
    """Write a recording."""
    RECORDED.mkdir(parents=True, exist_ok=True)
    (RECORDED / name).write_text(text)
    sys.stdout.write(f"{name}\n{text}\n")
    sys.stdout.flush()


@contextmanager
def slow() -> Iterator[None]:
    """Links on which one can see something."""
    with faults.shaped("containerd26", "100mbit"), faults.shaped("classic20", "40mbit"):
        yield


def record(*parts: str) -> None:
    """The parts that are named, or everything."""
    with project() as made:
        for name, part in (("ship", record_ship), ("verdicts", record_verdicts), ("errors", record_errors)):
            if name in (parts or (name,)):
                forget(*PEERS)
                part(made)
        forget(*PEERS)


def record_ship(made: Project) -> None:
    """Plan, ship and verify, from hosts that hold nothing."""
    for width in (80, 200):
        keep(f"plan-{width}.txt", made.run("plan", "--hosts", "workers", width=width))
    keep("verdict-missing.txt", made.run("verify"))
    with slow():
        keep("ship.jsonl", made.lines("ship"))
    forget(*PEERS)
    keep("ship.txt", made.run("ship"))
    keep("verify.txt", made.run("verify"))
    keep("again.txt", made.run("ship"))
    keep("doctor.txt", made.run("doctor", width=100, quiet=False))


def record_verdicts(made: Project) -> None:
    """One recording of each verdict, all but `missing` and `ok`."""
    record_of = next(iter(made.lock()["images"].values()))
    unique = f"sistership.local/llama-sample:{record_of['config'][7:19]}"
    verify = ("verify", "--hosts", "workers")

    made.run("ship", "--hosts", "workers")
    on("classic20", OTHER)
    keep("verdict-tag-moved.txt", made.run(*verify))
    on("containerd26", f"docker rmi {unique} llama-sample:v1 && {OTHER}")
    keep("verdict-different.txt", made.run(*verify))
    made.run("ship", "--hosts", "workers")

    image, archive = Image.from_json(record_of), io.BytesIO()
    forget("containerd26")
    name = "docker.io/library/llama-sample:v1"
    parts = pieces(image, Store(made.folder / "store"), name=name, plain=False, leave_out={image.diff_ids[-1]})
    write(parts, Store(made.folder / "store"), archive)
    on("containerd26", "docker load || true", archive.getvalue())
    keep("verdict-incomplete.txt", made.run(*verify))
    made.run("ship", "--hosts", "workers")

    with faults.powered_off("classic20", ROOT):
        keep("verdict-unreachable.txt", made.run(*verify))
    with faults.without_engine("containerd26"):
        keep("verdict-not-fit.txt", made.run(*verify))
    arm64 = made.elsewhere("arm64.lock.json", platform="linux/arm64")
    keep("verdict-wrong-platform.txt", made.run(*verify, "--expect", arm64))
    ada = made.elsewhere("ada.lock.json", archs=["89-real"])
    matrix = made.folder / "buildmatrix.yaml"
    text = matrix.read_text()
    matrix.write_text(text.replace("gpu-worker: {", 'gpu-worker: {gpu: ["12.0"], '))
    keep("verdict-no-kernels.txt", made.run(*verify, "--expect", ada))
    matrix.write_text(text)
    bare = made.elsewhere("bare.lock.json", files={})
    keep("verdict-unknown.txt", made.run(*verify, "--deep", "--expect", bare))


def record_errors(made: Project) -> None:
    """Five errors: of the matrix, of a name, of a patch, of a build, of a plan that no longer holds."""
    matrix = made.folder / "buildmatrix.yaml"
    text = matrix.read_text()
    made.run("ship", "--hosts", "workers")

    wrong = text.replace("backend: cpu", "backend: cuda").replace("image: llama-sample", "image: Llama-Sample")
    matrix.write_text(wrong.replace("packages: []", "packges: []"))
    keep("error-matrix.txt", made.run("build", width=100))
    matrix.write_text(text)
    keep("error-name.txt", made.run("ship", "--hosts", "gpu-wroker"))

    folder = made.folder / "patches" / "sample"
    folder.mkdir(parents=True)
    patch = (ROOT / "patches" / "sample" / "rpc-zero-byte-tensor.patch").read_text()
    words = re.sub(r"(?m)^ (\s*\S.*)$", r" \1 // moved", patch, count=3)
    (folder / "rpc-zero-byte-tensor.patch").write_text(words)
    keep("error-patch.txt", made.run("lock", width=100))
    (folder / "rpc-zero-byte-tensor.patch").unlink()

    matrix.write_text(re.sub(r"(?m)^    patches: .*\n", "", text))
    keep("error-lock.txt", made.run("build", "--locked", width=100))
    matrix.write_text(text)

    made.run("plan", "--hosts", "workers", "--out", "plan.json")
    on("classic20", OTHER)
    keep("error-plan.txt", made.run("ship", "--plan", "plan.json", width=100))
    made.run("ship", "--hosts", "workers")


def typed(command: str) -> Text:
    """A command line as it was typed."""
    return Text.assemble(("$ ", "dim"), (command, "bold"))


def printed(name: str) -> list[Text]:
    """The lines of a recording, in their colours."""
    return [Text.from_ansi(line) for line in (RECORDED / name).read_text().splitlines()]


def picture(name: str, shown: Sequence[tuple[str, Sequence[Text]]], width: int = 80) -> None:
    """Draw commands with what they printed."""
    lines = [line for command, output in shown for line in (typed(command), *output, Text())][:-1]
    (PICTURES / f"{name}.svg").write_text(indented(svg(lines, width=width, title="sistership")))


def indented(drawn: str) -> str:
    """Spaces at the beginning of a text as its place: some programs that show SVG drop them."""

    def moved(found: re.Match[str]) -> str:
        by = found[5].count("&") * _COLUMN
        return f'x="{float(found[1]) + by:g}" {found[2]} textLength="{float(found[3]) - by:g}" {found[4]}>'

    spaces = r'x="([\d.]+)" (y="[^"]+") textLength="([^"]+)" ([^>]+)>((?:&#160;)+)(?=[^<&])'
    return re.sub(spaces, moved, drawn)


def draw() -> None:
    """Every picture from its recording."""
    picture("ship-verify", [("sistership ship", printed("ship.txt")), ("sistership verify", printed("verify.txt"))])
    recording = (RECORDED / "ship.jsonl").read_text()
    moment = middle(recording)
    for width in (80, 200):
        picture(f"board-{width}", [("sistership ship", board_at(recording, moment, width=width))], width)
        picture(f"plan-{width}", [("sistership plan --hosts workers", printed(f"plan-{width}.txt"))], width)
    picture("again", [("sistership ship", printed("again.txt"))])
    picture("doctor", [("sistership doctor", printed("doctor.txt"))], 100)
    for path in sorted(RECORDED.glob("verdict-*.txt")):
        picture(path.stem, [(VERDICTS.get(path.stem, "sistership verify --hosts workers"), printed(path.name))])
    for name, (command, width) in ERRORS.items():
        picture(name, [(command, printed(f"{name}.txt"))], width)


#: Pictures whose command is not the usual one.
VERDICTS: Final = {
    "verdict-missing": "sistership verify",
    "verdict-wrong-platform": "sistership verify --hosts workers --expect arm64.lock.json",
    "verdict-no-kernels": "sistership verify --hosts workers --expect ada.lock.json",
    "verdict-unknown": "sistership verify --hosts workers --deep --expect bare.lock.json",
}
ERRORS: Final = {
    "error-matrix": ("sistership build", 100),
    "error-name": ("sistership ship --hosts gpu-wroker", 80),
    "error-patch": ("sistership lock", 100),
    "error-lock": ("sistership build --locked", 100),
    "error-plan": ("sistership ship --plan plan.json", 100),
}


def middle(recording: str) -> float:
    """A moment of a recorded ship at which one host is ready and others are at work."""
    sent = [json.loads(line) for line in recording.splitlines()]
    times = [each["at"] for each in sent if each["type"] == "progress" and each["total"]]
    return float(times[len(times) // 3])


if __name__ == "__main__":
    {"record": record, "draw": draw}[sys.argv[1]](*sys.argv[2:])
