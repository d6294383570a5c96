"""A comparison as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from sistership.compare import Cause, Comparison, Difference, Kind, Part, Side, What, report
from sistership.compare.causes import every_cause

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "diff.schema.json").read_text())
CAUSES = {cause.id: cause for cause in every_cause()}
A = Side("recorded", "sha256:" + "a" * 64, "linux/amd64")
B = Side("again", "sha256:" + "b" * 64, "linux/amd64")
LIB = "COPY --from=build /out/10-ggml-cuda/ /"
SYMBOL = Part((".strtab",), What.SECTION, (10432, 10432), 2, 31, (("tmpxft_000054e0_a",), ("tmpxft_000054f5_a",)))
BUILD_ID = Part((".note.gnu.build-id",), What.SECTION, (36, 36), 20, 16)


def content(path: str, *causes: str, layer: int = 4, parts: tuple[Part, ...] = (SYMBOL, BUILD_ID)) -> Difference:
    """A file that differs for these causes."""
    return Difference(layer, LIB, path, Kind.CONTENT, "9 bytes", parts, tuple(CAUSES[name] for name in causes))


def comparison(*differences: Difference, unread: tuple[str, ...] = ()) -> Comparison:
    """The two sides with these differences."""
    return Comparison(A, B, same=False, differences=differences, unread=unread)


ONE = comparison(content("/app/lib/libggml-cuda.so.0", "nvcc-file-symbol", "build-id"))
MANY = comparison(
    *(content(f"/app/lib/lib{number}.so", "source-path") for number in range(30)),
    *(content(f"/app/bin/tool{number}", f"{name}") for number, name in enumerate(CAUSES) if number < 20),
    *(Difference(5, "COPY", f"/app/x{number}", Kind.MODE, "0644 in A, 0664 in B") for number in range(300)),
    Difference(None, "", "created", Kind.CONFIG, "1 in A, 2 in B", causes=(CAUSES["other-recipe"],)),
    unread=("the inside of 12 more files",),
)


def test_one_file_from_layer_to_cure():
    """The block reads from the outside in: layer, path, section, strings, why, cure; a consequence is not explained."""
    assert report.text(ONE).splitlines() == [
        "different in 1 layer, 1 path: A is recorded (aaaaaaaaaaaa), B is again (bbbbbbbbbbbb)",
        f"layer 4  {LIB}",
        "  /app/lib/libggml-cuda.so.0: content, 9 bytes",
        "    .strtab: 2 of 10432 bytes differ, first at 0x1f",
        "      A tmpxft_000054e0_a",
        "      B tmpxft_000054f5_a",
        "    also .note.gnu.build-id",
        f"    why   {CAUSES['nvcc-file-symbol'].why}",
        f"    cure  {CAUSES['nvcc-file-symbol'].cure}",
    ]


def test_a_layer_is_named_once_above_its_files():
    """Fields of the config stand under a heading of their own, with digests as short as everywhere."""
    recipe = Difference(
        None, "", "label", Kind.CONFIG, f"{'1' * 64} in A, {'2' * 64} in B", (), (CAUSES["other-recipe"],)
    )
    lines = report.text(comparison(content("/a", "source-path"), content("/b", "compiler"), recipe)).splitlines()
    assert [line for line in lines[1:] if not line.startswith(" ")] == [f"layer 4  {LIB}", "fields"]
    assert f"  label: config, {'1' * 12} in A, {'2' * 12} in B" in lines


def test_sizes_of_a_text_are_told_once():
    """What differs in a line is the line itself."""
    part = Part(("line 5",), What.LINES, (1046, 1050), only=(("one",), ("two",)))
    assert "    line 5: differs" in report.text(comparison(content("/x", parts=(part,)))).splitlines()


def test_further_causes_are_named():
    """Two causes are explained, the others named; a consequence is explained only where it stands alone."""
    names = ("nvcc-file-symbol", "nvcc-module-id", "compiler", "native", "build-id")
    lines = report.text(comparison(content("/x", *names))).splitlines()
    assert lines[-1] == "    then  compiler, native"
    assert CAUSES["build-id"].why in report.text(comparison(content("/x", "build-id")))


def test_what_a_terminal_obeys_is_shown_not_sent():
    """Escape sequences and line ends in names and lines of files are written out."""
    part = Part(("line 1",), What.LINES, only=(("\x1b[2Jgone",), ("\u202eabc",)))
    text = report.text(comparison(content("/a\nb", parts=(part,))))
    assert "/a\\nb: content" in text
    assert "A \\x1b[2Jgone" in text
    assert "B \\u202eabc" in text


def test_same_is_one_line():
    """Nothing to explain: the names and the digest they share."""
    same = Comparison(A, Side("again", A.config, A.platform), same=True)
    assert report.text(same) == "same: recorded and again are aaaaaaaaaaaa"


@pytest.mark.parametrize("width", [80, 120, 200])
def test_at_most_a_screen(width):
    """However much differs, the text fits a terminal of 24 lines, and says how much it leaves out."""
    lines = report.text(MANY, width, height=24).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= width
    assert "30 path" not in lines[0]
    assert lines[0].startswith("different in 2 layers, 350 paths, 1 field")
    assert any("and 29 more the same way" in line or "and 30 more the same way" in line for line in lines)
    assert any(line.startswith("and ") and "300 mode" in line for line in lines)
    assert lines[-1] == "not looked into: the inside of 12 more files"


def test_every_path_is_counted_once():
    """What is shown, what goes the same way and what is left out add up to all differences."""
    text = report.text(MANY, 200, height=24)
    shown = sum(line.startswith("  /") for line in text.splitlines())
    same_way = sum(int(line.split("  and ")[1].split()[0]) for line in text.splitlines() if "the same way" in line)
    (rest,) = [int(line.split()[1]) for line in text.splitlines() if line.startswith("and ")]
    assert shown + same_way + rest == len(MANY.differences)


def test_known_causes_come_first_fields_last():
    """A file without a known cause, a consequence and a field of the config stand behind what can be cured."""
    mixed = comparison(
        Difference(None, "", "created", Kind.CONFIG, "", causes=(CAUSES["other-recipe"],)),
        content("/sums", "checksums"),
        content("/strange"),
        content("/known", "source-path"),
    )
    order = [group[0].path for group in report.grouped(mixed.differences)]
    assert order == ["/known", "/strange", "/sums", "created"]


def test_the_document_follows_its_schema():
    """Both documents are valid, and the schema is strict enough to notice what is missing or too much."""
    for each in (ONE, MANY, Comparison(A, A, same=True)):
        jsonschema.validate(report.json(each), SCHEMA)
    document = report.json(ONE)
    for broken in ({**document, "more": 1}, {key: value for key, value in document.items() if key != "same"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, SCHEMA)


def test_the_schema_knows_every_kind():
    """Kinds and parts that the code has and the schema lacks would make documents invalid."""
    found = SCHEMA["definitions"]
    assert found["difference"]["properties"]["kind"]["enum"] == [kind.value for kind in Kind]
    assert found["part"]["properties"]["what"]["enum"] == [what.value for what in What]


def test_the_document_holds_all():
    """Nothing is left out of the document; causes are told once, with the number of differences that show them."""
    document = report.json(MANY)
    assert len(document["differences"]) == len(MANY.differences)
    assert {name for one in document["differences"] for name in one["causes"]} == {
        one["id"] for one in document["causes"]
    }
    assert document["causes"][0]["id"] == "source-path"
    assert document["causes"][0]["differences"] == 31
    assert json.loads(json.dumps(document)) == document


def test_consequences_rank_last():
    """However many files show it, the build-id never leads."""
    many = comparison(*(content(f"/{number}", "build-id") for number in range(9)), content("/x", "native", "build-id"))
    assert [cause.id for cause in many.causes] == ["native", "build-id"]


def test_part_details():
    """Each shape of a part reads as a sentence."""
    rows = {
        (None, 5): "only in B (5 bytes)",
        (5, None): "only in A (5 bytes)",
        (5, 6): "5 bytes in A, 6 in B",
        (None, None): "",
    }
    assert {sizes: Part(("x",), What.SECTION, sizes).detail for sizes in rows} == rows
    assert Part(("x",), What.MEMBER, (5, None), note="why").detail == "only in A (5 bytes); why"


def test_causes_are_values():
    """Two equal causes are one."""
    assert Cause("a", "b", "c", "d") == Cause("a", "b", "c", "d")
