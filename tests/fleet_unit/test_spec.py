"""What the fleet consists of."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import asdict, replace

import pytest

from sistership.errors import UsageError
from sistership.fleet import containers, contents, lifecycle
from sistership.fleet.paths import State, cache_root
from sistership.fleet.spec import _LATER, CAPABILITIES, DISK, HOSTS, digest_of, fleet_name


def test_hosts_of_one_suite_share_a_root():
    """All hosts of the newer suite are made from one root filesystem, and so are those of the next."""
    assert HOSTS["builder"].root is HOSTS["classic26"].root is HOSTS["containerd26"].root
    assert HOSTS["docker28"].root is HOSTS["containerd28"].root
    assert HOSTS["podman"].root is HOSTS["docker26"].root is HOSTS["containerd"].root
    assert len({spec.root for spec in HOSTS.values()}) == 4


def test_a_suite_that_moves_is_no_part_of_the_fleet():
    """What Debian has not released is started on request alone, so that a bad day there breaks nobody's fleet."""
    assert [spec.name for spec in HOSTS.values() if not spec.on_request] == FLEET
    assert {spec.root.suite for spec in HOSTS.values() if not spec.on_request} == {"bookworm", "trixie"}


def test_what_hosts_learnt_later_makes_no_old_one_anew():
    """The key of a host that uses none of the later fields does not change with them."""
    spec = HOSTS["classic20"]
    former = {name: value for name, value in asdict(spec).items() if name not in {*_LATER, "on_request"}}
    assert set(_LATER) == {"kind", "users", "volumes", "without"}
    known = {"v": 1, "host": former, "extra": {}, "capabilities": CAPABILITIES, "disk": DISK}
    assert spec.key({}) == digest_of(known)
    for change in ({"kind": "podman"}, {"users": ("me",)}, {"volumes": ("/srv",)}, {"without": ("docker",)}):
        assert replace(spec, **change).key({}) != spec.key({})


def test_a_user_logs_in_under_a_name_of_his_own():
    """Who has an engine of his own is an alias of the host, and the host's own name is root."""
    assert HOSTS["classic20"].logins == {"classic20": "root"}
    assert HOSTS["podman"].logins == {"podman": "root", "podman-rootless": "rootless"}


def test_files_of_hosts_with_other_engines(tmp_path):
    """Each kind starts its own engine; people's folders and rights are theirs, and what a host lacks is named."""
    by_host = {
        name: {file.path: file for file in contents.files_of(HOSTS[name], State(tmp_path))}
        for name in ("classic26", "podman", "docker26", "containerd")
    }
    engine, users = "/usr/local/sbin/practice-engine", "/etc/practice/users"
    assert len({files[engine].text for files in by_host.values()}) == 4
    assert [name for name, files in by_host.items() if users in files] == ["podman", "docker26"]
    assert by_host["podman"][users].text == "1000 rootless\n"
    sshd = by_host["podman"]["/etc/ssh/sshd_config.d/practice.conf"].text
    assert sshd.endswith("Match User rootless\n    SetEnv XDG_RUNTIME_DIR=/run/user/1000\n")
    assert "AuthorizedKeysFile /etc/practice/authorized_keys .ssh/authorized_keys\n" in sshd
    assert by_host["podman"]["/etc/practice/authorized_keys"].mode == 0o644
    assert by_host["classic26"]["/etc/practice/authorized_keys"].mode == 0o600
    assert by_host["containerd"]["/etc/practice/without"].text.split()[-2:] == ["docker-proxy", "podman"]
    assert "/etc/practice/without" not in by_host["classic26"]


def test_starting_on_request_does_not_change_a_container(tmp_path):
    """Whether a host has to be named decides nothing about its container, so none is made anew for it."""
    spec, home = HOSTS["docker28"], State(tmp_path)
    files = contents.files_of(spec, home)
    assert containers.spec_key(replace(spec, on_request=False), files, home) == containers.spec_key(spec, files, home)


def test_no_capability_that_machines_lack():
    """CAP_SYS_RESOURCE is missing on some machines, and Engine 20.10 does not know CAP_BPF."""
    assert "SYS_ADMIN" in CAPABILITIES
    assert not {"SYS_RESOURCE", "BPF", "PERFMON", "CHECKPOINT_RESTORE"} & set(CAPABILITIES)


def test_spec_key_follows_every_file(tmp_path):
    """A container is made anew when any of its files, its keys or its registry folder differ."""
    home = State(tmp_path)
    files = contents.files_of(HOSTS["builder"], home)
    key = containers.spec_key(HOSTS["builder"], files, home)
    assert containers.spec_key(HOSTS["builder"], contents.files_of(HOSTS["builder"], home), home) == key
    assert containers.spec_key(HOSTS["builder"], files[1:], home) != key
    assert containers.spec_key(HOSTS["containerd26"], files, home) != key
    assert containers.spec_key(HOSTS["builder"], files, State(tmp_path / "other")) != key


