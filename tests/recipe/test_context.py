from __future__ import annotations

import hashlib
import io
import tarfile

import pytest

from sistership.errors import SourceError
from sistership.recipe.context import MTIME, entries, write_context
from sistership.recipe.recipe import recipe_of


class Pipe(io.RawIOBase):
    """Takes bytes and cannot seek, like the standard input of a builder."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data) -> int:
        """Keep what is written."""
        self.data += data
        return len(data)


@pytest.fixture
def context(repository, make, tmp_path):
    """Commits what is in the repository and gives the context's bytes."""

    def build() -> bytes:
        repository.commit()
        row = make.cpu()
        tree = repository.git("rev-parse", "HEAD^{tree}")
        recipe = recipe_of(make.matrix(tmp_path, row), row, "linux/amd64", make.locked(tree=tree))
        out = Pipe()
        write_context(recipe, repository.folder, out)
        return bytes(out.data)

    return build


def members(data: bytes) -> dict[str, tarfile.TarInfo]:
    """Name → entry, in the order of the tar."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: member for member in tar.getmembers()}


def read(data: bytes, name: str) -> bytes:
    """Content of one entry."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        file = tar.extractfile(name)
        assert file
        return file.read()


def test_dockerfile_comes_first_with_a_plain_header(context, repository):
    """Buildx takes a tar whose first header is a pax header for a Dockerfile."""
    repository.write("a", "1\n")
    data = context()
    assert data[:11] == b"Dockerfile\0"
    assert data[156:157] == b"0"
    assert data[257:262] == b"ustar"
    assert read(data, "Dockerfile").startswith(b"# Variant alpha")


def test_same_recipe_same_bytes(context, repository):
    """The stream depends on the tree alone, not on times, order or the work tree."""
    repository.write("a/b", "1\n")
    repository.write("a.c", "2\n")
    first = context()
    repository.write("a/b", "uncommitted\n")
    repository.git("checkout", "--quiet", "a/b")
    assert context() == first
    assert {member.mtime for member in members(first).values()} == {MTIME}
    assert {(m.uid, m.gid, m.uname, m.gname) for m in members(first).values()} == {(0, 0, "", "")}


def test_modes_and_links(context, repository):
    """Files are 0644 or 0755 as git says, and symlinks stay links."""
    repository.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    repository.write("plain", "x").chmod(0o600)
    (repository.folder / "up").symlink_to("../outside")
    found = members(context())
    assert found["src/run.sh"].mode == 0o755
    assert found["src/plain"].mode == 0o644
    assert found["src/up"].linkname == "../outside"


def test_submodule_is_an_empty_folder(repository, make, tmp_path):
    """As a checkout without submodules leaves it."""
    repository.write("a", "1")
    repository.git("add", "-A")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendor/sub")
    tree = repository.git("write-tree")
    row = make.cpu()
    out = io.BytesIO()
    recipe = recipe_of(make.matrix(tmp_path, row), row, "linux/amd64", make.locked(tree=tree))
    write_context(recipe, repository.folder, out)
    found = members(out.getvalue())
    assert found["src/vendor/sub"].isdir()
    assert found["src/vendor"].isdir()


def test_nothing_is_substituted_or_left_out(context, repository):
    """`export-subst` and `export-ignore` are for archives: the source is what the tree says."""
    repository.write(".gitattributes", "v export-subst\nhidden export-ignore\ntext eol=crlf\n")
    repository.write("v", "$Format:%H$\n")
    repository.write("hidden", "x\n")
    repository.write("text", "a\nb\n")
    data = context()
    assert read(data, "src/v") == b"$Format:%H$\n"
    assert "src/hidden" in members(data)
    assert read(data, "src/text") == b"a\nb\n"


def test_odd_names_and_contents(context, repository):
    """Long, non-ASCII and awkward names, empty and binary files come through."""
    long = "/".join(["deep" * 12] * 5) + "/file"
    for name, data in ((long, b"1"), ("ä ö", b""), ("new\nline", b"\0\n\xff"), ("-dash", b"x"), ('q"uote', b"y")):
        repository.write(name, data)
    data = context()
    assert read(data, f"src/{long}") == b"1"
    assert read(data, "src/new\nline") == b"\0\n\xff"
    assert {"src/ä ö", "src/-dash", 'src/q"uote'} <= set(members(data))


def test_no_git_in_the_context(context, repository):
    """Without .git the source cannot append `-dirty` to its version."""
    repository.write("a", "1")
    assert not [name for name in members(context()) if ".git/" in name]


def test_every_folder_is_there_once_before_its_files(context, repository):
    """Folders come before what is in them, so none is made with the builder's own mode and time."""
    repository.write("a/b/c", "1")
    repository.write("a-b", "1")
    repository.write("a/d", "1")
    names = list(members(context()))
    assert len(names) == len(set(names))
    assert names.index("src/a") < names.index("src/a/b") < names.index("src/a/b/c")


def test_scripts_are_executable(context, repository):
    """The compiler launcher is called by its path."""
    repository.write("a", "1")
    assert members(context())["sistership/launch.sh"].mode == 0o755


def test_missing_object(repository, make, tmp_path):
    """A cache that lost an object is named."""
    repository.write("a", "lost\n")
    repository.commit()
    tree = repository.git("rev-parse", "HEAD^{tree}")
    oid = entries(repository.folder, tree)[0].oid
    assert hashlib.sha1(b"blob 5\0lost\n").hexdigest() == oid
    (repository.folder / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
    row = make.cpu()
    recipe = recipe_of(make.matrix(tmp_path, row), row, "linux/amd64", make.locked(tree=tree))
    with pytest.raises(SourceError, match=f"{oid} is missing"):
        write_context(recipe, repository.folder, io.BytesIO())
