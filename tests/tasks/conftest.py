"""A project with an image that was never really built, and an engine that answers from files."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import jsonschema
import pytest
import zstandard

from sistership.build.build import record_of
from sistership.image.canonical import canonicalise
from sistership.image.identity import Image, digest_of
from sistership.image.layout import Store
from sistership.matrix.load import load
from sistership.recipe import lock as locks
from sistership.recipe.lock import LockedVariant
from sistership.recipe.recipe import inputs_of, recipe_of, wants_of
from sistership.tasks.program import program

SCHEMAS = Path(__file__).parents[2] / "schemas"
COMMIT = "84e908c625fb60992b4cdef8180fb12fa9b4c4bf"
PIN = "sha256:" + "b" * 64
REPORT = "app/share/sistership/checks.tsv"
MATRIX = f"""\
version: 1
forks:
  upstream: {{git: https://git.example/llama.cpp}}
variants:
  alpha:
    fork: upstream
    commit: {COMMIT}
    image: alpha
    tag: v1
    cuda: {{toolkit: 12.8.1, archs: [89, 120]}}
    packages: []
    base: {{build: "debian:bookworm@{PIN}", runtime: "debian:bookworm-slim@{PIN}"}}
hosts:
  gpu-a: {{local: true, docker: FOLDER/docker, docker_host: unix:///nowhere.sock}}
"""
GOOD = (
    "# sistership checks 1\n"
    "archs\tok\t/app/lib/libggml-cuda.so.0\t89 120\tsm_89 in 4, sm_120 in 4 kernel files\t\n"
    "instructions\tnot judged\t/app\tnone\tno objdump there\t\n"
    f"version\tok\t/app/bin/llama-cli\t{COMMIT}\tversion: 1 (84e908c)\t\n"
)
#: Answers like a classic engine that holds one image; `save` and `cp` give files of the test.
ENGINE = """\
#!/bin/sh
shift 2
cd FOLDER/engine || exit 1
case "$1 $2" in
  "version "*) echo '{"Version": "26.1.5", "Os": "linux", "Arch": "amd64"}' ;;
  "info "*) echo '{"ID": "one", "DriverStatus": []}' ;;
  "image ls") cat ids ;;
  "image inspect") cat inspect ;;
  "save "*) cat save.tar ;;
  "create "*) echo made; echo create >> asked ;;
  "inspect made") ;;
  "cp "*) if [ -e cp.tar ]; then cat cp.tar; else echo "Could not find the file" >&2; exit 1; fi ;;
  "rm "*) echo rm >> asked ;;
  *) exit 1 ;;
esac
"""


@dataclass(frozen=True)
class Done:
    """What a command printed."""

    stdout: str
    stderr: str


def tar_of(files: Mapping[str, bytes]) -> bytes:
    """A tar of plain files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def saved(path: Path, layers: Sequence[bytes], config: bytes | None = None) -> Path:
    """What an engine saves of these layers; with `config` of an image that has this one."""
    diff_ids = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    document = {
        "architecture": "amd64",
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }
    document["history"] = [{"created_by": f"COPY /layer{number}/ / # buildkit"} for number in range(len(layers))]
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": "config.json", "RepoTags": ["raw:1"], "Layers": names}]
    members = dict(zip(names, layers, strict=True)) | {"config.json": config or json.dumps(document).encode()}
    path.write_bytes(tar_of({**members, "manifest.json": json.dumps(manifest).encode()}))
    return path


def layer_on_top(config: bytes, layer: bytes) -> bytes:
    """The config after `docker commit` or a build on top of an image; labels are kept."""
    document = json.loads(config)
    document["rootfs"]["diff_ids"].append(f"sha256:{hashlib.sha256(layer).hexdigest()}")
    document["history"].append({"created_by": "commit"})
    return json.dumps(document).encode()


