"""What hosts are measured by when it comes from elsewhere."""

from __future__ import annotations

import pytest

from sistership.build.expect import expected
from sistership.errors import LockError, SistershipError, UsageError


@pytest.fixture
def read(make):
    """The project's matrix."""
    return make.matrix()


@pytest.fixture
def export(make, read):
    """Built for it elsewhere."""
    return make.exported(read, make.locked(read), make.image())


def test_identity_file(make, read, export, tmp_path):
    """`sistership.json` on its own is enough: names, IDs, layers."""
    path = tmp_path / "sistership.json"
    path.write_bytes(export.to_bytes())
    (release,) = expected(path, read)
    assert release == export.release


def test_lock_from_elsewhere(make, read, export, tmp_path):
    """Every image of a foreign lock, or those of some variants."""
    other = make.exported(read, make.locked(read, "beta"), make.image(content="y"), "beta")
    arm = make.exported(read, make.locked(read), make.image("linux/arm64", "z"))
    path = make.write(make.lock_with(export, other, arm), tmp_path / "other.lock.json")
    assert {each.key for each in expected(path, read)} == {export.key, other.key, arm.key}
    assert [each.variant for each in expected(path, read, ["beta"])] == ["beta"]


def test_lock_with_older_images(make, read, export, tmp_path):
    """Of several images of one variant the one is meant that the matrix asks for with that lock."""
    old = make.exported(read, make.locked(read, commit="1" * 40), make.image(content="old"))
    lock = make.lock_with(old, export)
    path = make.write(lock, tmp_path / "other.lock.json")
    assert [each.key for each in expected(path, read)] == [export.key]
    path = make.write(make.lock_with(export, old), path)
    assert [each.key for each in expected(path, read)] == [old.key]


def test_lock_whose_images_cannot_be_told_apart(make, read, export, tmp_path):
    """Where nothing says which is meant, none is chosen."""
    old = make.exported(read, make.locked(read, commit="1" * 40), make.image(content="old"))
    path = make.write(make.lock_with(old, export), tmp_path / "other.lock.json")
    changed = make.matrix(make.text.replace("alpha:", "gamma:"))
    with pytest.raises(LockError, match="2 images of alpha"):
        expected(path, changed)


@pytest.mark.parametrize("text", ["hello", "{}", "[]", '{"kind": "verify"}', "", "\udcff"])
def test_other_files(read, tmp_path, text):
    """What is none of the three is told as that."""
    path = tmp_path / "x"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UsageError, match="neither an export"):
        expected(path, read)


def test_folder(make, read, export, tmp_path):
    """All exports of a folder together; two images of one variant and platform are refused."""
    other = make.exported(read, make.locked(read), make.image("linux/arm64", "z"))
    third = make.exported(read, make.locked(read), make.image(content="old"))
    for number, each in enumerate((export, other)):
        (tmp_path / f"{number}.tar").write_bytes(each.to_bytes())
    (tmp_path / "0.tar.sha256").write_text("not read")
    assert {each.key for each in expected(tmp_path, read)} == {export.key, other.key}
    (tmp_path / "2.tar").write_bytes(third.to_bytes())
    with pytest.raises(UsageError, match="two images of alpha for linux/amd64"):
        expected(tmp_path, read)


def test_refusals(make, read, export, tmp_path):
    """No file, nothing of that variant, and damage are told with their own words."""
    with pytest.raises(UsageError, match="no such file"):
        expected(tmp_path / "nope", read)
    path = tmp_path / "sistership.json"
    path.write_bytes(export.to_bytes())
    with pytest.raises(UsageError, match="nothing of that variant"):
        expected(path, read, ["beta"])
    path.write_bytes(export.to_bytes().replace(b'"platform"', b'"platfrom"'))
    with pytest.raises(SistershipError, match="cannot be read"):
        expected(path, read)
    path.write_text('{"version": 1, "images": {"x": {"variant": "alpha"}}}')
    with pytest.raises(LockError, match="damaged"):
        expected(path, read)
