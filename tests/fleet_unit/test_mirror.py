"""Which Debian mirror is taken from apt's sources."""

from __future__ import annotations

import pytest

from sistership.fleet import mirror

BOOKWORM = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_CODENAME=bookworm\n'

DEB822 = """\
Types: deb
# http://snapshot.example/archive
URIs: http://mirror.example/debian/
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
"""


def _etc(tmp_path, release=BOOKWORM, **files):
    apt = tmp_path / "apt" / "sources.list.d"
    apt.mkdir(parents=True)
    (tmp_path / "os-release").write_text(release)
    for name, text in files.items():
        (apt / name.replace("_", ".")).write_text(text)
    return tmp_path


def test_deb822_source(tmp_path):
    """Debian's own archive is found in a .sources file, without its slash; security and comments are not taken."""
    assert mirror.find(_etc(tmp_path, debian_sources=DEB822), {}) == "http://mirror.example/debian"


def test_one_line_source(tmp_path):
    """The old one-line format works too, with options in brackets."""
    etc = _etc(tmp_path)
    (etc / "apt" / "sources.list").write_text(
        "# deb http://commented.example/debian bookworm main\n"
        "deb-src http://source.example/debian bookworm main\n"
        "deb [arch=amd64 signed-by=/usr/share/keyrings/x.gpg] https://one.example/debian bookworm main contrib # yes\n"
    )
    assert mirror.find(etc, {}) == "https://one.example/debian"


@pytest.mark.parametrize(
    "line",
    [
        "deb https://vendor.example/linux bookworm stable",
        "deb https://vendor.example/apt vendor-bookworm main",
        "deb http://mirror.example/debian-security bookworm-security main",
        "deb cdrom:[Debian]/ bookworm main",
    ],
)
def test_other_archives_are_not_the_mirror(tmp_path, line):
    """A vendor's archive, security updates or a disc are not taken for Debian's mirror."""
    assert mirror.find(_etc(tmp_path, vendor_list=line + "\n"), {}) is None


def test_debians_path_wins(tmp_path):
    """Of two that fit, the one whose path is Debian's is taken, whatever the order."""
    other = "deb http://vendor.example/extras bookworm main\n"
    assert mirror.find(_etc(tmp_path, aaa_list=other, debian_sources=DEB822), {}) == "http://mirror.example/debian"


def test_disabled_source_is_left_out(tmp_path):
    """`Enabled: no` is honoured."""
    text = DEB822.replace("Components: main", "Components: main\nEnabled: no", 1)
    assert mirror.find(_etc(tmp_path, debian_sources=text), {}) is None


def test_ubuntu_has_no_debian_mirror(tmp_path):
    """On Ubuntu its own mirror is no use: mmdebstrap's default is taken."""
    release = "ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n"
    source = DEB822.replace("bookworm", "noble")
    assert mirror.find(_etc(tmp_path, release, ubuntu_sources=source), {}) is None


def test_environment_wins(tmp_path):
    """SISTERSHIP_MIRROR overrides what apt says."""
    etc = _etc(tmp_path, debian_sources=DEB822)
    assert mirror.find(etc, {"SISTERSHIP_MIRROR": "http://mine.example/debian/"}) == "http://mine.example/debian"


def test_no_apt_at_all(tmp_path):
    """A machine without os-release or apt has no mirror, and that is no error."""
    assert mirror.find(tmp_path, {}) is None
