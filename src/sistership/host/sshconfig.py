"""ssh_config for a transport that is not ssh: read as ssh reads it (ssh_config(5)), or refused.

`Include`, `Host` and the kinds of `Match` that need no program are followed, the first value wins.
A directive that would change where a connection goes, or how either side proves who it is, and that
cannot be honoured, is refused by name: a guess may reach the wrong machine.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sistership.errors import HostUnfitError

_DEPTH: Final = 16  # of Include, as in ssh


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: What decides a connection and is honoured.
HONOURED: Final = _names(
    "addressfamily ciphers connecttimeout globalknownhostsfile hostkeyalgorithms hostkeyalias hostname identitiesonly "
    "identityagent identityfile kexalgorithms macs port preferredauthentications proxycommand proxyjump "
    "pubkeyacceptedalgorithms pubkeyacceptedkeytypes user userknownhostsfile"
)
#: What does not matter to a script without a terminal, or where this transport is stricter anyway.
HARMLESS: Final = _names(
    "addkeystoagent batchmode canonicaldomains canonicalizefallbacklocal canonicalizemaxdots "
    "canonicalizepermittedcnames casignaturealgorithms challengeresponseauthentication channeltimeout checkhostip "
    "clearallforwardings compression connectionattempts controlmaster controlpath controlpersist dynamicforward "
    "enableescapecommandline enablesshkeysign escapechar exitonforwardfailure fingerprinthash forkafterauthentication "
    "forwardagent forwardx11 forwardx11timeout forwardx11trusted gatewayports gssapiauthentication "
    "gssapidelegatecredentials hashknownhosts hostbasedacceptedalgorithms hostbasedauthentication "
    "hostbasedkeytypes ignoreunknown ipqos kbdinteractiveauthentication kbdinteractivedevices localcommand "
    "localforward loglevel logverbose nohostauthenticationforlocalhost numberofpasswordprompts "
    "obscurekeystroketiming passwordauthentication permitlocalcommand permitremoteopen rekeylimit remotecommand "
    "remoteforward requesttty sendenv serveralivecountmax serveraliveinterval sessiontype setenv stdinnull "
    "streamlocalbindmask streamlocalbindunlink stricthostkeychecking syslogfacility tcpkeepalive tunnel tunneldevice "
    "updatehostkeys usekeychain verifyhostkeydns versionaddendum visualhostkey xauthlocation"
)
#: What is fine with these values alone.
ONLY: Final[Mapping[str, tuple[str, ...]]] = {
    "canonicalizehostname": ("no",),
    "certificatefile": ("none",),
    "knownhostscommand": ("none",),
    "pkcs11provider": ("none",),
    "proxyusefdpass": ("no",),
    "pubkeyauthentication": ("yes", "unbound", "host-bound"),
    "revokedhostkeys": ("none",),
    "securitykeyprovider": ("internal", "none"),
}
_MANY: Final = frozenset({"identityfile"})
_LINE: Final = re.compile(r"\s*([^\s=#]+)\s*=?\s*(.*)")
_WORD: Final = re.compile(r'"((?:\\.|[^"\\])*)"|\'((?:\\.|[^\'\\])*)\'|(#.*)|((?:\\[ "\'\\]|[^\s"\'])+)')


@dataclass(frozen=True)
class Value:
    """The arguments of a directive, and the line it stands on (`file:line: text`)."""

    words: tuple[str, ...]
    line: str

    @property
    def text(self) -> str:
        """All of it, for directives of one argument."""
        return " ".join(self.words)


@dataclass
class Config:
    """What an ssh configuration says of one destination, the first value of each directive."""

    host: str
    destination: str
    values: dict[str, Value] = field(default_factory=dict)
    many: dict[str, list[Value]] = field(default_factory=dict)

    def get(self, name: str) -> str | None:
        """The first value of a directive."""
        value = self.values.get(name)
        return value.text if value else None

    def refuse(self, what: str, line: str | None) -> HostUnfitError:
        """The error for something that cannot be honoured."""
        return HostUnfitError(
            f"{what} in its ssh configuration cannot be honoured without the ssh program",
            where=self.host,
            why=line,
            hint="install OpenSSH's client (transport: openssh), or give this host an `ssh_config:` without that",
        )


def read(
    host: str, destination: str, user: str | None, files: Sequence[Path], *, home: Path, local_user: str
) -> Config:
    """What `files` say of a destination.

    Args:
        host: the name in the inventory, for errors.
        destination: what ssh would be called with, without user and port.
        user: the user that stood before it, if one did.
        files: configuration files in the order in which ssh reads them.
        home: the user's home; relative names of an Include start in its `.ssh`.
        local_user: who we are here.

    Raises:
        HostUnfitError: a directive or condition that cannot be honoured applies, or may apply.
    """
    config = Config(host, destination)
    reader = _Reader(config, given_user=user, local_user=local_user, home=home)
    for file in files:
        reader.file(file, active=True, depth=0)
    _check(config, reader.ignored)
    return config


class _Reader:
    def __init__(self, config: Config, *, given_user: str | None, local_user: str, home: Path) -> None:
        self._config = config
        self._given_user = given_user
        self._local_user = local_user
        self._home = home
        self.ignored: list[str] = []

    def file(self, path: Path, *, active: bool, depth: int) -> None:
        """Read one file; `active` says whether the block that includes it applies."""
        try:
            lines = path.read_text(errors="replace").splitlines()
        except OSError:
            return
        applies = active
        for number, text in enumerate(lines, start=1):
            words = self._words(text, f"{path}:{number}: {text.strip()}")
            if not words:
                continue
            keyword, value = words
            if keyword == "host":
                applies = active and matches(value.words, self._config.destination)
            elif keyword == "match":
                applies = active and self._match(value)
            elif keyword == "include":
                for pattern in value.words:
                    self._include(pattern, path, active=applies, depth=depth)
            elif applies:
                self._take(keyword, value)

    def _words(self, text: str, line: str) -> tuple[str, Value] | None:
        found = _LINE.match(text)
        if found is None:
            return None
        keyword, rest = found.groups()
        words: list[str] = []
        for double, single, comment, plain in _WORD.findall(rest):
            if comment:
                break
            words.append(re.sub(r'\\([ "\'\\])', r"\1", double or single or plain))
        return keyword.strip('"').lower(), Value(tuple(words), line)

    def _include(self, pattern: str, file: Path, *, active: bool, depth: int) -> None:
        if depth >= _DEPTH:
            raise self._config.refuse("Include more than 16 deep", str(file))
        system = file.is_relative_to("/etc/ssh")
        if pattern.startswith("~/"):
            pattern = f"{self._home}{pattern[1:]}"
        path = Path("/etc/ssh" if system else self._home / ".ssh") / pattern
        for found in sorted(glob.glob(str(path))):  # noqa: PTH207 - an absolute pattern
            self.file(Path(found), active=active, depth=depth + 1)

    def _take(self, keyword: str, value: Value) -> None:
        if keyword in _MANY:
            self._config.many.setdefault(keyword, []).append(value)
            return
        if keyword == "ignoreunknown":
            self.ignored += re.split(r"[,\s]+", value.text.lower())
        # ssh keeps one of these two, whichever comes first; even `none` counts.
        if keyword in {"proxyjump", "proxycommand"} and {"proxyjump", "proxycommand"} & self._config.values.keys():
            return
        self._config.values.setdefault(keyword, value)

    def _match(self, value: Value) -> bool:
        """Whether a Match line applies, judged from left to right as ssh does, with the values known so far."""
        words = list(value.words)
        while words:
            criterion = words.pop(0)
            name, wanted = criterion.lstrip("!").lower(), not criterion.startswith("!")
            if name == "all":
                found = True
            elif name in self._subjects() and words:
                found = matches(words.pop(0).split(","), self._subjects()[name])
            else:
                raise self._config.refuse(f"Match {criterion}", value.line)
            if found is not wanted:
                return False
        return True

    def _subjects(self) -> Mapping[str, str]:
        destination = self._config.destination
        return {
            "host": (self._config.get("hostname") or destination).replace("%h", destination).lower(),
            "originalhost": destination.lower(),
            "user": self._given_user or self._config.get("user") or self._local_user,
            "localuser": self._local_user,
        }


def matches(patterns: Sequence[str], name: str) -> bool:
    """Whether a list of patterns (`*`, `?`, `!` leaves out) takes a name."""
    taken = False
    for pattern in patterns:
        if _glob(pattern.removeprefix("!"), name):
            if pattern.startswith("!"):
                return False
            taken = True
    return taken


def _glob(pattern: str, name: str) -> bool:
    parts = (".*" if part == "*" else "." if part == "?" else re.escape(part) for part in re.split(r"([*?])", pattern))
    return re.fullmatch("".join(parts), name, re.DOTALL) is not None


def _check(config: Config, ignored: Sequence[str]) -> None:
    """Refuse what applies and cannot be honoured."""
    for keyword, value in config.values.items():
        name = value.line.split(": ", 1)[1].split()[0].split("=")[0]
        if keyword in ONLY:
            if value.text.lower() not in ONLY[keyword]:
                raise config.refuse(name, value.line)
        elif keyword not in HONOURED | HARMLESS and not matches(ignored, keyword):
            raise config.refuse(name, value.line)
    command = config.values.get("proxycommand")
    if command and command.text.lower() != "none":
        raise config.refuse("ProxyCommand", command.line)
    ways = config.values.get("preferredauthentications")
    if ways and "publickey" not in ways.text.lower().split(","):
        raise config.refuse("PreferredAuthentications without publickey", ways.line)


def expand(config: Config, value: Value, tokens: Mapping[str, str], home: Path) -> str:
    """A value with its `%` tokens, `${VARIABLES}` and a leading `~` replaced.

    Raises:
        HostUnfitError: it has a token that is not known here.
    """

    def token(found: re.Match[str]) -> str:
        if found[1] == "%":
            return "%"
        if found[1] not in tokens:
            raise config.refuse(f"the token %{found[1]}", value.line)
        return tokens[found[1]]

    text = re.sub(r"%(.)", token, value.text)
    text = re.sub(r"\$\{(\w+)\}", lambda found: os.environ.get(found[1], ""), text)
    return f"{home}{text[1:]}" if text == "~" or text.startswith("~/") else text


def jumps(text: str) -> Iterator[str]:
    """The destinations of a ProxyJump, in order."""
    for hop in text.split(","):
        if hop.strip() and hop.strip().lower() != "none":
            yield hop.strip()


def split_destination(text: str) -> tuple[str | None, str, int | None]:
    """User, host and port of `user@host`, `user@host:port`, `[address]:port` or `ssh://user@host:port`."""
    text = text.removeprefix("ssh://").rstrip("/")
    user, _, rest = text.rpartition("@")
    found = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?|([^:]+)(?::(\d+))?", rest)
    if found is None:  # a bare IPv6 address
        return user or None, rest, None
    port = found[2] or found[4]
    return user or None, found[1] or found[3], int(port) if port else None
