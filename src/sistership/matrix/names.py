"""What a name, an image reference, a platform, a commit and a git address may look like.

Image references follow the grammar of github.com/distribution/reference, which every Docker engine uses.
All functions are pure; a `TextError` says what is wrong and what to write.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_COMPONENT: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_DOMAIN_PART: Final = r"(?:[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9])"
_DOMAIN: Final = re.compile(rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?")
_PATH: Final = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_NAME_MAX: Final = 255

_ARCHITECTURES: Final = ("amd64", "arm64", "arm", "386", "ppc64le", "riscv64", "s390x", "loong64")
_OTHER_NAMES: Final = {"x86_64": "amd64", "x86-64": "amd64", "aarch64": "arm64", "armv8": "arm64", "armhf": "arm/v7"}

_BAD_IN_REF: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")
_FULL_HASH: Final = 40

_SCHEMES: Final = frozenset({"https", "http", "ssh", "git", "file"})
_SCP: Final = re.compile(r"(?:[^\s/:@]+@)?[^\s/:@]+:(?!//)\S+")


class TextError(ValueError):
    """A text that is not what it should be; `hint` says what to write instead."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def nearest(name: str, known: Iterable[str]) -> str | None:
    """A hint: the known name most like `name`, else all of them; None when there are none."""
    names = list(known)
    lowered = {other.lower(): other for other in names}
    if close := get_close_matches(name.lower(), lowered, n=1, cutoff=0.6):
        return f'did you mean "{lowered[close[0]]}"?'
    return f"known: {', '.join(names)}" if names else None


def check_name(name: str) -> None:
    """A name of a variant, fork, host or group: one that a selector and a file name can hold.

    Raises:
        TextError: empty, too long, or with characters that selectors or shells use.
    """
    if not _NAME.fullmatch(name):
        raise TextError(
            f'"{name}" cannot be a name', "use letters, digits, dot, dash and underscore; no dash or dot first"
        )


@dataclass(frozen=True)
class Reference:
    """An image reference in its parts; `domain` is "" where none is written."""

    domain: str
    path: str
    tag: str | None = None
    digest: str | None = None

    @property
    def repository(self) -> str:
        """The full name as engines compare it: `debian` is docker.io/library/debian."""
        domain = "docker.io" if self.domain in {"", "docker.io", "index.docker.io"} else self.domain
        official = domain == "docker.io" and "/" not in self.path
        return f"{domain}/library/{self.path}" if official else f"{domain}/{self.path}"


def parse_reference(text: str) -> Reference:
    """An image reference: `[domain/]path[:tag][@sha256:…]`.

    Raises:
        TextError: against the grammar.
    """
    rest, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise TextError(f'"{digest}" is not an image digest', "write sha256: and 64 hex digits")
    head, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:
        head, tag, colon = rest, "", ""
    if colon and not _TAG.fullmatch(tag):
        raise TextError(f'"{tag}" is not an image tag', "use at most 128 letters, digits, dots, dashes, underscores")
    first, slash, path = head.partition("/")
    is_domain = bool(slash) and (any(c in first for c in ".:") or first == "localhost" or first != first.lower())
    domain, path = (first, path) if is_domain else ("", head)
    if (domain and not _DOMAIN.fullmatch(domain)) or not _PATH.fullmatch(path) or len(head) > _NAME_MAX:
        raise TextError(f'"{head}" is not an image name', _name_hint(head))
    if not domain and re.fullmatch(r"[0-9a-f]{64}", path):
        raise TextError(f'"{head}" would be read as an image ID', "use a name that is not 64 hex digits")
    return Reference(domain, path, tag if colon else None, digest if at else None)


def _name_hint(head: str) -> str:
    if head != head.lower():
        return f"use lower case: {head.lower()}"
    return "use lower-case letters and digits, joined by single dots, one or two underscores, or dashes"


