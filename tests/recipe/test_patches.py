from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sistership import resources
from sistership.errors import PatchError
from sistership.matrix.model import PatchRef
from sistership.recipe import patches
from sistership.recipe.patches import Patch
from sistership.recipe.source import Source

CASES = Path(__file__).parents[1] / "cases" / "patches"


def case(name: str) -> bytes:
    """A file of tests/cases/patches."""
    return (CASES / name).read_bytes()


@pytest.fixture
def source(repository):
    """Commits files and gives them as a Source."""

    def commit(files: dict[str, bytes | str]) -> Source:
        for name, data in files.items():
            repository.write(name, data)
        return Source(repository.folder, repository.commit(), 1, "2026-01-01T00:00:00Z")

    return commit


@pytest.fixture
def content(repository):
    """Bytes of a file in a tree, or None."""

    def read(tree: str, name: str) -> bytes | None:
        if name not in repository.git("ls-tree", "-r", "--name-only", tree).splitlines():
            return None
        return (repository.git("cat-file", "blob", f"{tree}:{name}") + "\n").encode()

    return read


def edited(repository, files: dict[str, bytes | str | None], *options: str) -> bytes:
    """The patch that makes `files` (None: deleted) out of the last commit; the work tree is put back."""
    for name, data in files.items():
        if data is None:
            (repository.folder / name).unlink()
        else:
            repository.write(name, data)
    repository.git("add", "-A")
    made = repository.diff("--cached", *options)
    repository.git("reset", "--quiet", "--hard")
    return made


NUMBERS = "".join(f"line {number}\n" for number in range(1, 41))


def test_no_patches_is_the_commits_own_tree(source, repository):
    """Without patches the tree is the commit's, and no patch is recorded."""
    made = source({"a": "1\n"})
    assert patches.apply(made, ()) == patches.Patched(repository.git("rev-parse", "HEAD^{tree}"), ())


def test_applies_and_can_be_repeated_by_hand(source, repository, content):
    """The tree equals what `git apply` in a checkout gives."""
    made = source({"store.c": case("lookalike.c")})
    result = patches.apply(made, [CASES / "lookalike.patch"])
    assert content(result.tree, "store.c") == case("lookalike-fixed.c")
    repository.git("apply", "--index", str(CASES / "lookalike.patch"))
    assert repository.git("write-tree") == result.tree


def test_nothing_in_the_repository_moves(source, repository):
    """Index, work tree and refs of a local source stay as they are."""
    made = source({"store.c": case("lookalike.c")})
    before = repository.git("for-each-ref")
    patches.apply(made, [CASES / "lookalike.patch"])
    assert repository.git("status", "--porcelain") == ""
    assert repository.git("for-each-ref") == before


def test_wrong_function_is_refused(source, repository):
    """Git alone would put this hunk into the twin function, at another line, with rc 0 (landley/toybox#533)."""
    made = source({"store.c": case("lookalike-moved.c")})
    repository.git("apply", "--check", str(CASES / "lookalike.patch"))
    with pytest.raises(PatchError) as raised:
        patches.apply(made, [CASES / "lookalike.patch"])
    said = str(raised.value)
    assert "lookalike.patch" in said
    assert made.commit in said
    assert "hunk 1 of store.c" in said
    assert "line 4 only" in said
    assert raised.value.code == 12


def test_two_places_are_refused(source, repository):
    """A hunk that is not where it says and fits twice has no place."""
    twice = "begin\nalpha\nbeta\nend\n"
    source({"f": twice})
    patch = edited(repository, {"f": "begin\nalpha\nnew\nbeta\nend\n"})
    made = source({"f": "x\n" * 5 + twice + "y\n" * 5 + twice + "z\n"})
    with pytest.raises(PatchError, match=r"hunk 1 of f: .*occur 2 times .*lines 6, 15"):
        patches.apply(made, [Patch("p", patch)])


