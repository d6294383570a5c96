"""The transport that needs no ssh program, against a server in this process."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko
import pytest

from sistership.errors import HostUnfitError, HostUnreachableError, SistershipError, StoppedError
from sistership.host.filepart import FilePart
from sistership.host.knownhosts import fingerprint
from sistership.host.paramiko_ssh import ParamikoSSH

_SPEC = importlib.util.spec_from_file_location("sshserver", Path(__file__).with_name("sshserver.py"))
assert _SPEC
assert _SPEC.loader
sshserver = importlib.util.module_from_spec(_SPEC)
sys.modules["sshserver"] = sshserver
_SPEC.loader.exec_module(sshserver)


@dataclass
class Way:
    """A server, our files, and transports to it."""

    server: sshserver.Server
    folder: Path
    key: paramiko.PKey
    made: list[ParamikoSSH]

    def config(self, text: str = "", *, first: str = "") -> Path:
        """An ssh_config for the alias `gpu-b`."""
        path = self.folder / "config"
        path.write_text(
            f"{first}\nHost gpu-b\n  HostName 127.0.0.1\n  Port {self.server.port}\n  User me\n  {text}\nHost *\n"
            f"  IdentityFile {self.folder}/key\n  UserKnownHostsFile {self.folder}/known_hosts\n"
            "  GlobalKnownHostsFile /dev/null\n  IdentityAgent none\n"
        )
        return path

    def known(self, text: str) -> None:
        """The text of our known_hosts."""
        (self.folder / "known_hosts").write_text(text)

    def transport(self, config: Path | None = None, destination: str = "gpu-b") -> ParamikoSSH:
        """A transport, closed at the end of the test."""
        self.made.append(ParamikoSSH("gpu-b", destination, config or self.config()))
        return self.made[-1]


@pytest.fixture
def way(tmp_path: Path) -> Iterator[Way]:
    """A server that knows our key, and that we know."""
    with sshserver.serving(tmp_path) as server:
        key = sshserver.new_key(tmp_path / "key")
        server.accepted.add(key.asbytes())
        made = Way(server, tmp_path, key, [])
        made.known(server.known)
        yield made
        for transport in made.made:
            transport.close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    """A running ssh-agent; its socket."""
    path = Path(f"/tmp/sship-agent-{os.getpid()}")
    path.unlink(missing_ok=True)
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    while not path.exists():
        time.sleep(0.01)
    yield path
    process.terminate()
    process.wait(5)
    path.unlink(missing_ok=True)


def add(agent: Path, *keys: Path) -> None:
    """Load keys into the agent."""
    argv = ["ssh-add", "-q", *map(str, keys)]
    subprocess.run(argv, env={**os.environ, "SSH_AUTH_SOCK": str(agent)}, check=True, capture_output=True)


def test_scripts_run_over_one_connection(way: Way) -> None:
    """Input, output, status and the tail of standard error come back; the connection is made once."""
    transport = way.transport()
    done = transport.run("cat; echo oops >&2; exit 5", stdin=b"abc")
    assert (done.status, done.out, done.err) == (5, b"abc", "oops\n")
    done = transport.run("yes complaint | head -n 200000 >&2; echo the end >&2")
    assert done.err.endswith("the end\n")
    assert len(done.err) <= 16_384
    chunks: list[int] = []
    assert transport.run("head -c 3000000 /dev/zero", sink=lambda data: chunks.append(len(data))).out == b""
    assert sum(chunks) == 3_000_000
    assert transport.run("wc -c", stdin=(b"x" * 300_000 for _ in range(10))).text.strip() == "3000000"
    assert way.server.logins == 1


def test_part_of_a_file(way: Way) -> None:
    """A file goes from its offset in whole packets, each told when it is sent; what cannot be read is an error here."""
    path = way.folder / "blob"
    path.write_bytes(os.urandom(1_000_000))
    told: list[int] = []
    done = way.transport().run("cat", stdin=FilePart(path, 1000, told.append))
    assert done.out == path.read_bytes()[1000:]
    assert sum(told) == 999_000
    assert set(told[:-1]) == {32_768 - 64}
    assert way.transport().run("wc -c", stdin=FilePart(path, 1_000_000)).text.strip() == "0"
    with pytest.raises(SistershipError, match="cannot be read") as caught:
        way.transport().run("true", stdin=FilePart(way.folder / "none"))
    assert caught.value.where == str(way.folder / "none")
    with pytest.raises(SistershipError, match="changed while it was sent"):
        way.transport().run(f"truncate -s 5 {path}; cat >/dev/null", stdin=FilePart(path))


def test_progress_that_fails(way: Way) -> None:
    """What a progress function raises ends the script and reaches the caller."""

    def fail(_: int) -> None:
        raise ValueError("no board")

    path = way.folder / "blob"
    path.write_bytes(bytes(100_000))
    with pytest.raises(ValueError, match="no board"):
        way.transport().run("cat >/dev/null; sleep 60", stdin=FilePart(path, 0, fail))


def test_several_scripts_at_once(way: Way) -> None:
    """Threads share the connection: each gets its own answer."""
    transport = way.transport()
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        answers[number] = transport.run(f"sleep 0.1; echo {number}").text.strip()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: str(number) for number in range(6)}
    assert way.server.logins == 1


def test_unknown_key_is_refused(way: Way) -> None:
    """A host that is not in known_hosts is refused with its fingerprint, and known_hosts stays as it was."""
    way.known("other ssh-ed25519 AAAA\n")
    with pytest.raises(HostUnreachableError, match="not known here") as caught:
        way.transport().run("true")
    assert fingerprint(way.server.host_key.asbytes()) in str(caught.value)
    assert (way.folder / "known_hosts").read_text() == "other ssh-ed25519 AAAA\n"
    assert not way.server.offered


def test_changed_key_is_refused_with_both_fingerprints(way: Way) -> None:
    """Another key than the known one: both fingerprints, the cure, no login tried (case C49)."""
    name = way.server.known.split()[0]
    way.known(f"{name} ssh-ed25519 {way.key.get_base64()}\n")
    with pytest.raises(HostUnreachableError, match="host key changed; nothing was sent") as caught:
        way.transport().run("true")
    text = str(caught.value)
    assert fingerprint(way.server.host_key.asbytes()) in text
    assert fingerprint(way.key.asbytes()) in text
    assert f"-R '{name}'" in text
    assert caught.value.code == 20
    assert not way.server.offered


def test_revoked_key_is_refused(way: Way) -> None:
    """A revoked key does not count, even where it is known too."""
    way.known(f"{way.server.known}@revoked * ssh-ed25519 {way.server.host_key.get_base64()}\n")
    with pytest.raises(HostUnreachableError, match="revoked"):
        way.transport().run("true")


def test_host_key_alias(way: Way) -> None:
    """HostKeyAlias is the name that known_hosts is asked for."""
    way.known(f"the-box ssh-ed25519 {way.server.host_key.get_base64()}\n")
    assert way.transport(way.config("HostKeyAlias the-box")).run("true").status == 0


def test_refused_keys_are_named(way: Way) -> None:
    """When no key is taken the error names what was tried and what could not be used."""
    way.server.accepted.clear()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(way.folder / "locked")], check=True)
    config = way.config(f"IdentityFile {way.folder}/locked")
    with pytest.raises(HostUnreachableError, match="refuses our keys") as caught:
        way.transport(config).run("true")
    assert fingerprint(way.key.asbytes()) in str(caught.value)
    assert "locked has a passphrase; load it into an agent" in str(caught.value)


def test_key_in_an_agent_of_its_own(way: Way, agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """IdentityAgent is honoured without SSH_AUTH_SOCK (case C45)."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    add(agent, way.folder / "key")
    (way.folder / "key").unlink()
    config = way.config(f"IdentityAgent {agent}\n  IdentityFile {way.folder}/none-here")
    assert way.transport(config).run("true").status == 0


