"""ssh_config without ssh: the same answers as `ssh -G`, or a refusal."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sistership.errors import HostUnfitError
from sistership.host.settings import allowed, resolve
from sistership.host.sshconfig import jumps, matches, split_destination

EXTRA = """
Host gpu-b
    HostName 10.9.9.9
    Port 2201
Host *.lan
    User lan
"""
CONFIG = """
# a comment
Include {folder}/extra.conf {folder}/missing.conf
Host gpu-* !gpu-c
    HostName %h.lan.example   # another comment
    IdentityFile "{folder}/my keys/%r@%n"
    IdentityFile ~/.ssh/second
Host gpu-c
    HostName=10.0.0.3
    User = carol
    ProxyJump edge-a,bob@edge-b:2222
    UserKnownHostsFile "{folder}/a b" {folder}/c
Match originalhost web-*,db-* user root
    Port 2022
Match host 10.0.0.3
    ConnectTimeout 3
Match !localuser nobody-here
    ServerAliveInterval 7
Host inside
    Include {folder}/inner.conf
    Port 99
Host *
    User everyone
    IdentitiesOnly yes
    IdentityAgent {folder}/agent.sock
"""
INNER = """
User inner
Host other
    Port 98
Host *
    HostKeyAlias known-by-this
"""
NAMES = ("gpu-a", "gpu-b", "gpu-c", "root@web-1", "web-1", "x.lan", "inside", "other", "root@10.1.1.1", "ssh://u@h:77")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration with most of what people write."""
    (tmp_path / "extra.conf").write_text(EXTRA)
    (tmp_path / "inner.conf").write_text(INNER)
    path = tmp_path / "config"
    path.write_text(CONFIG.format(folder=tmp_path))
    return path


def ssh_says(config: Path, name: str) -> dict[str, list[str]]:
    """`ssh -G`: keyword → values."""
    argv = ["ssh", "-G", "-F", str(config), "--", name]
    said: dict[str, list[str]] = {}
    for line in subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines():
        key, _, value = line.partition(" ")
        said.setdefault(key, []).append(value)
    return said


@pytest.mark.parametrize("name", NAMES)
def test_the_same_as_ssh(config: Path, name: str) -> None:
    """Include, Host, Match, tokens, quotes and first-wins give what the ssh program finds (case C43)."""
    ours, theirs = resolve("h", name, config), ssh_says(config, name)
    assert ours.hostname == theirs["hostname"][0]
    assert str(ours.port) == theirs["port"][0]
    assert ours.user == theirs["user"][0]
    assert ours.alias == (theirs.get("hostkeyalias") or [None])[0]
    assert ",".join(ours.jumps) == (theirs.get("proxyjump") or [""])[0]
    assert ours.only is (theirs["identitiesonly"] == ["yes"])
    assert ours.agent == theirs["identityagent"][0]
    assert ours.timeout == {"none": 10.0}.get(theirs["connecttimeout"][0]) or float(theirs["connecttimeout"][0])
    known = " ".join(map(str, ours.known))
    assert " ".join(theirs["userknownhostsfile"]).replace("~", str(Path.home())) in known


