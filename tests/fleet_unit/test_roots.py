"""Root filesystems."""

from __future__ import annotations

import io
import shutil
import threading

import pytest

from sistership.errors import HostUnfitError
from sistership.fleet import process, roots
from sistership.fleet.paths import State
from sistership.fleet.spec import Root

ROOT = Root("trixie", ("zstd", "docker.io"))


def test_argv():
    """mmdebstrap gets the packages sorted, the mirror last, and leaves out what names this machine."""
    argv = roots.argv(ROOT, "http://mirror.example/debian")
    assert argv[-3:] == ["trixie", "-", "http://mirror.example/debian"]
    assert "--include=docker.io,zstd" in argv
    assert "--variant=minbase" in argv
    assert any("resolv.conf" in word and "hostname" in word for word in argv)


def test_argv_without_mirror():
    """Where no mirror is known, mmdebstrap takes its own default."""
    assert roots.argv(ROOT, None)[-2:] == ["trixie", "-"]


def test_argv_with_options():
    """Settings of this machine's apt are handed on, each as a word of its own."""
    argv = roots.argv(ROOT, None, ('Acquire::http::Proxy "http://p:3142"', 'Acquire::Check-Valid-Until "false"'))
    assert '--aptopt=Acquire::http::Proxy "http://p:3142"' in argv
    assert '--aptopt=Acquire::Check-Valid-Until "false"' in argv


@pytest.mark.skipif(not shutil.which("apt-config"), reason="only where there is apt")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Acquire::Check-Valid-Until "no";\nAcquire::Retries "3";\n', ('Acquire::Check-Valid-Until "no"',)),
        ('Acquire::http::Proxy "http://p:3142";\n', ('Acquire::http::Proxy "http://p:3142"',)),
        ('Acquire::http::Proxy "";\n', ()),
    ],
)
def test_apt_options(tmp_path, monkeypatch, text, expected):
    """What this machine's apt needs for its mirror comes from apt itself, and nothing else does."""
    config = tmp_path / "apt.conf"
    config.write_text(f'Dir::Etc::Main "/dev/null";\nDir::Etc::Parts "/dev/null";\n{text}')
    monkeypatch.setenv("APT_CONFIG", str(config))
    assert roots.apt_options() == expected


def test_apt_options_without_apt(monkeypatch):
    """A machine without apt has no such settings."""
    monkeypatch.setenv("PATH", "")
    assert roots.apt_options() == ()


def test_key_follows_the_packages():
    """The cache key does not depend on the packages' order, but on what they are."""
    assert Root("trixie", ("docker.io", "zstd")).key == ROOT.key
    assert Root("trixie", ("docker.io",)).key != ROOT.key
    assert Root("bookworm", ROOT.packages).key != ROOT.key


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A state whose root filesystems unpack to a few bytes."""
    monkeypatch.setattr(roots, "debootstrap", lambda root, sink, state, stop: sink.write(b"tar" * 1000))
    return State(tmp_path)


def test_tarball_is_cached(home):
    """The tarball is packed once, holds the tar, and a second call says and does nothing."""
    said: list[str] = []
    path = roots.tarball(ROOT, home, threading.Event(), said.append)
    assert b"".join(roots.unpacked(path)) == b"tar" * 1000
    assert roots.tarball(ROOT, home, threading.Event(), said.append) == path
    assert len(said) == 1


def test_interrupted_tarball_leaves_nothing(home, monkeypatch):
    """After a failure half-way no file has the cached name, and no other is left."""

    def fail(_root, sink, _state, _stop):
        sink.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(roots, "debootstrap", fail)
    with pytest.raises(KeyboardInterrupt):
        roots.tarball(ROOT, home, threading.Event(), print)
    assert list(home.roots.iterdir()) == []


def test_missing_mmdebstrap(tmp_path, monkeypatch):
    """Without mmdebstrap the error says what to install."""
    monkeypatch.setattr(process.shutil, "which", lambda *_, **__: None)
    with pytest.raises(HostUnfitError) as caught:
        roots.debootstrap(ROOT, io.BytesIO(), State(tmp_path), threading.Event())
    assert caught.value.hint == "apt-get install mmdebstrap"
    assert caught.value.code == 21


@pytest.mark.parametrize(
    ("log", "hint"),
    [
        ("W: GPG error: NO_PUBKEY 0123", "debian-archive-keyring"),
        ("E: newuidmap not found", "uidmap"),
        ("cannot write: No space left on device", "disk"),
        ("E: Release file for http://m/InRelease is expired (invalid since 23d).", "Check-Valid-Until"),
        ("E: Failed to fetch", "SISTERSHIP_MIRROR"),
    ],
)
def test_known_causes(log, hint):
    """A failed mmdebstrap ends with its last lines and the next step that fits."""
    error = roots.explain(ROOT, log)
    assert log in str(error)
    assert hint in str(error.hint)