def test_identities_only_offers_no_other_key(way: Way, agent: Path) -> None:
    """With IdentitiesOnly the agent signs for the key that a file names and none of its other eight is offered."""
    others = [way.folder / f"other{number}" for number in range(8)]
    for other in others:
        sshserver.new_key(other)
    add(agent, *others, way.folder / "key")
    (way.folder / "key").unlink()  # its .pub stays: ssh finds the private half in the agent
    config = way.config(f"IdentityAgent {agent}\n  IdentitiesOnly yes")
    assert way.transport(config).run("true").status == 0
    assert way.server.offered == [way.key.asbytes()]
    way.server.offered.clear()
    named_first = way.config(f"IdentityAgent {agent}")
    assert way.transport(named_first).run("true").status == 0
    assert way.server.offered == [way.key.asbytes()]


def test_accepted_algorithms_decide_which_keys_are_offered(way: Way) -> None:
    """A key whose kind PubkeyAcceptedAlgorithms leaves out is not offered."""
    with pytest.raises(HostUnreachableError, match="refuses our keys"):
        way.transport(way.config("PubkeyAcceptedAlgorithms rsa-sha2-512")).run("true")
    assert not way.server.offered
    assert way.transport(way.config("PubkeyAcceptedAlgorithms +ssh-rsa")).run("true").status == 0


