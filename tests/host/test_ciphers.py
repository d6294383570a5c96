"""AES-GCM first where the processor helps and nobody has said otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sistership.host import ciphers
from sistership.host.ciphers import aes_first, has_aes, listed, preferred
from sistership.host.openssh import OpenSSH, argv

CHACHA, GCM, GCM256, CTR = (
    "chacha20-poly1305@openssh.com",
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "aes128-ctr",
)
OWN = (CHACHA, CTR, GCM, GCM256)
BEST = (GCM, GCM256, CHACHA, CTR)


@pytest.mark.parametrize(
    ("system", "cpuinfo", "expected"),
    [
        ("Linux", "model name\t: x\nflags\t\t: fpu vme sse4_2 aes xsave avx\n", True),
        ("Linux", "Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32\n", True),
        ("Linux", "Features\t: fp asimd evtstrm crc32 cpuid\nModel\t: Raspberry Pi 4\n", False),
        ("Linux", "flags\t\t: fpu vaes_like\nmodel name\t: with aes\n", False),
        ("Linux", "", False),
        ("Darwin", "", True),
        ("FreeBSD", "", False),
    ],
)
def test_processors(system: str, cpuinfo: str, expected: bool) -> None:
    """x86 says it in its flags, arm64 in its features, every Mac has it; elsewhere nothing is changed."""
    assert has_aes(system, cpuinfo) is expected


@pytest.mark.parametrize(
    ("own", "configured", "expected"),
    [
        (OWN, OWN, BEST),
        (OWN, (CHACHA,), ()),
        (OWN, (CHACHA, CTR, GCM), ()),
        (OWN, (GCM256, CHACHA), ()),
        (OWN, (), ()),
        ((), (), ()),
        ((CHACHA, CTR), (CHACHA, CTR), ()),
        ((CTR, GCM256), (CTR, GCM256), (GCM256, CTR)),
        (BEST, BEST, ()),
    ],
)
def test_whoever_set_a_list_keeps_it(own: Sequence[str], configured: Sequence[str], expected: Sequence[str]) -> None:
    """Only ssh's own list is put in another order, and nothing is added to it or lost from it."""
    assert aes_first(own, configured) == expected


def test_failing_questions_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ssh that does not answer, or that only answers for itself, is left alone; so is a processor without AES."""
    monkeypatch.setattr(ciphers, "here", lambda: True)
    own = f"host localhost\nciphers {','.join(OWN)}\ncompression no\n"
    assert preferred(lambda _: own, "gpu-b", None) == BEST
    assert preferred(lambda _: "", "gpu-b", None) == ()
    assert preferred(lambda words: own if "localhost" in words else "", "gpu-b", Path("/c")) == ()
    monkeypatch.setattr(ciphers, "here", lambda: False)
    assert preferred(lambda _: own, "gpu-b", None) == ()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Compression yes", False),
        (f"Ciphers {CHACHA},{CTR}", True),
        (f"Ciphers -{GCM}", True),
        (f"Ciphers ^{CTR}", True),
    ],
)
def test_the_real_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, kept: bool) -> None:
    """With this machine's ssh: its own list gets AES-GCM first, a list from ssh_config stays; nothing is compressed."""
    monkeypatch.setattr(ciphers, "here", lambda: True)
    config = tmp_path / "config"
    config.write_text(f"Host gpu-*\n  {text}\n")
    transport = OpenSSH("gpu-b", "gpu-b", config)
    try:
        before = listed(transport._ask(["ssh", "-G", "-F", str(config), "--", "gpu-b"]))
        words = argv("gpu-b", "true", config=config, control=None, ciphers=transport._ciphers)
        shown = transport._ask([words[0], "-G", *words[1:-1]])
    finally:
        transport.close()
    assert "\ncompression no\n" in shown
    assert before
    after = listed(shown)
    assert set(after) == set(before)
    assert after == before if kept else after[0] == GCM
