"""Each thing that can be wrong on a host has its own verdict and exit code, while the others are ok."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from sistership.fleet import faults
from sistership.image.archive import pieces, write
from sistership.image.identity import Image
from sistership.image.layout import Store

if TYPE_CHECKING:
    from tests.fleet.job.conftest import Project

OTHER = (
    "printf hello > /tmp/f && tar -C /tmp -c f | docker import - other:1 >/dev/null && docker tag other:1 job-sample:v1"
)


def others_ok(verdicts: dict[str, str], host: str) -> bool:
    """Whether every host but one is ok."""
    return {verdict for name, verdict in verdicts.items() if name != host} == {"ok"}


def test_replaced_under_the_same_tag(shipped: Project) -> None:
    """A tag that someone moved is told, with the ID it shows now; ship moves it back and keeps the other (case C40)."""
    shipped.fleet.ssh("classic20", OTHER)
    done = shipped.verify(code=23)
    assert done.verdicts()["classic20"] == "tag moved"
    assert others_ok(done.verdicts(), "classic20")
    other = shipped.fleet.ssh("classic20", "docker image inspect -f '{{.Id}}' other:1").strip()
    assert next(host for host in done.json()["hosts"] if host["host"] == "classic20")["id"] == other
    shipped.run("ship", "--variant", "sample", "--hosts", "classic20")
    shipped.verify()
    kept = f"job-sample:rollback-{other[7:19]}"
    assert shipped.fleet.ssh("classic20", f"docker image inspect -f '{{{{.Id}}}}' {kept}").strip() == other


def test_another_image_in_its_place(shipped: Project) -> None:
    """Ours is gone and another has its name: different, and which layer differs."""
    shipped.fleet.ssh("containerd26", f"docker rmi {shipped.unique()} job-sample:v1 && {OTHER}")
    done = shipped.verify(code=23)
    assert done.verdicts()["containerd26"] == "different"
    assert others_ok(done.verdicts(), "containerd26")
    assert "layer 1 of" in next(h for h in done.json()["hosts"] if h["host"] == "containerd26")["why"]


def test_image_that_is_not_there(shipped: Project) -> None:
    """A host without the image: missing, exit 22; the next ship brings it."""
    shipped.forget("classic20")
    done = shipped.verify(code=22)
    assert done.verdicts() == {"builder": "ok", "classic20": "missing", "containerd26": "ok"}
    shipped.run("ship", "--variant", "sample", "--hosts", "classic20")


def test_containerd_host_that_lacks_a_layer(shipped: Project) -> None:
    """The engine says "Loaded image" and shows the right ID; only a container proves that a layer is missing."""
    image, store = Image.from_json(shipped.record()), Store(shipped.folder / "store")
    shipped.forget("containerd26")
    archive = io.BytesIO()
    parts = pieces(image, store, name="docker.io/library/job-sample:v1", plain=False, leave_out={image.diff_ids[-1]})
    write(parts, store, archive)
    shipped.fleet.ssh("containerd26", "docker load || true", stdin=archive.getvalue())
    shown = shipped.fleet.ssh("containerd26", "docker image inspect -f '{{.Id}}' job-sample:v1").strip()
    assert shown == image.manifest
    done = shipped.verify(code=22)
    assert done.verdicts()["containerd26"] == "incomplete"
    assert others_ok(done.verdicts(), "containerd26")
    shipped.run("ship", "--variant", "sample", "--hosts", "containerd26")
    shipped.verify()


def test_host_that_is_switched_off(shipped: Project) -> None:
    """An unreachable host is told within seconds and stops no other; exit 20."""
    with faults.powered_off("classic20", shipped.fleet.project):
        done = shipped.verify(code=20)
        assert done.verdicts() == {"builder": "ok", "classic20": "unreachable", "containerd26": "ok"}
        out = shipped.run("ship", "--variant", "sample", code=20).out
        assert out.count(" ok") == 2
    shipped.verify()


def test_engine_that_does_not_answer(shipped: Project) -> None:
    """A dead engine on a live host is not a network failure: not fit, exit 21, with the cure."""
    with faults.without_engine("containerd26"):
        done = shipped.verify(code=21)
        assert done.verdicts() == {"builder": "ok", "classic20": "ok", "containerd26": "not fit"}
        assert "systemctl start docker" in done.out


def test_host_of_another_platform(shipped: Project) -> None:
    """An image for arm64 is never sent to an amd64 host: wrong platform, exit 21, for verify, plan and ship."""
    lock = shipped.folder / "buildmatrix.lock.json"
    matrix = shipped.folder / "buildmatrix.yaml"
    before, text = lock.read_bytes(), matrix.read_text()
    try:
        foreign = text.replace("    backend: cpu", "    backend: cpu\n    platforms: [linux/arm64]")
        matrix.write_text(foreign)
        dry = shipped.run("build", "--variant", "sample", "--dry-run").out
        assert "linux/arm64" in dry
        record_as_arm64(shipped)
        done = shipped.verify(code=21)
        assert set(done.verdicts().values()) == {"wrong platform"}
        assert shipped.run("plan", code=21).out.count("wrong platform") == 3
        assert shipped.run("ship", "--variant", "sample", code=21).out.count(" 0 B ") == 3
    finally:
        matrix.write_text(text)
        lock.write_bytes(before)


def test_two_names_of_one_engine(shipped: Project) -> None:
    """Two inventory names of one machine: told, worked on once, both with the same verdict (case C54)."""
    matrix = shipped.folder / "buildmatrix.yaml"
    text = matrix.read_text()
    shipped.forget("classic20")
    matrix.write_text(text.replace("classic20: {}", "classic20: {}, again: {ssh: classic20}"))
    try:
        done = shipped.run("ship", "--variant", "sample", "--hosts", "classic20,again")
        assert "the same engine as classic20" in done.err
        found = shipped.verify("--hosts", "classic20,again")
        assert found.verdicts() == {"classic20": "ok", "again": "ok"}
        assert "one engine under several names" in shipped.run("verify", "--hosts", "classic20,again").err
    finally:
        matrix.write_text(text)


def record_as_arm64(project: Project) -> None:
    """Write an arm64 image into the lock for the matrix's recipe: the amd64 one with another platform."""
    import json  # noqa: PLC0415

    from sistership.matrix.load import load  # noqa: PLC0415
    from sistership.recipe import lock as locks  # noqa: PLC0415
    from sistership.recipe.recipe import recipe_of  # noqa: PLC0415

    path = project.folder / "buildmatrix.lock.json"
    lock = locks.load(path)
    matrix = load(project.folder / "buildmatrix.yaml")
    key = recipe_of(matrix, matrix.variants["sample"], "linux/arm64", lock.variants["sample"]).key
    record = json.loads(json.dumps(next(iter(lock.images.values()))))
    record["platform"] = "linux/arm64"
    locks.save(lock.with_image(key, record), path)
