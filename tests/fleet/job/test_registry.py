"""The road by a registry, with Debian's docker-registry: TLS of an authority of the test's own, and logins."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
import random
import re
import secrets
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import bcrypt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sistership.image.documents import canonical_json, image_of
from sistership.image.identity import Image, Layer, digest_of
from sistership.image.layout import Store
from sistership.registry.client import Client
from sistership.registry.login import Login
from sistership.registry.place import Place, tag_of
from sistership.registry.push import push
from sistership.registry.wire import Wire

if TYPE_CHECKING:
    from tests.fleet.conftest import Fleet
    from tests.fleet.job.conftest import Project

PORT = 5443
FOLDER = "/root/practice-registry"
USER = "anna"
PULLERS = ("classic26", "containerd26")
CONFIG = """
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}}}
http: {{addr: "{host}", secret: {secret}, tls: {{certificate: {folder}/tls.crt, key: {folder}/tls.key}}}}
auth: {{htpasswd: {{realm: practice, path: {folder}/htpasswd}}}}
"""


@dataclass(frozen=True)
class Running:
    """A registry on the builder's private address.

    Attributes:
        host: its address and port.
        authority: file with the certificate that its own is signed by.
    """

    host: str
    password: str
    authority: Path

    def docker_config(self, folder: Path, password: str | None = None) -> str:
        """A Docker config with a login; its folder, for DOCKER_CONFIG."""
        folder.mkdir(exist_ok=True)
        auth = base64.b64encode(f"{USER}:{password or self.password}".encode()).decode()
        (folder / "config.json").write_text(json.dumps({"auths": {self.host: {"auth": auth}}}))
        return str(folder)

    def client(self, repository: str, through: str = "") -> Client:
        """A client of a repository, straight or through another address."""
        context = ssl.create_default_context(cafile=self.authority)
        client = Client(Wire(Place(through or self.host, repository), context=context), Login(USER, self.password))
        client.begin()
        return client


def certificates(folder: Path, address: str) -> None:
    """An authority (ca.crt), and a certificate by it for an address and loopback (tls.crt, tls.key)."""
    now = dt.datetime.now(dt.UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"practice {each}")]) for each in ("ca", "tls")]
    for number, name in enumerate(("ca", "tls")):
        builder = (
            x509.CertificateBuilder()
            .subject_name(names[number])
            .issuer_name(names[0])
            .public_key(keys[number].public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=number == 0, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(keys[number].public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(keys[0].public_key()), critical=False)
        )
        if number:
            addresses = [x509.IPAddress(ipaddress.ip_address(each)) for each in (address, "127.0.0.1")]
            builder = builder.add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        else:
            use = x509.KeyUsage(
                digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
                key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
            )  # fmt: skip
            builder = builder.add_extension(use, critical=True)
        made = builder.sign(keys[0], hashes.SHA256())
        (folder / f"{name}.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    key = keys[1].private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "tls.key").write_bytes(key)


@pytest.fixture(scope="module")
def running(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """An empty registry with TLS and a login, known to the hosts that pull; ended and forgotten afterwards."""
    folder, password = tmp_path_factory.mktemp("registry"), secrets.token_hex(8)
    address = fleet.states["builder"].address
    host = f"{address}:{PORT}"
    trusted = folder / "trusted"
    trusted.mkdir()
    certificates(folder, address)
    authority = (folder / "ca.crt").rename(trusted / "ca.crt")
    words = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
    files = {
        "tls.crt": (folder / "tls.crt").read_text(),
        "tls.key": (folder / "tls.key").read_text(),
        "htpasswd": f"{USER}:{words}\n",
        "registry.yml": CONFIG.format(folder=FOLDER, host=host, secret=secrets.token_hex(8)),
    }
    fleet.ssh("builder", f"rm -rf {FOLDER}; mkdir -p {FOLDER}")
    for name, text in files.items():
        fleet.ssh("builder", f"cat > {FOLDER}/{name}", stdin=text.encode())
    start = f"docker-registry serve {FOLDER}/registry.yml >{FOLDER}/log 2>&1 </dev/null & echo $! >{FOLDER}/pid"
    fleet.ssh("builder", start)
    trust = f"/etc/docker/certs.d/{host}"
    try:
        for name in PULLERS:
            fleet.ssh(name, f"mkdir -p {trust} && cat > {trust}/ca.crt", stdin=authority.read_bytes())
        await_port(address)
        yield Running(host, password, authority)
    finally:
        fleet.ssh("builder", f"kill $(cat {FOLDER}/pid); rm -rf {FOLDER}")
        for name in PULLERS:
            fleet.ssh(name, f"docker logout {host} >/dev/null 2>&1; rm -rf {trust}")


def await_port(address: str) -> None:
    """Until something listens there."""
    until = time.monotonic() + 20
    while True:
        try:
            socket.create_connection((address, PORT), timeout=2).close()
        except OSError:
            assert time.monotonic() < until, "the registry did not begin to listen"
        else:
            return


@pytest.fixture
def by_registry(project: Project, running: Running, tmp_path: Path) -> Iterator[Project]:
    """The project with a registry in its matrix and a login on this machine."""
    matrix = project.folder / "buildmatrix.yaml"
    text = matrix.read_text()
    added = text.replace("    tag: v1\n", f"    tag: v1\n    registry: {running.host}/team/sample\n")
    matrix.write_text(added.replace("classic20: {}", "classic20: {}, classic26: {}"))
    environ = {"DOCKER_CONFIG": running.docker_config(tmp_path / "docker"), "SSL_CERT_FILE": str(running.authority)}
    yield replace(project, environ={**project.environ, **environ})
    matrix.write_text(text)


def log_in(project: Project, running: Running, host: str) -> None:
    """`docker login`, on the host, by the host's own user."""
    login = f"docker login --username {USER} --password-stdin {running.host}"
    project.fleet.ssh(host, login, stdin=running.password.encode())


