"""What `reproduce` decides."""

from __future__ import annotations

from sistership.compare import Comparison, Difference, Kind, Side, reproduce
from sistership.compare.causes import every_cause
from sistership.compare.records import inputs, moved, records, unrecorded

CAUSES = {cause.id: cause for cause in every_cause()}
A, B = (Side(name, "sha256:" + name * 64, "linux/amd64") for name in "ab")


def different(*found: Difference) -> Comparison:
    """A second build with these differences."""
    return Comparison(A, B, same=False, differences=found)


def test_cache_mounts_of_their_own():
    """Every cache mount gets the run's id, wherever its id stands; other mounts and texts stay."""
    text = (
        "RUN --network=none --mount=type=cache,id=sistership-ccache,target=/ccache \\\n"
        "    --mount=type=cache,target=/x,id=two \\\n"
        "    --mount=type=bind,from=runtime,target=/runtime sh id=three\n"
    )
    made = reproduce.check_dockerfile(text, "run1")
    assert made == text.replace("sistership-ccache", "sistership-ccache-run1").replace("id=two", "id=two-run1")


def test_the_same_bytes_are_no_error():
    """Nothing to refuse."""
    assert reproduce.refusal(Comparison(A, A, same=True), "v") is None


def test_the_error_carries_cause_and_cure():
    """Exit code 14, how much differs, and the first cause that can be cured."""
    causes = (CAUSES["build-id"], CAUSES["source-path"])
    error = reproduce.refusal(different(Difference(4, "COPY", "/app/x", Kind.CONTENT, causes=causes)), "cpu")
    assert error is not None
    assert error.code == 14
    assert (error.where, error.what) == ("cpu", "the second build is another image: 1 file in 1 layer differ")
    assert error.why == CAUSES["source-path"].why
    assert error.hint == CAUSES["source-path"].cure
    assert len(str(error).splitlines()) <= 4


def test_no_known_cause():
    """Without a cause the error says so, and that the recorded image stays the truth."""
    error = reproduce.refusal(different(Difference(None, "", "created", Kind.CONFIG)), "cpu")
    assert error is not None
    assert error.what.endswith("config differs")
    assert "no known cause" in (error.why or "")
    assert "recorded image" in (error.hint or "")


def record(**fields: object) -> dict[str, object]:
    """An entry of the lock, results left out."""
    packages = {f"lib{number}": "1.0" for number in range(9)}
    return {"toolchain": {"gcc": "gcc 12.2"}, "packages": {**packages, "gcc-12": "12.2.0-14"}, **fields}


def test_an_input_that_moved_explains_more():
    """When an input moved, the result had to: the input is named, not the section."""
    rows = moved(record(), record(toolchain={"gcc": "gcc 12.3"}))
    error = reproduce.refusal(different(Difference(4, "COPY", "/app/x", Kind.CONTENT)), "cpu", moved=rows)
    assert error is not None
    assert (error.code, error.why) == (14, "a tool moved: gcc 12.2 → gcc 12.3")
    assert "snapshot" in (error.hint or "")


def test_a_cause_in_the_code_is_not_hidden_by_an_input():
    """A package that moved does not explain the time of the build in a program: both are said, in four lines."""
    rows = moved(record(), record(toolchain={"gcc": "gcc 12.3"}))
    fields = tuple(inputs(record(), record(toolchain={"gcc": "gcc 12.3"})))
    causes = (CAUSES["build-id"], CAUSES["source-path"])
    found = different(Difference(4, "COPY", "/app/x", Kind.CONTENT, causes=causes), *fields)
    error = reproduce.refusal(found, "cpu", moved=rows)
    assert error is not None
    assert error.why == f"a tool moved: gcc 12.2 → gcc 12.3; besides, {CAUSES['source-path'].why}"
    assert error.what.endswith("1 file in 1 layer differ")
    assert len(str(error).splitlines()) <= 4


def test_many_inputs_are_one_line():
    """Packages are counted and the first is named; what is new or gone is said, digests are short."""
    newer = {f"lib{number}": "1.1" for number in range(9)} | {"gcc-12": "12.2.0-15", "new": "1"}
    old = record(bases={"build": "debian@sha256:" + "1" * 64}, patches={"a.patch": "sha256:" + "3" * 64})
    new = record(packages=newer, bases={"build": "debian@sha256:" + "2" * 64}, patches={})
    assert reproduce.moved_text(moved(old, new)) == (
        "11 packages moved, first: gcc-12 12.2.0-14 → 12.2.0-15; "
        f"a base moved: build debian@sha256:{'1' * 12} → debian@sha256:{'2' * 12}; "
        f"a patch moved: a.patch sha256:{'3' * 12} is gone"
    )
    assert reproduce.moved_text(moved(record(), record(packages={}))).startswith("10 packages moved, first: ")
    assert reproduce.moved_text(moved(record(snapshot=""), record(snapshot="1"))) == "the snapshot moved: 1 is new"


def test_a_long_version_is_cut():
    """A tool may print a line as long as it likes."""
    text = reproduce.moved_text(moved(record(), record(toolchain={"gcc": "x" * 999})))
    assert len(text) < 120


def test_equal_inputs_are_not_accused():
    """Without an input that moved, the error names the cause in the code, or none."""
    assert moved(record(), record()) == ()
    error = reproduce.refusal(different(Difference(4, "COPY", "/app/x", Kind.CONTENT)), "cpu", moved=())
    assert error is not None
    assert "moved" not in str(error)


def test_an_input_of_one_side_alone_is_unknown():
    """A field that an older entry lacks did not move; a package that is not there did."""
    older = {name: value for name, value in record().items() if name != "packages"}
    assert moved(older, record()) == ()
    assert unrecorded(older, record(), ("old", "new")) == ("inputs that old does not record: packages",)
    assert [row.old for row in moved(record(packages={}), record(packages={"a": "1"}))] == [""]


def test_the_same_image_of_other_inputs():
    """The same result although inputs moved is good news, told in one line; otherwise there is no such line."""
    same, rows = Comparison(A, A, same=True), moved(record(), record(toolchain={"gcc": "gcc 12.3"}))
    assert reproduce.agreement(same, rows) == "the same although a tool moved: gcc 12.2 → gcc 12.3"
    assert reproduce.agreement(same, ()) == ""
    assert reproduce.agreement(different(), rows) == ""
    assert reproduce.refusal(same, "cpu", moved=rows) is None


def test_two_lock_entries_show_what_moved():
    """Two entries of the lock are told apart by their inputs: what moved, with the cause, and what is not recorded."""
    image = {"config": "sha256:" + "c" * 64, "platform": "linux/amd64", "layers": []}
    image |= {"manifest": "sha256:" + "d" * 64, "manifest_plain": "sha256:" + "e" * 64}
    one = {**image, **record(flags={"GGML_RPC": "ON"}), "files": {"/app/x": "1" * 64}}
    two = {**image, **record(packages={}), "config": "sha256:" + "f" * 64, "files": {"/app/x": "2" * 64}}
    found = records(one, two, names=("one", "two"))
    paths = [row.path for row in found.differences]
    assert paths == ["packages.gcc-12", *(f"packages.lib{number}" for number in range(9)), "/app/x"]
    assert found.causes[0].id == "toolchain"
    assert "inputs that two does not record: flags" in found.unread
