"""known_hosts as sshd(8) describes it: which keys a name is known by."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sistership.host.sshconfig import matches

_PORT: Final = 22


@dataclass(frozen=True)
class Known:
    """What known_hosts files say of one name.

    Attributes:
        keys: (type, blob, `file:line`) of every key that the host may show.
        revoked: blobs that it must not show.
        authorities: lines that name a certificate authority.
    """

    keys: tuple[tuple[str, bytes, str], ...] = ()
    revoked: frozenset[bytes] = frozenset()
    authorities: tuple[str, ...] = ()


def entry(host: str, port: int) -> str:
    """The name under which a host is kept: its own, or `[name]:port` beside the usual port."""
    return host if port == _PORT else f"[{host}]:{port}"


def lookup(files: Iterable[Path], name: str) -> Known:
    """What `files` say of `name`; files that are not there say nothing."""
    keys: list[tuple[str, bytes, str]] = []
    revoked: set[bytes] = set()
    authorities: list[str] = []
    for file in files:
        for number, line in enumerate(_lines(file), start=1):
            words = line.split()
            marker = words.pop(0) if words and words[0].startswith("@") else ""
            if len(words) < 3 or words[0].startswith("#") or not _is_of(words[0], name):  # noqa: PLR2004
                continue
            where = f"{file}:{number}"
            if marker == "@cert-authority":
                authorities.append(where)
                continue
            try:
                blob = base64.b64decode(words[2], validate=True)
            except binascii.Error:
                continue
            if marker == "@revoked":
                revoked.add(blob)
            elif not marker:
                keys.append((words[1], blob, where))
    return Known(tuple(keys), frozenset(revoked), tuple(authorities))


def _lines(file: Path) -> Sequence[str]:
    try:
        return file.read_text(errors="replace").splitlines()
    except OSError:
        return ()


def _is_of(patterns: str, name: str) -> bool:
    if not patterns.startswith("|1|"):
        return matches(patterns.lower().split(","), name.lower())
    try:
        salt, digest = (base64.b64decode(part) for part in patterns.split("|")[2:4])
    except ValueError:
        return False
    return hmac.compare_digest(hmac.new(salt, name.lower().encode(), hashlib.sha1).digest(), digest)


def fingerprint(blob: bytes) -> str:
    """A key's fingerprint as ssh shows it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