def sent(out: str) -> dict[str, int]:
    """Host → image bytes, from the lines of `ship --json`."""
    lines = [json.loads(line) for line in out.splitlines()]
    return {line["host"]: line["sent"] for line in lines if line["type"] == "host"}


def test_image_goes_by_registry_to_both_stores(by_registry: Project, running: Running) -> None:
    """Pushed once, pulled by digest with each host's own login, the predicted ID everywhere; again: nothing moves."""
    for host in PULLERS:
        by_registry.forget(host)
        log_in(by_registry, running, host)
    peers = ("--hosts", ",".join(PULLERS))
    planned = by_registry.run("plan", "--json", *peers).json()["images"][0]
    record = by_registry.lock()["images"][planned["recipe"]]
    stored = sum({layer["digest"]: layer["size"] for layer in record["layers"]}.values())
    assert planned["push"] > stored
    source = f"{running.host}/team/sample@{record['manifest']}"
    assert {host["host"]: host["source"] for host in planned["hosts"]} == dict.fromkeys(PULLERS, source)

    assert sent(by_registry.run("ship", "--json", *peers).out) == dict.fromkeys(PULLERS, stored)
    proven = by_registry.verify("--deep", *peers)
    assert set(proven.verdicts().values()) == {"ok"}
    ids = {"classic26": record["config"], "containerd26": record["manifest"]}
    assert {host["host"]: host["id"] for host in proven.json()["hosts"]} == ids
    own = f"sistership.local/job-sample:{record['config'][7:19]}"
    for host in PULLERS:
        names = by_registry.fleet.ssh(host, "docker images --digests --format '{{.Repository}}:{{.Tag}}'").split()
        assert sorted(names) == ["job-sample:v1", own], host

    again = by_registry.run("ship", "--json", *peers)
    assert set(sent(again.out).values()) == {0}
    assert re.search(r"0 B pushed, \d+ blobs were there", again.out)
    read_back(running, record)


