"""Logins as Docker keeps them; challenges as registries write them; names as engines read them."""

from __future__ import annotations

import base64
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sistership.errors import ShipError
from sistership.registry.challenge import Challenge, challenges, chosen, scope
from sistership.registry.client import LONGEST, back_off, reason, retry_after
from sistership.registry.login import Login, find_login
from sistership.registry.place import Place, is_loopback
from sistership.registry.wire import Answer, Wire

PLACE = Place("registry.example:5000", "team/app")


def written(folder: Path, **config: object) -> None:
    """Docker's config file."""
    (folder / "config.json").write_text(json.dumps(config))


def encoded(text: str) -> str:
    """Base64, as Docker writes a login."""
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "key", ["registry.example:5000", "https://registry.example:5000", "https://registry.example:5000/v2/"]
)
def test_login_is_found_under_each_spelling(docker_config: Path, key: str) -> None:
    """Host, address, and address with a path are one registry."""
    written(docker_config, auths={"other.example": {"auth": encoded("x:y")}, key: {"auth": encoded("anna:a:b")}})
    assert find_login(PLACE) == Login("anna", "a:b")


def test_no_login_is_none(docker_config: Path) -> None:
    """No file, and no entry: anonymous."""
    assert find_login(PLACE) is None
    written(docker_config, auths={"other.example": {"auth": encoded("x:y")}})
    assert find_login(PLACE) is None


def test_hub_is_known_by_its_old_address(docker_config: Path) -> None:
    """Docker keeps Docker Hub's login under index.docker.io, and reaches it at registry-1."""
    written(docker_config, auths={"https://index.docker.io/v1/": {"auth": encoded("anna:b")}})
    hub = Place("docker.io", "anna/app")
    assert find_login(hub) == Login("anna", "b")
    assert hub.server == "registry-1.docker.io"


def test_identity_token_stands_for_the_password(docker_config: Path) -> None:
    """As Azure's and others' `docker login` leave it."""
    written(docker_config, auths={PLACE.host: {"auth": encoded("0:"), "identitytoken": "secret"}})
    assert find_login(PLACE) == Login(identity_token="secret")


def helper(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A credential helper on the PATH."""
    program = folder / f"docker-credential-{name}"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_helper_is_asked_by_its_protocol(docker_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry's own helper goes before the common store; the server comes on standard input."""
    script = 'read -r server; [ "$1" = get ] && printf \'{"Username":"anna","Secret":"%s"}\' "$server"'
    helper(docker_config, "own", script, monkeypatch)
    written(docker_config, credsStore="absent", credHelpers={PLACE.host: "own"})
    assert find_login(PLACE) == Login("anna", "registry.example:5000")


def test_helper_without_this_login_falls_back_to_the_file(docker_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so in words and fails; that is no error."""
    helper(docker_config, "own", "echo 'credentials not found in native keychain'; exit 1", monkeypatch)
    written(docker_config, credsStore="own", auths={PLACE.host: {"auth": encoded("anna:b")}})
    assert find_login(PLACE) == Login("anna", "b")


def test_helper_that_is_not_installed_is_named(docker_config: Path) -> None:
    """The message says which program the file asks for."""
    written(docker_config, credsStore="nowhere")
    with pytest.raises(ShipError, match="docker-credential-nowhere"):
        find_login(PLACE)


def test_damaged_config_is_named(docker_config: Path) -> None:
    """No guess about a file that cannot be read."""
    (docker_config / "config.json").write_text("{")
    with pytest.raises(ShipError, match="cannot be read"):
        find_login(PLACE)


def test_passwords_show_in_no_repr() -> None:
    """A login that ends up in a log shows who, never the secret."""
    assert "secret" not in repr(Login("anna", "secret", "secret"))


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ('Basic realm="x"', ("basic", {"realm": "x"})),
        (
            'Bearer realm="https://auth.example/token",service="registry",scope="repository:a/b:pull,push"',
            (
                "bearer",
                {"realm": "https://auth.example/token", "service": "registry", "scope": "repository:a/b:pull,push"},
            ),
        ),
        (
            'Basic realm="a, b", Bearer realm="https://t", error=invalid_token',
            ("bearer", {"realm": "https://t", "error": "invalid_token"}),
        ),
        ('Digest realm="x", BASIC realm="say \\"y\\""', ("basic", {"realm": 'say "y"'})),
    ],
)
def test_challenge_is_read(header: str, found: tuple[str, dict[str, str]]) -> None:
    """Commas and quotes inside values, several schemes in one header, a token before Basic."""
    answer = chosen(header)
    assert answer is not None
    assert (answer.scheme, answer.parameters) == found


@pytest.mark.parametrize("header", ["", "Negotiate", "%%%", "Bearer", 'Basic realm="'])
def test_odd_challenges_do_not_fail(header: str) -> None:
    """A header that makes no sense gives what can be read of it."""
    assert isinstance(challenges(header), tuple)


def test_token_is_asked_for_every_scope() -> None:
    """Pushing here and reading there are two scopes of one token; the realm keeps its own query."""
    asked = Challenge("bearer", {"realm": "https://auth.example/token?a=1", "service": "my registry"})
    url = asked.token_url([scope("a/b", push=True), scope("c", push=False)])
    assert url == (
        "https://auth.example/token?a=1&service=my+registry&scope=repository%3Aa%2Fb%3Apull%2Cpush&scope=repository%3Ac%3Apull"
    )


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True), ("localhost:5000", True), ("127.0.0.1:5000", True), ("127.8.9.1", True),
        ("[::1]:5000", True),
        ("localhost.example", False), ("registry.lan:5000", False), ("10.0.0.1", False), ("128.0.0.1:5000", False),
    ],
)  # fmt: skip
def test_loopback_is_only_this_machine(host: str, loopback: bool) -> None:
    """Plain HTTP needs no leave where no network is between."""
    assert is_loopback(host) is loopback


def test_login_goes_to_no_other_host() -> None:
    """An upload may lead to a store elsewhere; its address is taken, the login stays here, plain HTTP is refused."""
    wire = Wire(PLACE)
    assert wire.resolve("/v2/team/app/blobs/uploads/1?_state=x") == (
        "https://registry.example:5000/v2/team/app/blobs/uploads/1?_state=x"
    )
    assert wire.resolve("http://registry.example:5000/v2/u").startswith("https://registry.example:5000/")
    assert not wire.is_own(wire.resolve("https://store.example/bucket?signature=x"))
    with pytest.raises(ShipError, match="plain HTTP"):
        wire.resolve("http://store.example/bucket")


def test_retry_after_is_read_both_ways() -> None:
    """Seconds, a date, nonsense; never longer than a minute."""
    now = datetime(2026, 5, 1, 10, 0, 0, tzinfo=UTC)
    for text, seconds in {
        "3": 3.0,
        "Fri, 01 May 2026 10:00:05 GMT": 5.0,
        "Fri, 01 May 2026 09:00:00 GMT": 0.0,
        "99999": LONGEST,
        "soon": back_off(2),
        "": back_off(2),
    }.items():
        assert retry_after(Answer(429, {"retry-after": text}), 2, now) == seconds, text


def test_reason_says_what_the_registry_says() -> None:
    """Its own error document where there is one, a proxy's first line otherwise."""
    denied = b'{"errors":[{"code":"DENIED","message":"requested access is denied"}]}'
    assert reason(Answer(403, {}, denied)) == "HTTP 403, DENIED: requested access is denied"
    assert reason(Answer(502, {}, b"<html>\nbad")) == "HTTP 502, <html>"
    assert reason(Answer(500, {})) == "HTTP 500"
