"""The ssh command line, and what ssh's own words mean."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sistership.host.openssh import argv, control_path, refusal


def test_control_path_fits_a_socket() -> None:
    """Long host, user and folder names never make the socket's name too long (case C50): hashed, or none."""
    path = control_path("/run/user/1000/sship-abcdefgh")
    assert path is not None
    assert len(path.replace("%C", "f" * 40)) + 17 <= 103
    assert control_path("/home/" + "x" * 60) is None


def test_no_multiplexing_is_no_failure() -> None:
    """Without a socket ssh is told so, instead of a path from the user's config being used."""
    words = argv("gpu-b", "true", config=None, control=None)
    assert "ControlPath=none" in words
    assert not any(word.startswith("ControlMaster") for word in words)


def test_strict_keys_and_no_questions() -> None:
    """Host keys are always checked and nothing ever prompts; the destination can never be an option."""
    words = argv("-oProxyCommand=evil", "true", config=Path("/c"), control="/s/%C")
    assert "StrictHostKeyChecking=yes" in words
    assert "BatchMode=yes" in words
    assert words[-3:] == ["--", "-oProxyCommand=evil", "true"]


def test_users_ssh_config_decides(tmp_path: Path) -> None:
    """Include, ProxyJump and IdentityAgent work as by hand (cases C43, C45, C47): the system's ssh reads them."""
    (tmp_path / "extra.conf").write_text("Host gpu-b\n  HostName 10.9.9.9\n  ProxyJump edge-a,edge-b\n")
    config = tmp_path / "config"
    config.write_text(
        f"Include {tmp_path}/extra.conf\nHost gpu-*\n  HostName %h.lan.example\n  IdentityAgent /tmp/agent.sock\n"
    )
    words = argv("gpu-b", "true", config=config, control=None)
    shown = subprocess.run([words[0], "-G", *words[1:-1]], capture_output=True, text=True, check=True).stdout
    assert "hostname 10.9.9.9\n" in shown
    assert "proxyjump edge-a,edge-b\n" in shown
    assert "identityagent /tmp/agent.sock\n" in shown


def test_changed_key_is_named_with_both_fingerprints(tmp_path: Path) -> None:
    """A changed host key (case C49) shows both fingerprints and the cure, and touches nothing."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    known = tmp_path / "known_hosts"
    known.write_text("gpu-b " + key.with_suffix(".pub").read_text())
    shown = subprocess.run(["ssh-keygen", "-lf", str(known)], capture_output=True, text=True, check=True).stdout
    error = refusal(
        "gpu-b",
        "gpu-b",
        "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n"
        "The fingerprint for the ED25519 key sent by the remote host is\nSHA256:NEWnewNEW.\n"
        f"Offending ED25519 key in {known}:1\n  remove with:\n"
        f"  ssh-keygen -f '{known}' -R '[10.0.0.7]:2222'\nHost key verification failed.\n",
    )
    assert error.code == 20
    assert "SHA256:NEWnewNEW," in str(error)
    assert shown.split()[1] in str(error)
    assert f"ssh-keygen -f '{known}' -R '[10.0.0.7]:2222'" in str(error)


def test_each_refusal_has_its_own_words() -> None:
    """What ssh prints is told in the user's words, with the next step."""
    cases = {
        "u@h: Permission denied (publickey).": "refuses our keys",
        "ssh: Could not resolve hostname nope: Name or service not known": "name is not known",
        "ssh: connect to host h port 22: Connection refused": "nothing listens",
        "ssh: connect to host h port 22: Connection timed out": "does not answer",
        "ssh: connect to host h port 22: No route to host": "does not answer",
        "No ED25519 host key is known for h and you have requested strict checking.": "key is not known",
        "Connection to h closed by remote host.": "connection was cut",
        "": "no connection",
    }
    for err, words in cases.items():
        error = refusal("gpu-b", "gpu-b", err)
        assert words in error.what
        assert error.where == "gpu-b"
        assert error.hint