def check_image(name: str) -> None:
    """The image name of a variant.

    Raises:
        TextError: against the grammar, or the name already holds a tag or a digest.
    """
    reference = parse_reference(name)
    if reference.tag is not None or reference.digest is not None:
        raise TextError(f'"{name}" holds a tag or a digest', "put the tag under tag:")
    if reference.domain == "sistership.local":
        raise TextError("sistership names the images under sistership.local itself", "use another domain or none")


def check_repository(text: str) -> None:
    """A repository of a registry: the host is written, a tag is not.

    Raises:
        TextError: against the grammar, without a host, or with a tag or a digest.
    """
    reference = parse_reference(text)
    if reference.tag is not None or reference.digest is not None:
        raise TextError(f'"{text}" holds a tag or a digest', "images get the first 12 digits of their config as tag")
    if not reference.domain:
        raise TextError(f'"{text}" names no registry', f"write its host too, such as docker.io/{text}")


def check_tag(tag: str) -> None:
    """An image tag.

    Raises:
        TextError: against the grammar.
    """
    if not _TAG.fullmatch(tag):
        raise TextError(f'"{tag}" is not an image tag', "use at most 128 letters, digits, dots, dashes, underscores")


def check_platform(text: str) -> None:
    """A platform as OCI names it: `linux/amd64`, `linux/arm64`, `linux/arm/v7`.

    Raises:
        TextError: another form or an unknown architecture.
    """
    system, _, rest = text.partition("/")
    arch, slash, variant = rest.partition("/")
    if system == "linux" and arch in _ARCHITECTURES and re.fullmatch(r"v[0-9]+" if slash else "", variant):
        return
    bare = rest or system
    meant = _OTHER_NAMES.get(bare, bare if bare in _ARCHITECTURES else None)
    raise TextError(f'"{text}" is not a platform', f"write linux/{meant or 'amd64 or linux/arm64'}")


def check_commit(text: str) -> None:
    """A commit, short hash, tag or branch (`git check-ref-format`).

    Raises:
        TextError: git could not read it, or it is a hash of the wrong length.
    """
    if re.fullmatch(r"[0-9A-Fa-f]+", text) and len(text) > _FULL_HASH:
        raise TextError(f'"{text}" has {len(text)} hex digits', f"a full hash has {_FULL_HASH}: copy it again")
    bad = _BAD_IN_REF.search(text)
    ends = text.startswith(("-", "/", ".")) or text.endswith(("/", ".", ".lock")) or "/." in text
    if not text or bad or ends or text == "@":
        raise TextError(
            f'"{text}" cannot be a commit, tag or branch', "write the full hash of the commit (40 hex digits)"
        )


def is_path(git: str) -> bool:
    """Whether a git address is a path: no scheme, and no `host:` before the first slash."""
    return "://" not in git and (git.startswith(("/", ".", "~")) or not _SCP.fullmatch(git))


def check_git(text: str) -> None:
    """A git address: a URL, `user@host:path`, or a path.

    Raises:
        TextError: a scheme that runs commands, a password in it, or no address at all.
    """
    if not text or text.startswith("-") or re.search(r"[\x00-\x1f\x7f]", text) or "::" in text.partition("/")[0]:
        raise TextError(f'"{text}" is not a git address', "write a URL, user@host:path, or a path of this project")
    if "://" not in text:
        return
    if re.search(r"\s", text):
        raise TextError(f'"{text}" is not a git address', "a URL holds no white space")
    parts = urlsplit(text)
    if parts.scheme not in _SCHEMES:
        raise TextError(f'git cannot be reached by "{parts.scheme}"', f"use one of {', '.join(sorted(_SCHEMES))}")
    if parts.password is not None or (parts.scheme in {"http", "https"} and parts.username):
        # A token alone stands where a user name would.
        raise TextError("the git address holds a password or token", "take it out and use a git credential helper")


def check_file(text: str) -> None:
    """A file inside a folder of the project: relative, and never above it.

    Raises:
        TextError: absolute, with `..`, or empty.
    """
    path = PurePosixPath(text)
    if not text or path.is_absolute() or ".." in path.parts or "\\" in text or text.endswith("/"):
        raise TextError(f'"{text}" is not a file of this folder', "write its name, without .. or a leading slash")
