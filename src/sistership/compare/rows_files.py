"""The cause table's rows for archives, texts, and what is written into any file. Pure."""

from __future__ import annotations

from typing import Final

from sistership.compare.evidence import Evidence, Row
from sistership.compare.lines import ENDS, ORDER
from sistership.compare.model import Cause, What

_DATE: Final = r"\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d{4}\b"
_TIME: Final = r"(?<![\d:])\d\d:\d\d:\d\d(?![\d:])"
_MOMENT: Final = r"\b(?:19|20)\d\d-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?|\b)"
_SUM: Final = r"^[0-9a-f]{64} [ *]"


def _header(evidence: Evidence, *words: str) -> bool:
    return any(text.startswith(words) for part in evidence.of(What.HEADER) for text in part.strings)


FILES: Final[tuple[Row, ...]] = (
    Row(
        lambda e: _header(e, "mtime", "uid", "gid", "mode"),
        Cause(
            "ar-header",
            "ar writes each member's time, owner and mode into the archive",
            "ar with D: CMAKE_<LANG>_ARCHIVE_CREATE='<CMAKE_AR> qcD <TARGET> <OBJECTS>', or ARFLAGS=Dcr",
            "binutils manual, ar",
        ),
    ),
    Row(
        lambda e: _header(e, "time", "name", "level", "system"),
        Cause(
            "gzip-header",
            "gzip writes the time and the file's name into its header",
            "gzip -n with the same level and program",
            "RFC 1952",
        ),
    ),
    Row(
        lambda e: any(part.note.startswith(ORDER) for part in e.of(What.LINES)),
        Cause(
            "sort-order",
            "the same lines in another order: sorted in another locale, by parallel jobs, or as a directory lists them",
            "LC_ALL=C sort",
            "reproducible-builds.org, stable inputs",
        ),
    ),
    Row(
        lambda e: e.reordered() and not e.of(What.LINES),
        Cause(
            "input-order",
            "objects were put together in another order: an unsorted list of files, such as file(GLOB) or a directory",
            "sort the list before it reaches the linker, ar or cmake",
            "reproducible-builds.org, stable inputs",
        ),
    ),
    Row(
        lambda e: any(part.note == ENDS for part in e.of(What.LINES)),
        Cause(
            "line-ends",
            "CRLF in one, LF in the other",
            "core.autocrlf=false where the source is cloned",
            "git manual",
        ),
    ),
    Row(
        lambda e: e.on_both(_MOMENT),
        Cause(
            "timestamp",
            "the moment of the build is written into the file",
            "take the commit's date instead, or leave it out",
            "reproducible-builds.org, timestamps",
        ),
    ),
    Row(
        Evidence.other_commit,
        Cause(
            "commit",
            "the commit (or `-dirty`, or `unknown`) is written into the program",
            "build the same commit without .git in the context, LLAMA_BUILD_COMMIT and LLAMA_BUILD_NUMBER given",
            "llama.cpp's build-info",
        ),
    ),
    Row(
        Evidence.other_number,
        Cause(
            "build-number",
            "the build number is written into the program",
            "give LLAMA_BUILD_NUMBER; a shallow clone counts fewer commits",
            "llama.cpp's build-info",
        ),
    ),
    Row(
        lambda e: e.on_both(_DATE) or e.on_both(_TIME),
        Cause(
            "date-macro",
            "__DATE__ or __TIME__ puts the moment of the compile into the program",
            "find it with -Wdate-time; remove it, or set SOURCE_DATE_EPOCH for the compiler alone, never for cmake",
            "measured with gcc 12.2",
        ),
    ),
)

#: Added to whatever else was found.
FILES_CONSEQUENCES: Final[tuple[Row, ...]] = (
    Row(
        lambda e: bool(e.of(What.LINES)) and e.on_both(_SUM),
        Cause(
            "checksums",
            "a list of checksums follows the files it lists",
            "nothing of its own: it is equal once they are",
            "the lines themselves",
            consequence=True,
        ),
    ),
)