def test_offset_to_the_only_place(source, repository, content):
    """Lines added above move a hunk; it follows because its place is the only one."""
    source({"f": NUMBERS})
    patch = edited(repository, {"f": NUMBERS.replace("line 20\n", "line 20\nnew\n")})
    made = source({"f": "added\n" * 7 + NUMBERS})
    result = patches.apply(made, [Patch("p", patch)])
    assert content(result.tree, "f") == ("added\n" * 7 + NUMBERS.replace("line 20\n", "line 20\nnew\n")).encode()


def test_no_fuzz(source, repository):
    """One changed line of context is enough to refuse, and the error says where the lines were expected."""
    source({"f": NUMBERS})
    patch = edited(repository, {"f": NUMBERS.replace("line 20\n", "line 20\nnew\n")})
    made = source({"f": NUMBERS.replace("line 18\n", "LINE 18\n")})
    with pytest.raises(PatchError, match=r"does not apply to [0-9a-f]{40}[\s\S]*expected at line 18"):
        patches.apply(made, [Patch("p", patch)])


def test_first_failing_hunk_is_named(source, repository):
    """Of several hunks the one that fails is named."""
    source({"f": NUMBERS})
    changed = NUMBERS.replace("line 5\n", "five\n").replace("line 30\n", "thirty\n")
    patch = edited(repository, {"f": changed})
    made = source({"f": NUMBERS.replace("line 30\n", "something else\n")})
    with pytest.raises(PatchError, match="hunk 2 of f"):
        patches.apply(made, [Patch("p", patch)])


def test_already_in_the_source(source):
    """A fix that upstream took over is its own outcome (apollosenvy/kernel-anvil#8)."""
    made = source({"store.c": case("lookalike-fixed.c")})
    with pytest.raises(PatchError) as raised:
        patches.apply(made, [CASES / "lookalike.patch"])
    assert "already in the source" in raised.value.what
    assert made.commit in raised.value.what
    assert "does not apply" not in str(raised.value)


def test_already_there_with_a_twin(source, repository):
    """The fixed place is gone from the search, a look-alike is left: still "already", never the look-alike."""
    place = "one\ntwo\nthree\nfour\n"
    source({"f": place + "gap\n" * 9})
    patch = edited(repository, {"f": "one\ntwo\nNEW\nthree\nfour\n" + "gap\n" * 9}, "-U2")
    made = source({"f": "one\ntwo\nNEW\nthree\nfour\n" + "gap\n" * 9 + place})
    with pytest.raises(PatchError, match="is already in the source"):
        patches.apply(made, [Patch("p", patch)])


def test_half_there_does_not_apply(source, repository):
    """One hunk of two in the source is not "already"."""
    source({"f": NUMBERS})
    half = NUMBERS.replace("line 5\n", "five\n")
    patch = edited(repository, {"f": half.replace("line 30\n", "thirty\n")})
    made = source({"f": half})
    with pytest.raises(PatchError, match=r"does not apply[\s\S]*hunk 1 of f: its change is in the file already"):
        patches.apply(made, [Patch("p", patch)])


def test_patches_build_on_each_other(source, repository, content):
    """The second patch sees the file as the first left it; the other order fails."""
    source({"f": NUMBERS})
    first = Patch("1.patch", edited(repository, {"f": NUMBERS.replace("line 9\n", "nine\n")}))
    source({"f": NUMBERS.replace("line 9\n", "nine\n")})
    second = Patch("2.patch", edited(repository, {"f": NUMBERS.replace("line 9\n", "NEUF\n")}))
    made = source({"f": NUMBERS})
    result = patches.apply(made, [first, second])
    assert content(result.tree, "f") == NUMBERS.replace("line 9\n", "NEUF\n").encode()
    assert [patch.file for patch in result.patches] == ["1.patch", "2.patch"]
    with pytest.raises(PatchError, match=r"2\.patch does not apply"):
        patches.apply(made, [second, first])


