"""TLS is always verified, by the authorities that engines know; plain HTTP and proxies only where they belong."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sistership.errors import ShipError
from sistership.registry.client import Client
from sistership.registry.place import Place
from sistership.registry.wire import Wire, _proxy_for, tls_context

from .fake import Registry


@pytest.fixture
def certificate(server: Registry, tmp_path: Path) -> Path:
    """The certificate with which the registry speaks TLS from now on; it is its own authority."""
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "practice")])
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    path, private = tmp_path / "ca.crt", tmp_path / "tls.key"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, private)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return path


def test_unknown_authority_gets_nothing(server: Registry, certificate: Path) -> None:
    """Not even on loopback or with `insecure`: the certificate does not verify, and no request is sent."""
    with pytest.raises(ShipError, match="does not verify; nothing was sent") as caught:
        Client(Wire(Place(server.host, "a/b", insecure=True)), None).begin()
    assert f"/etc/docker/certs.d/{server.host}/ca.crt" in str(caught.value.hint)
    assert server.seen == []


def test_authority_of_the_engines_is_trusted(server: Registry, certificate: Path, tmp_path: Path) -> None:
    """What lies in certs.d for this registry counts here too; then the registry is spoken to by TLS alone."""
    folder = tmp_path / "certs.d" / server.host
    folder.mkdir(parents=True)
    (folder / "ca.crt").write_bytes(certificate.read_bytes())
    wire = Wire(Place(server.host, "a/b"), context=tls_context(server.host, [str(tmp_path / "certs.d")]))
    Client(wire, None).begin()
    assert wire.base.startswith("https://")
    assert server.seen == ["GET /v2/"]


def test_unreadable_certificate_is_named(tmp_path: Path) -> None:
    """A file that is no certificate is an error, not a registry that cannot be trusted."""
    folder = tmp_path / "registry.lan"
    folder.mkdir()
    (folder / "ca.crt").write_text("nonsense")
    with pytest.raises(ShipError, match="cannot be read"):
        tls_context("registry.lan", [str(tmp_path)])


def test_proxy_of_the_environment_counts_off_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTPS_PROXY for a registry far away, never for loopback or what NO_PROXY names."""
    for name in ("http_proxy", "no_proxy", "NO_PROXY", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy.lan:3128")
    monkeypatch.setenv("no_proxy", "registry.lan")
    assert _proxy_for("https://ghcr.example/v2/") == "http://proxy.lan:3128"
    assert _proxy_for("https://registry.lan:5000/v2/") is None
    assert _proxy_for("https://127.0.0.1:5000/v2/") is None
    assert _proxy_for("http://ghcr.example/v2/") is None