def test_key_files_have_their_tokens(config: Path) -> None:
    """`%r` and `%n` in IdentityFile are replaced, `~` too, and every one of them counts."""
    assert resolve("h", "gpu-a", config).keys == (
        config.parent / "my keys" / "everyone@gpu-a",
        Path.home() / ".ssh" / "second",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ProxyCommand nc %h %p", "ProxyCommand"),
        ("ProxyCommand none\nProxyJump edge\nCertificateFile ~/.ssh/c-cert.pub", "CertificateFile"),
        ("PKCS11Provider /lib/p.so", "PKCS11Provider"),
        ("KnownHostsCommand /bin/x", "KnownHostsCommand"),
        ("RevokedHostKeys /etc/r", "RevokedHostKeys"),
        ("CanonicalizeHostname yes", "CanonicalizeHostname"),
        ("PubkeyAuthentication no", "PubkeyAuthentication"),
        ("PreferredAuthentications password", "PreferredAuthentications"),
        ("BindAddress 10.0.0.1", "BindAddress"),
        ("SomethingOf2031 yes", "SomethingOf2031"),
        ('Match exec "test -f /x"\nPort 5', "Match exec"),
        ("Match host h final\nPort 5", "Match final"),
        ("IdentityFile /k/%Z", "%Z"),
    ],
)
def test_what_cannot_be_honoured_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """A directive that decides where we go or who we are, and that we cannot follow, is named with its line."""
    config = tmp_path / "config"
    config.write_text(text + "\n")
    with pytest.raises(HostUnfitError) as caught:
        resolve("gpu-b", "h", config)
    assert words in caught.value.what
    assert f"{config}:" in (caught.value.why or "")
    assert "transport: openssh" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "text",
    [
        "Host elsewhere\nProxyCommand nc %h %p",
        'Match host elsewhere exec "test -f /x"\nPort 5',
        "IgnoreUnknown SomethingOf*\nSomethingOf2031 yes",
        "ProxyJump none\nProxyCommand nc %h %p",
        "ControlPath /very/long/%C\nForwardAgent yes\nStrictHostKeyChecking no\nSendEnv LANG",
        "ProxyCommand none",
        "CertificateFile none",
    ],
)
def test_what_does_not_apply_or_matter_is_no_obstacle(tmp_path: Path, text: str) -> None:
    """Blocks of other hosts, conditions already false, and directives without effect here are passed over."""
    config = tmp_path / "config"
    config.write_text(text + "\n")
    settings = resolve("gpu-b", "h", config)
    assert (settings.hostname, settings.port, settings.jumps) == ("h", 22, ())


def test_agent_from_variable_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """IdentityAgent knows `none`, `$VARIABLE` and `SSH_AUTH_SOCK`; without it the usual variable counts (case C45)."""
    monkeypatch.setenv("SSH_AUTH_SOCK", "/usual")
    monkeypatch.setenv("OTHER", "/other")
    config = tmp_path / "config"
    for line, agent in (("", "/usual"), ("none", None), ("$OTHER", "/other"), ("SSH_AUTH_SOCK", "/usual")):
        config.write_text(f"IdentityAgent {line}\n" if line else "")
        assert resolve("h", "h", config).agent == agent


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, ("a1", "b2", "c3")),
        ("c3,a1", ("c3", "a1")),
        ("+d4", ("a1", "b2", "c3")),
        ("-b*", ("a1", "c3")),
        ("^c3", ("c3", "a1", "b2")),
        ("nothing", ()),
    ],
)
def test_lists_of_algorithms(text: str | None, expected: tuple[str, ...]) -> None:
    """A user's list of ciphers and the like narrows and orders ours, and never adds one that they left out."""
    assert allowed(("a1", "b2", "c3"), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("host", (None, "host", None)),
        ("u@host:7", ("u", "host", 7)),
        ("fe80::1", (None, "fe80::1", None)),
        ("u@::1", ("u", "::1", None)),
        ("[::1]:2222", (None, "::1", 2222)),
        ("ssh://a@b@host:9/", ("a@b", "host", 9)),
    ],
)
def test_destinations(text: str, expected: tuple[str | None, str, int | None]) -> None:
    """User, name and port of every way to write a destination, IPv6 too."""
    assert split_destination(text) == expected


def test_jumps_in_order() -> None:
    """Hops come in the order written; `none` is no hop (case C47)."""
    assert tuple(jumps("edge-a, bob@edge-b:22")) == ("edge-a", "bob@edge-b:22")
    assert tuple(jumps("none")) == ()


def test_patterns() -> None:
    """`*`, `?` and `!` as ssh_config(5) has them; other characters stand for themselves."""
    assert matches(["gpu-?"], "gpu-a")
    assert not matches(["gpu-?"], "gpu-ab")
    assert not matches(["*", "!gpu-a"], "gpu-a")
    assert not matches(["a.b"], "axb")