def read_back(running: Running, record: dict[str, object]) -> None:
    """Skopeo, which is not ours, finds the image under its digest and its tag."""
    name, login = f"docker://{running.host}/team/sample", f"{USER}:{running.password}"
    for reference in (f"{name}@{record['manifest']}", f"{name}:{str(record['config'])[7:19]}"):
        argv = ["skopeo", "inspect", "--raw", "--cert-dir", str(running.authority.parent), "--creds", login, reference]
        done = subprocess.run(argv, capture_output=True, check=False, timeout=60)
        assert digest_of(done.stdout) == record["manifest"], done.stderr


@pytest.mark.full
def test_logins_that_lack_are_told_where(by_registry: Project, running: Running, tmp_path: Path) -> None:
    """A wrong password here: no host is touched. No login there: that host alone fails, and the other way works.

    Engine 20.10, which reads no zstd layers, gets the image directly in the same run.
    """
    by_registry.forget("classic26")
    by_registry.forget("classic20")
    wrong = {**by_registry.environ, "DOCKER_CONFIG": running.docker_config(tmp_path / "wrong", "no")}
    done = replace(by_registry, environ=wrong).run("ship", "--hosts", "classic26", code=22)
    assert f"docker login {running.host}" in done.err

    by_registry.fleet.ssh("classic26", f"docker logout {running.host}")
    done = by_registry.run("ship", "--hosts", "classic26,classic20", code=21)
    assert f"there: docker login {running.host}; or ship --via direct" in done.out + done.err
    assert "Engine 20.10.24+dfsg1 reads no zstd layers" in done.err
    assert by_registry.verify("--hosts", "classic20").verdicts() == {"classic20": "ok"}
    by_registry.run("ship", "--hosts", "classic26", "--via", "direct")
    assert by_registry.verify("--hosts", "classic26").verdicts() == {"classic26": "ok"}


class Cutting:
    """A way to the registry that ends once, after so many bytes, as a lost link does."""

    def __init__(self, target: tuple[str, int], after: int) -> None:
        self._target, self._left, self._cut = target, after, False
        self._server = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def cut(self) -> bool:
        """Whether it has."""
        return self._cut

    def close(self) -> None:
        """Take no more connections."""
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            for pair in ((near, far, True), (far, near, False)):
                threading.Thread(target=self._copy, args=pair, daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, out: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                if out and not self._cut:
                    self._left -= len(data)
                    self._cut = self._left < 0
                    if self._cut:
                        break
                target.sendall(data)
        except OSError:
            pass
        for each in (source, target):
            each.close()


def large(folder: Path, size: int) -> tuple[Image, Store]:
    """An image of noise; a registry does not look inside."""
    store, noise = Store(folder / "store"), random.Random(9)
    blobs = [noise.randbytes(each) for each in (size, 1000)]
    layers = [
        Layer(digest_of(b"plain" + blob), store.add(blob), len(blob), len(blob), False, f"layer {number}")
        for number, blob in enumerate(blobs)
    ]
    config = canonical_json(
        {"os": "linux", "architecture": "amd64", "rootfs": {"diff_ids": [layer.diff_id for layer in layers]}}
    )
    image, packed, plain = image_of(config, layers)
    for document in (config, packed, plain):
        store.add(document)
    return image, store


@pytest.mark.full
def test_cut_push_is_whole_in_the_end_and_blobs_are_mounted(running: Running, tmp_path: Path) -> None:
    """A link that is lost in the middle of a blob costs that blob once more at most; a second repository costs none."""
    image, store = large(tmp_path, 24 << 20)
    address, port = running.host.rsplit(":", 1)
    link = Cutting((address, int(port)), 12 << 20)
    try:
        done = push(running.client("team/cut", link.host), image, store, jobs=1)
    finally:
        link.close()
    assert link.cut
    assert 24 << 20 < done.sent < (24 + 24) << 20
    straight = running.client("team/cut")
    assert straight.manifest(tag_of(image)) == image.manifest
    assert straight.blob_size(image.layers[0].digest) == 24 << 20
    beside = push(running.client("team/beside"), image, store, others=("team/cut",))
    assert (beside.mounted, beside.sent) == (3, 0)