def test_files_of_hosts(tmp_path):
    """Only the builder gets a registry; only containerd26 and containerd28 the containerd store; keys are private."""
    by_host = {
        name: {file.path: file for file in contents.files_of(spec, State(tmp_path))} for name, spec in HOSTS.items()
    }
    assert [name for name, files in by_host.items() if "/etc/practice/registry.yml" in files] == ["builder"]
    features = {
        name: json.loads(files["/etc/docker/daemon.json"].text).get("features") for name, files in by_host.items()
    }
    assert {name for name, found in features.items() if found} == {"containerd26", "containerd28"}
    assert features["containerd26"] == {"containerd-snapshotter": True}
    assert {files["/etc/practice/host_key"].mode for files in by_host.values()} == {0o600}
    assert len({files["/etc/practice/host_key"].text for files in by_host.values()}) == len(HOSTS)


def test_archive_keeps_modes():
    """Files reach the host with the mode they were given."""
    data = contents.archive((contents.File("/usr/local/sbin/x", "#!/bin/sh\n", 0o755), contents.File("/etc/y", "y")))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert {member.name: member.mode for member in tar} == {"usr/local/sbin/x": 0o755, "etc/y": 0o644}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["nameserver 10.0.0.1\noptions ndots:0\n"], "nameserver 10.0.0.1\n"),
        (["nameserver 127.0.0.53\n", "search lan\nnameserver 192.0.2.1\n"], "search lan\nnameserver 192.0.2.1\n"),
        (["nameserver 127.0.0.11\nnameserver 192.0.2.2\n"], "nameserver 192.0.2.2\n"),
        (["nameserver ::1\n"], ""),
        ([], ""),
    ],
)
def test_nameservers(tmp_path, texts, expected):
    """Loopback name servers are of no use to containers; the first file with others is taken."""
    paths = []
    for number, text in enumerate(texts):
        paths.append(tmp_path / str(number))
        paths[-1].write_text(text)
    assert containers.nameservers((*paths, tmp_path / "missing")) == expected


def test_unknown_host_is_a_usage_error():
    """A name that is no practice host is refused with the names there are."""
    with pytest.raises(UsageError) as caught:
        lifecycle.chosen(["builder", "bilder"])
    assert "bilder" in str(caught.value)
    assert "classic20" in str(caught.value)


FLEET = ["builder", "classic20", "classic26", "containerd26"]
ON_REQUEST = ["docker28", "containerd28", "podman", "docker26", "containerd", "containerd2"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (None, FLEET),
        ([], []),
        (["containerd26", "builder"], ["builder", "containerd26"]),
        (["docker28"], ["docker28"]),
        (["*28", "builder"], ["builder", "docker28", "containerd28"]),
        (["*"], [*FLEET, *ON_REQUEST]),
        (["*", "^docker*"], [*FLEET, "containerd28", "podman", "containerd", "containerd2"]),
        (["^builder"], FLEET[1:]),
        (["^docker28"], FLEET),
    ],
)
def test_chosen(names, expected):
    """Hosts come in the fleet's order; those on request come only where a name or a glob takes them in."""
    assert [spec.name for spec in lifecycle.chosen(names)] == expected


@pytest.mark.parametrize("names", [["docker28", "^docker28"], ["^*"]])
def test_leaving_out_everything_is_a_usage_error(names):
    """A choice that leaves no host would do nothing and look like success."""
    with pytest.raises(UsageError, match="left out"):
        lifecycle.chosen(names)


@pytest.mark.parametrize("name", ["", "^", "classic99*", "^bilder"])
def test_what_matches_no_host_is_refused(name):
    """An empty part, a glob without a host and a host left out that does not exist are mistakes."""
    with pytest.raises(UsageError, match="no practice host is called"):
        lifecycle.chosen(["builder", name])


def test_cache_root(tmp_path):
    """SISTERSHIP_CACHE moves the cache."""
    assert cache_root({"SISTERSHIP_CACHE": str(tmp_path)}) == tmp_path
    assert cache_root({}).name == "sistership"


def test_a_fleet_may_have_a_name_of_its_own():
    """Two users of a machine, or tests beside practice, do not remake each other's hosts."""
    assert fleet_name({}) == fleet_name({"SISTERSHIP_FLEET": ""}) == "practice"
    assert fleet_name({"SISTERSHIP_FLEET": "night-2"}) == "night-2"


@pytest.mark.parametrize("name", ["Night", "2", "a b", "a" * 21])
def test_a_fleet_whose_name_no_network_could_have_is_refused(name):
    """The name stands in those of containers and of the network."""
    with pytest.raises(UsageError, match="cannot name a fleet"):
        fleet_name({"SISTERSHIP_FLEET": name})