@dataclass
class Built:
    """A folder with a matrix, a lock that records an image, a store that holds it, and the command line there."""

    folder: Path
    key: str = ""

    def run(self, *words: str, code: int = 0) -> Done:
        """`sistership WORDS` in this process; the exit code must be `code`."""
        places = {f"SISTERSHIP_{name}": str(self.folder / name.lower()) for name in ("STORE", "CACHE", "LOGS")}
        out, err, ended = io.StringIO(), io.StringIO(), 0
        with (
            contextlib.chdir(self.folder),
            mock.patch.dict(os.environ, places),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                program().run(["sistership", *words])
            except SystemExit as end:
                ended = int(end.code or 0)
        assert ended == code, f"exit {ended}\n{out.getvalue()}\n{err.getvalue()}"
        return Done(out.getvalue(), err.getvalue())

    def json(self, *words: str, code: int = 0) -> Any:
        """The same with `--json`, its standard output as a document, checked against its schema."""
        document = json.loads(self.run(*words, "--json", code=code).stdout)
        schema = json.loads((SCHEMAS / f"{words[0]}.schema.json").read_text())
        jsonschema.Draft7Validator(schema).validate(document)
        return document

    def build(self, report: str | None, program_: bytes = b"#!program", recipe: str = "") -> Image:
        """Leave an image behind as a build would: base, library, program, report; under another recipe key if asked."""
        matrix = load(self.folder / "buildmatrix.yaml")
        path = self.folder / "buildmatrix.lock.json"
        variant = matrix.variants["alpha"]
        bases = {"build": variant.base.build, "runtime": variant.base.runtime}
        wants = wants_of(matrix, variant)
        answer = LockedVariant(
            inputs_of(matrix, variant), COMMIT, "a" * 40, 1, "2026-05-01T10:00:00Z", bases, (), wants
        )
        found = recipe_of(matrix, variant, "linux/amd64", answer)
        self.key = found.key
        own = [tar_of({"app/lib/libone.so": b"library" * 99}), tar_of({"app/bin/llama-cli": program_})]
        own += [tar_of({REPORT: report.encode()})] if report is not None else []
        store = Store(self.folder / "store")
        image = canonicalise(
            saved(self.folder / "raw.tar", [tar_of({"etc/release": b"base"}), *own]),
            instructions=[f"COPY /out/{number}/ /" for number in range(len(own))],
            created=found.created,
            labels=found.labels,
            store=store,
        )
        lock = locks.load(path).with_variant("alpha", answer)
        locks.save(lock.with_image(recipe or found.key, record_of(found, image, store)), path)
        return image

    def image(self) -> Image:
        """The image that the lock records under the recipe of the matrix."""
        return Image.from_json(self.records[self.key])

    @property
    def records(self) -> dict[str, Any]:
        """The images of the lock."""
        found: dict[str, Any] = json.loads((self.folder / "buildmatrix.lock.json").read_text())["images"]
        return found

    def layers(self) -> tuple[list[bytes], bytes]:
        """The layers of that image as plain tars, and its config."""
        store, image = Store(self.folder / "store"), self.image()
        packed = [store.path(layer.digest).read_bytes() for layer in image.layers]
        plain = [zstandard.ZstdDecompressor().stream_reader(data).read() for data in packed]
        return plain, store.read(image.config)

    def holds(self, layers: Sequence[bytes], config: bytes, *tags: str) -> None:
        """Let the engine of `gpu-a` hold one image, and give its report as `docker cp` does."""
        engine = self.folder / "engine"
        engine.mkdir(exist_ok=True)
        saved(engine / "save.tar", layers, config)
        document, image_id = json.loads(config), digest_of(config)
        held = {"Id": image_id, "RepoTags": list(tags), "Os": "linux", "Architecture": "amd64",
                "Config": document["config"], "Created": document.get("created"),
                "RootFS": {"Layers": document["rootfs"]["diff_ids"]}}  # fmt: skip
        (engine / "ids").write_text(f"{image_id}\n")
        (engine / "inspect").write_text(json.dumps(held) + "\n")
        (engine / "cp.tar").write_bytes(tar_of({"checks.tsv": GOOD.encode()}))


def made_in(folder: Path) -> Built:
    """The project in a folder; nothing is built yet."""
    (folder / "buildmatrix.yaml").write_text(MATRIX.replace("FOLDER", str(folder)))
    (folder / "docker").write_text(ENGINE.replace("FOLDER", str(folder)))
    (folder / "docker").chmod(0o755)
    return Built(folder)


@pytest.fixture
def project(tmp_path: Path) -> Built:
    """A project in which nothing was built yet."""
    return made_in(tmp_path)


@pytest.fixture
def built(project: Built) -> Built:
    """A project whose image carries a good report."""
    project.build(GOOD)
    return project


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """Makers of values, as one fixture: test files cannot import each other."""
    return SimpleNamespace(good=GOOD, tar_of=tar_of, saved=saved, layer_on_top=layer_on_top)
