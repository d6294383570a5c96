"""What a registry asks for when it says 401 (RFC 9110 section 11, distribution's token specification). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode, urlsplit, urlunsplit

_SCHEME: Final = re.compile(r"\s*(?:,\s*)*([A-Za-z]+)(?:\s+|$)")
_PARAMETER: Final = re.compile(r'\s*,?\s*([A-Za-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')


@dataclass(frozen=True)
class Challenge:
    """One way to authenticate: `basic` or `bearer`, with its parameters."""

    scheme: str
    parameters: Mapping[str, str]

    def token_url(self, scopes: Iterable[str]) -> str:
        """The address of a Bearer token for these scopes (`repository:NAME:pull,push`)."""
        parts = urlsplit(self.parameters.get("realm", ""))
        query = [("service", self.parameters["service"])] if "service" in self.parameters else []
        query += [("scope", scope) for scope in scopes]
        joined = "&".join(part for part in (parts.query, urlencode(query)) if part)
        return urlunsplit((parts.scheme, parts.netloc, parts.path, joined, ""))


def challenges(header: str) -> tuple[Challenge, ...]:
    """The challenges of a `WWW-Authenticate` header, in order; what cannot be read is left out."""
    found: list[Challenge] = []
    at = 0
    while scheme := _SCHEME.match(header, at):
        at = scheme.end()
        parameters: dict[str, str] = {}
        while parameter := _PARAMETER.match(header, at):
            name, quoted, bare = parameter.groups()
            parameters[name.lower()] = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else bare
            at = parameter.end()
        found.append(Challenge(scheme[1].lower(), parameters))
    return tuple(found)


def chosen(header: str) -> Challenge | None:
    """The challenge that is answered: a Bearer token where there is one, else Basic."""
    known = {each.scheme: each for each in reversed(challenges(header))}
    return known.get("bearer") or known.get("basic")


def scope(repository: str, *, push: bool) -> str:
    """What a token must allow on a repository."""
    return f"repository:{repository}:{'pull,push' if push else 'pull'}"
