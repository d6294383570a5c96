"""Every transport tells its scripts."""

from __future__ import annotations

from sistership import trace
from sistership.host.inventory import connect
from sistership.matrix.model import Host


def test_scripts_are_told_with_their_host() -> None:
    """A peer of the inventory tells script, status and standard error, and nothing that went in."""
    found: list[trace.Started | trace.Ended] = []
    peer = connect(Host("here", local=True))
    with trace.observed(found.append):
        done = peer.transport.run("echo out; echo words >&2; exit 3", stdin=b"secret")
    peer.transport.close()
    assert (peer.transport.host, done.status, done.text) == ("here", 3, "out\n")
    script = next(each for each in found if isinstance(each, trace.Started) and each.script)
    ended = next(each for each in found if isinstance(each, trace.Ended) and each.number == script.number)
    assert (script.host, script.script) == ("here", "echo out; echo words >&2; exit 3")
    assert (ended.status, ended.err) == (3, "words\n")
    assert "secret" not in repr(found)