def test_jump_hosts_in_order(way: Way, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Two hops of ProxyJump, each with strict keys and its own settings, lead to the host (case C47)."""
    with (
        sshserver.serving(tmp_path_factory.mktemp("a")) as edge_a,
        sshserver.serving(tmp_path_factory.mktemp("b")) as b,
    ):
        for edge in (edge_a, b):
            edge.accepted.add(way.key.asbytes())
        way.known(way.server.known + edge_a.known + b.known)
        first = f"Host edge-a\n  HostName 127.0.0.1\n  Port {edge_a.port}"
        config = way.config(f"ProxyJump edge-a,127.0.0.1:{b.port}", first=first)
        assert way.transport(config).run("echo there").text == "there\n"
        assert (edge_a.logins, b.logins, way.server.logins) == (1, 1, 1)
        way.known(way.server.known + b.known)
        with pytest.raises(HostUnreachableError, match="not known here"):
            way.transport(config).run("true")


def test_jump_in_a_circle(way: Way) -> None:
    """A jump host that is reached through itself is refused instead of tried for ever."""
    with pytest.raises(HostUnfitError, match="circle"):
        way.transport(way.config("ProxyJump gpu-b")).run("true")


@pytest.mark.parametrize(
    ("destination", "words"),
    [("nobody@name.invalid", "name is not known"), ("127.0.0.1:1", "nothing listens")],
)
def test_no_connection(way: Way, destination: str, words: str) -> None:
    """A name that nobody knows and a port where nobody listens are told apart."""
    with pytest.raises(HostUnreachableError, match=words) as caught:
        way.transport(destination=destination).run("true")
    assert caught.value.where == "gpu-b"
    assert caught.value.hint


def test_silent_port(way: Way) -> None:
    """A port that takes connections and says nothing is given up after ConnectTimeout."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = way.config(f"Compression no\nHost silent\n  HostName 127.0.0.1\n  Port {silent.getsockname()[1]}")
        config.write_text(f"ConnectTimeout 1\n{config.read_text()}")
        started = time.monotonic()
        with pytest.raises(HostUnreachableError, match="no ssh connection"):
            way.transport(config, "silent").run("true")
        assert time.monotonic() - started < 10


def test_cut_and_again(way: Way) -> None:
    """A connection cut in the middle is an error; the next script makes a new one."""
    transport = way.transport()
    way.server.behave = "cut"
    with pytest.raises(HostUnreachableError) as caught:
        transport.run("head -c 500000 /dev/zero")
    assert caught.value.what == "the connection was cut"
    way.server.behave = "run"
    assert transport.run("echo again").text == "again\n"


def test_stall_timeout_and_refusal(way: Way) -> None:
    """A peer that takes no input is stalled, one that never ends has its limit, one without sessions says so."""
    transport = way.transport()
    way.server.behave = "stall"
    with pytest.raises(HostUnreachableError, match="stalled"):
        transport.run("cat", stdin=bytes(8 << 20), stall=0.4)
    with pytest.raises(HostUnreachableError, match=r"no end after 0.4 s"):
        transport.run("true", timeout=0.4)
    way.server.behave = "refuse"
    with pytest.raises(HostUnreachableError, match="no further session"):
        transport.run("true")


def test_mute_peer(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection over which no session comes up any more is given up, and the next script makes a new one."""
    monkeypatch.setattr("sistership.host.paramiko_ssh._PATIENCE", 0.4)
    transport = way.transport()
    transport.run("true")
    way.server.behave = "mute"
    with pytest.raises(HostUnreachableError, match="does not answer"):
        transport.run("true")
    way.server.behave = "run"
    assert transport.run("echo again").text == "again\n"
    assert way.server.logins == 2


def test_failing_input_is_raised_here(way: Way) -> None:
    """An error while input is made ends the script and is raised to the caller."""

    def chunks() -> Iterator[bytes]:
        yield b"some"
        raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        way.transport().run("cat", stdin=chunks())


def test_reader_that_stops_early(way: Way) -> None:
    """A script that ends before it has read its input reports its own status."""
    assert way.transport().run("exit 4", stdin=(b"x" * 65_536 for _ in range(100))).status == 4


def test_port_of_its_loopback(way: Way) -> None:
    """What listens there alone is reached; where nobody listens, that is said."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with way.transport().dial(port) as line:
            line.settimeout(5)
            with listener.accept()[0] as served:
                served.sendall(b"hello")
                assert line.recv(5) == b"hello"
    with pytest.raises(ConnectionRefusedError), way.transport().dial(port):
        pass
    way.server.behave = "prohibit"
    with pytest.raises(HostUnfitError, match="forwards no port"), way.transport().dial(port):
        pass


def test_close_ends_everything(way: Way) -> None:
    """Closing from another thread ends a running script, and later ones are refused."""
    transport = way.transport()
    transport.run("true")
    threading.Timer(0.2, transport.close).start()
    started = time.monotonic()
    with pytest.raises(StoppedError):
        transport.run("sleep 60")
    assert time.monotonic() - started < 10
    with pytest.raises(StoppedError):
        transport.run("true")


def test_shell_that_leaves(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login shell that prints and leaves is told apart from a connection that was cut."""
    transport = way.transport()
    monkeypatch.setattr("sistership.host.transport.Frame.command", lambda *_: "echo only for people; exit 1")
    with pytest.raises(HostUnfitError, match="login shell ended before") as caught:
        transport.run("true")
    assert caught.value.why == "only for people"


def test_fast_cipher_unless_the_user_says_otherwise(way: Way) -> None:
    """AES-GCM with 128 bits is preferred; a list in ssh_config narrows it."""
    transport = way.transport()
    transport.run("true")
    assert way.server.transports[-1].remote_cipher == "aes128-gcm@openssh.com"
    transport = way.transport(way.config("Ciphers aes256-ctr,chacha20-poly1305@openssh.com"))
    transport.run("true")
    assert way.server.transports[-1].remote_cipher == "aes256-ctr"
    with pytest.raises(HostUnfitError, match="the list of ciphers"):
        way.transport(way.config("Ciphers chacha20-poly1305@openssh.com")).run("true")