def test_crlf_patch_is_the_same_patch(source):
    """A checkout with autocrlf changes neither the patched bytes nor the hash (city96/ComfyUI-GGUF#166)."""
    made = source({"store.c": case("lookalike.c")})
    unix = patches.apply(made, [patches.read(CASES / "lookalike.patch", "p")])
    windows = patches.apply(made, [patches.read(CASES / "lookalike-crlf.patch", "p")])
    assert b"\r\n" in case("lookalike-crlf.patch")
    assert unix == windows


def test_crlf_source_is_not_converted(source, repository):
    """A source file with CRLF takes a patch whose content has CRLF, byte for byte."""
    old = NUMBERS.replace("\n", "\r\n").encode()
    new = old.replace(b"line 9\r\n", b"nine\r\n")
    source({"f": old})
    patch = Patch("p", patches.normalised(edited(repository, {"f": new})))
    made = source({"f": old})
    result = patches.apply(made, [patch])
    assert repository.git("rev-parse", f"{result.tree}:f") == repository.git("hash-object", "--stdin", data=new)


def test_crlf_source_with_lf_patch_is_explained(source, repository):
    """Line ends that differ are a reason of their own."""
    source({"f": NUMBERS})
    patch = edited(repository, {"f": NUMBERS.replace("line 9\n", "nine\n")})
    made = source({"f": NUMBERS.replace("\n", "\r\n")})
    with pytest.raises(PatchError, match="line ends are CRLF"):
        patches.apply(made, [Patch("p", patch)])


