"""The login to a registry, from where Docker keeps it: its config file and its credential helpers. Nothing is stored.

Rules: docs.docker.com, "docker login", credential stores and helpers; a helper's protocol is that of
github.com/docker/docker-credential-helpers (`get`, the server on standard input, JSON on standard output).
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sistership import trace
from sistership.errors import ShipError
from sistership.registry.place import Place

_TOKEN_USER: Final = "<token>"  # noqa: S105 - what helpers say in place of a user name
_PATIENCE: Final = 60  # seconds that a helper may take; it may ask the user for a PIN


@dataclass(frozen=True)
class Login:
    """User and password, or an identity token that stands for both."""

    user: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """The value of the header `Authorization` for Basic authentication."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def config_file(environ: Mapping[str, str] | None = None) -> Path:
    """Docker's config file: in `DOCKER_CONFIG`, else in `~/.docker`."""
    given = (os.environ if environ is None else environ).get("DOCKER_CONFIG")
    return (Path(given) if given else Path.home() / ".docker") / "config.json"


def find_login(place: Place, path: Path | None = None) -> Login | None:
    """The login for a registry: from the helper for that registry, the common store, or the file itself.

    Raises:
        ShipError: the file cannot be read, or a helper that it names fails.
    """
    path = path or config_file()
    config = _config(path)
    helper = (config.get("credHelpers") or {}).get(place.login) or config.get("credsStore")
    if helper:
        found = _from_helper(str(helper), place, path)
        if found is not None:
            return found
    return _from_file(config.get("auths") or {}, place.login)


def _config(path: Path) -> Mapping[str, Any]:
    try:
        config = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ShipError("Docker's config cannot be read", where=str(path), why=str(error)) from None
    return config if isinstance(config, dict) else {}


def _from_file(auths: Mapping[str, Any], wanted: str) -> Login | None:
    for server, entry in auths.items():
        if _bare(server) != _bare(wanted) or not isinstance(entry, dict):
            continue
        if entry.get("identitytoken"):
            return Login(identity_token=str(entry["identitytoken"]))
        try:
            user, _, password = base64.b64decode(entry.get("auth") or "").decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            continue
        user, password = user or entry.get("username", ""), password or entry.get("password", "")
        if user:
            return Login(str(user), str(password))
    return None


def _bare(server: str) -> str:
    """A server as Docker compares it: without scheme and path."""
    return server.removeprefix("https://").removeprefix("http://").partition("/")[0]


def _from_helper(name: str, place: Place, path: Path) -> Login | None:
    argv = [f"docker-credential-{name}", "get"]
    span = trace.program(argv)
    try:
        done = subprocess.run(argv, input=place.login.encode(), capture_output=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        span.end(None)
        why = error.strerror if isinstance(error, OSError) else f"it did not answer within {_PATIENCE} s"
        raise ShipError(
            f"the credential helper {argv[0]} does not work",
            where=str(path),
            why=why,
            hint=f"install it, or take it out of that file and run: docker login {place.host}",
        ) from None
    span.end(done.returncode)
    try:
        answer = json.loads(done.stdout)
        user, secret = str(answer["Username"]), str(answer["Secret"])
    except (ValueError, KeyError, TypeError):
        # It has no login for this registry, and says so in words that differ from helper to helper.
        return None
    return Login(identity_token=secret) if user == _TOKEN_USER else Login(user, secret)
