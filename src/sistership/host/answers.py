"""What a script printed on a host, taken apart: sections under lines of their own, JSON documents, figures."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from packaging.version import InvalidVersion, Version

#: How the line above a section begins; its name follows.
MARK: Final = "@@"
#: Shell that begins a section.
SECTION: Final = f"sec() {{ printf '\\n{MARK}%s\\n' \"$1\"; }}"


def sections(text: str) -> dict[str, str]:
    """The answers of a script by name."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if line.startswith(MARK):
            current = found.setdefault(line.removeprefix(MARK), [])
        else:
            current.append(line)
    return {name: "\n".join(lines).strip() for name, lines in found.items()}


def document(text: str) -> dict[str, Any] | None:
    """The JSON object in the first line that begins like one; None where there is none, or it cannot be read."""
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                value = json.loads(line)
            except ValueError:
                return None
            return value if isinstance(value, dict) else None
    return None


def free_bytes(line: str) -> int | None:
    """Free bytes from one line of `df -Pk`; None when it cannot be read."""
    fields = line.split()
    return int(fields[3]) * 1024 if len(fields) >= 6 and fields[3].isdigit() else None  # noqa: PLR2004 - df's columns


def parse_version(text: str) -> Version:
    """An engine's version; Debian's `20.10.24+dfsg1` counts as 20.10.24, nonsense as 0."""
    found = re.match(r"\d+(\.\d+)*", text)
    try:
        return Version(found.group(0)) if found else Version("0")
    except InvalidVersion:
        return Version("0")
