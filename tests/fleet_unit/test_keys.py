"""Keys and ssh files."""

from __future__ import annotations

import subprocess

from sistership.fleet import keys
from sistership.fleet.paths import State, project_files


def _ssh_says(files, host):
    argv = ["ssh", "-G", "-F", str(files.ssh_config), host]
    text = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30).stdout
    return dict(line.split(" ", 1) for line in text.splitlines() if " " in line)


def test_ssh_understands_the_config(tmp_path):
    """Read back by ssh itself, in a folder with a space: address, user, key, known hosts, strictness."""
    files, home = project_files(tmp_path / "a project"), State(tmp_path / "cache")
    keys.write(files, home, {"builder": "10.1.2.3", "classic20": "10.1.2.4"})
    said = _ssh_says(files, "builder")
    assert (said["hostname"], said["user"]) == ("10.1.2.3", "root")
    assert said["identityfile"] == str(files.key)
    assert said["userknownhostsfile"] == str(files.known_hosts)
    assert (said["stricthostkeychecking"], said["identitiesonly"]) == ("true", "yes")


def test_a_user_of_a_host_has_an_alias(tmp_path):
    """Read back by ssh itself: the same address and the same host key, another user."""
    files, home = project_files(tmp_path), State(tmp_path / "cache")
    keys.write(files, home, {"podman": "10.1.2.3", "classic20": "10.1.2.4"}, {"podman": ("rootless",)})
    root, said = _ssh_says(files, "podman"), _ssh_says(files, "podman-rootless")
    assert (root["user"], said["user"]) == ("root", "rootless")
    assert (said["hostname"], said["hostkeyalias"], said["stricthostkeychecking"]) == ("10.1.2.3", "podman", "true")
    assert "hostkeyalias" not in root
    assert "podman-rootless" not in files.known_hosts.read_text()


def test_known_hosts_has_names_and_addresses(tmp_path):
    """ssh-keygen finds each host by its name and by its address, with that host's own key."""
    files, home = project_files(tmp_path), State(tmp_path / "cache")
    keys.write(files, home, {"builder": "10.1.2.3", "classic20": "10.1.2.4"})
    for host, address in (("builder", "10.1.2.3"), ("classic20", "10.1.2.4")):
        for name in (host, address):
            argv = ["ssh-keygen", "-F", name, "-f", str(files.known_hosts)]
            found = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30).stdout
            assert keys.key_pair(home, f"host-{host}").public in found


def test_keys_are_kept(tmp_path):
    """A second call gives the same key, so that hosts stay known; another cache has another."""
    first = keys.key_pair(State(tmp_path / "a"), "user")
    assert keys.key_pair(State(tmp_path / "a"), "user") == first
    assert keys.key_pair(State(tmp_path / "b"), "user") != first


def test_half_a_pair_is_made_again(tmp_path):
    """A pair whose private half is missing, as after an interruption, is replaced and fits together."""
    home = State(tmp_path)
    keys.key_pair(home, "user")
    (home.keys / "user").unlink()
    again = keys.key_pair(home, "user")
    argv = ["ssh-keygen", "-y", "-f", str(home.keys / "user")]
    derived = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=30).stdout
    assert derived.split()[:2] == again.public.split()


def test_files_are_private_and_only_written_when_needed(tmp_path):
    """The private key is 0600; writing the same again does not touch the files, a new address does."""
    files, home = project_files(tmp_path), State(tmp_path / "cache")
    keys.write(files, home, {"builder": "10.1.2.3"})
    assert files.key.stat().st_mode & 0o777 == 0o600
    before = files.ssh_config.stat().st_mtime_ns
    keys.write(files, home, {"builder": "10.1.2.3"})
    assert files.ssh_config.stat().st_mtime_ns == before
    keys.write(files, home, {"builder": "10.1.2.9"})
    assert _ssh_says(files, "builder")["hostname"] == "10.1.2.9"


def test_unsafe_folders(tmp_path):
    """Names that ssh would read in its own way are known."""
    assert keys.paths_are_safe(tmp_path / "with space")
    assert not keys.paths_are_safe(tmp_path / "100%h")
    assert not keys.paths_are_safe(tmp_path / 'a"b')