@pytest.mark.parametrize("setting", ["core.autocrlf=true", "apply.whitespace=fix", "apply.ignoreWhitespace=change"])
def test_users_settings_change_nothing(source, repository, setting, tmp_path, monkeypatch, content):
    """Neither the user's git configuration nor the source's .gitattributes touches the bytes."""
    made = source({"f": NUMBERS, ".gitattributes": "* text=auto eol=crlf\n"})
    patch = edited(repository, {"f": NUMBERS.replace("line 9\n", "nine  \n")})
    key, value = setting.split("=")
    config = tmp_path / "config"
    config.write_text(f"[{key.split('.')[0]}]\n{key.split('.')[1]} = {value}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    result = patches.apply(made, [Patch("p", patch)])
    assert content(result.tree, "f") == NUMBERS.replace("line 9\n", "nine  \n").encode()


def test_called_from_a_hook(source, repository, monkeypatch, content):
    """GIT_DIR and GIT_INDEX_FILE of a hook do not lead us astray."""
    made = source({"f": NUMBERS})
    patch = edited(repository, {"f": NUMBERS + "last\n"})
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    result = patches.apply(made, [Patch("p", patch)])
    monkeypatch.undo()
    assert content(result.tree, "f") == (NUMBERS + "last\n").encode()


@pytest.mark.parametrize("data", [b"", b"\n", b" \r\n"])
def test_empty_patch(tmp_path, data):
    """A patch without text is an error, not a patch that changes nothing (gpustack/runner#250)."""
    path = tmp_path / "empty.patch"
    path.write_bytes(data)
    with pytest.raises(PatchError, match="empty"):
        patches.read(path)


def test_missing_patch(make, tmp_path):
    """A patch that is nowhere is named with its variant and place."""
    row = make.variant(patches=(PatchRef("none.patch", "why"),))
    with pytest.raises(PatchError, match=r"buildmatrix\.yaml:12:3: variant alpha wants patches/fork/none\.patch"):
        patches.of_variant(tmp_path, row)


def test_order_is_the_matrixs(make, tmp_path):
    """Patches come in the order of the matrix, not of the folder."""
    folder = tmp_path / "patches" / "fork"
    folder.mkdir(parents=True)
    for name in ("a.patch", "b.patch"):
        (folder / name).write_bytes(name.encode())
    row = make.variant(patches=(PatchRef("b.patch", ""), PatchRef("a.patch", "")))
    assert [patch.file for patch in patches.of_variant(tmp_path, row)] == ["b.patch", "a.patch"]
    assert patches.of_variant(tmp_path, make.variant()) == ()


def test_new_deleted_and_renamed_files(source, repository, content):
    """Files that come, go and move end up as git would have them."""
    made = source({"old": NUMBERS, "gone": "bye\n", "keep": "k\n"})
    changed = {"old": None, "new": NUMBERS.replace("line 9\n", "nine\n"), "gone": None, "fresh/ä b": "hello\n"}
    patch = edited(repository, changed, "-M")
    assert b"rename from old" in patch
    result = patches.apply(made, [Patch("p", patch)])
    names = repository.git("ls-tree", "-rz", "--name-only", result.tree).split("\0")
    assert sorted(filter(None, names)) == ["fresh/ä b", "keep", "new"]
    assert content(result.tree, "new") == NUMBERS.replace("line 9\n", "nine\n").encode()


def test_new_file_that_exists(source, repository):
    """A file that the source has by now is "already" when equal, and an error when not."""
    source({"a": "1\n"})
    patch = edited(repository, {"b": "hello\n"})
    same = source({"b": "hello\n"})
    with pytest.raises(PatchError, match="already in the source"):
        patches.apply(same, [Patch("p", patch)])
    other = source({"b": "other\n"})
    with pytest.raises(PatchError, match="the source has one already"):
        patches.apply(other, [Patch("p", patch)])


def test_file_touched_twice_in_one_patch(source, repository, content):
    """The second part of a patch sees what the first did."""
    made = source({"f": NUMBERS})
    first = edited(repository, {"f": NUMBERS.replace("line 9\n", "nine\n")})
    source({"f": NUMBERS.replace("line 9\n", "nine\n")})
    second = edited(repository, {"f": NUMBERS.replace("line 9\n", "NEUF\n")})
    result = patches.apply(made, [Patch("p", first + second)])
    assert content(result.tree, "f") == NUMBERS.replace("line 9\n", "NEUF\n").encode()


def test_mode_change(source, repository):
    """A patch that only makes a file executable is kept."""
    made = source({"run.sh": "#!/bin/sh\n"})
    patch = b"diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
    result = patches.apply(made, [Patch("p", patch)])
    assert repository.git("ls-tree", result.tree, "run.sh").startswith("100755")


def test_missing_newline_at_the_end(source, repository, content):
    """A last line without a line end stays one."""
    made = source({"f": NUMBERS + "end"})
    patch = edited(repository, {"f": NUMBERS + "end\n"})
    assert content(patches.apply(made, [Patch("p", patch)]).tree, "f") == (NUMBERS + "end\n").encode()
    other = source({"f": NUMBERS + "end\n"})
    with pytest.raises(PatchError, match="already in the source"):
        patches.apply(other, [Patch("p", patch)])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"just words\n", "changes nothing"),
        (b"diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 1\n", "binary"),
        (b"diff --git a/x b/x\nBinary files a/x and b/x differ\n", "binary"),
        (b"diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n", "copies"),
        (b"diff --git a/s b/s\nnew file mode 160000\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+Sub\n", "submodule"),
        (b"--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n line 1\n-line 2\n", "ends before"),
        (b"--- a/f\n+++ b/f\n@@ -1,1 +1,2 @@\n line 1\n-line 2\n+x\n", "other numbers"),
        (b"--- a/f\n+++ b/f\n@@ -x +1,2 @@\n", "damaged header"),
        (b"--- f\n+++ f\n@@ -1 +1 @@\n-line 1\n+x\n", "no leading folder"),
        (b"--- a/f\n+++ b/f\n@@ -2,0 +3,1 @@\n+x\n", "without any context"),
        (b"--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n", "no such file"),
        (b"--- a/../f\n+++ b/../f\n@@ -1 +1 @@\n-a\n+b\n", "p "),
    ],
)
def test_what_cannot_be_applied_exactly(source, text, why):
    """Damaged and unprovable patches are refused with the reason, never applied in part."""
    made = source({"f": NUMBERS})
    with pytest.raises(PatchError, match=why):
        patches.apply(made, [Patch("p", text)])


