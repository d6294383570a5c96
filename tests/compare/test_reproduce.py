"""What `reproduce` decides."""

from __future__ import annotations

from sistership.compare import Comparison, Difference, Kind, Side, reproduce
from sistership.compare.causes import every_cause

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


def test_an_input_that_moved_explains_more():
    """When an input moved, the result had to: the input is named, not the section."""
    moved = different(Difference(None, "", "toolchain.gcc", Kind.INPUT, "12.2 in A, 12.3 in B"))
    error = reproduce.refusal(different(Difference(4, "COPY", "/app/x", Kind.CONTENT)), "cpu", inputs=moved)
    assert error is not None
    assert error.why == "an input moved: toolchain.gcc (12.2 in A, 12.3 in B)"