def test_mail_around_a_patch(source, repository, content):
    """A patch from `git format-patch` applies as it is."""
    made = source({"f": NUMBERS})
    repository.write("f", NUMBERS.replace("line 9\n", "nine\n"))
    repository.commit("--- a title\n\n@@ and a body")
    mail = (repository.git("format-patch", "-1", "--stdout") + "\n").encode()
    assert content(patches.apply(made, [Patch("p", mail)]).tree, "f") == NUMBERS.replace("line 9\n", "nine\n").encode()


#: The part of llama.cpp's function that our patch touches, cut down to what the patch needs around it.
RPC = """\
ggml_tensor * rpc_server::deserialize_tensor(struct ggml_context * ctx, const rpc_tensor * tensor) {
        result->buffer = nullptr;
    }

    if (result->buffer) {
        // require that the tensor data does not go beyond the buffer end
        uint64_t tensor_size = (uint64_t) ggml_nbytes(result);
        uint64_t buffer_start = (uint64_t) ggml_backend_buffer_get_base(result->buffer);
        uint64_t buffer_size = (uint64_t) ggml_backend_buffer_get_size(result->buffer);
        GGML_ASSERT(tensor->data + tensor_size >= tensor->data); // check for overflow
        GGML_ASSERT(tensor->data >= buffer_start && tensor->data + tensor_size <= buffer_start + buffer_size);
    }

    result->op = (ggml_op) tensor->op;
        result->op_params[i] = tensor->op_params[i];
    }
    result->flags = tensor->flags;
    result->data = reinterpret_cast<void *>(tensor->data);
    ggml_set_name(result, tensor->name);
    return result;
}
"""


@pytest.mark.parametrize("fork", ["upstream", "turboquant"])
def test_our_patch_keeps_both_checks(source, repository, fork):
    """The zero-byte patch leaves no address unvalidated: both assertions stay, and what is stored was checked."""
    path = resources.bundled("patches") / fork / "rpc-zero-byte-tensor.patch"
    made = source({"ggml/src/ggml-rpc/ggml-rpc.cpp": RPC})
    tree = patches.apply(made, [path]).tree
    code = repository.git("cat-file", "blob", f"{tree}:ggml/src/ggml-rpc/ggml-rpc.cpp")
    assert code.count("GGML_ASSERT(") == 2
    assert "GGML_ASSERT(tensor_data + tensor_size >= tensor_data)" in code
    assert "GGML_ASSERT(tensor_data >= buffer_start && tensor_data + tensor_size <= buffer_start + buffer_size)" in code
    assert "tensor_data = buffer_start;" in code
    assert "result->data = reinterpret_cast<void *>(tensor_data);" in code
    assert code.index("tensor_data = buffer_start;") < code.index("GGML_ASSERT(")


def test_bundled_series_lists_what_is_there():
    """Each fork's `series` names its patches in order; none is left out."""
    for folder in resources.bundled("patches").iterdir():
        rows = [row.split("#")[0].strip() for row in (folder / "series").read_text().splitlines()]
        assert sorted(filter(None, rows)) == sorted(path.name for path in folder.glob("*.patch"))


def test_locked_hash_is_of_the_text(tmp_path):
    """The hash in the lock is the sha256 of the LF text, which `sha256sum` shows."""
    path = tmp_path / "p.patch"
    shutil.copy(CASES / "lookalike.patch", path)
    assert patches.read(path).data == case("lookalike.patch")
    assert len(patches.read(path).sha256) == 64
