"""A registry for the benchmark: Debian's docker-registry on the practice builder, with TLS and without a login."""

from __future__ import annotations

import secrets
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ship_images import NAME

from sistership.fleet import faults

PORT = 5444
_FOLDER = f"/root/.{NAME}-registry"
_PATIENCE = 15  # seconds
_CONFIG = """
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}}}
http: {{addr: "{host}", secret: {secret}, tls: {{certificate: {folder}/tls.crt, key: {folder}/tls.key}}}}
"""


@dataclass(frozen=True)
class Registry:
    """A running registry.

    Attributes:
        host: address and port.
        builder: the practice host that it runs on.
        certificate: folder with its certificate, `ca.crt`, as skopeo takes it.
    """

    host: str
    builder: str
    certificate: Path

    def empty(self) -> None:
        """Remove everything in it: it keeps nothing in memory."""
        faults.run(self.builder, ["rm", "-rf", f"{_FOLDER}/data/docker"])


@contextmanager
def running(builder: str, address: str, pullers: Sequence[str], folder: Path) -> Iterator[Registry]:
    """A registry on `builder`, whose certificate the pulling hosts know; ended and forgotten afterwards.

    Args:
        address: of the builder on the practice fleet's network.
        folder: gets the certificate and its key.

    Raises:
        SystemExit: it does not answer.
    """
    host = f"{address}:{PORT}"
    _certificate(folder, address)
    certificate = folder / "trusted"  # skopeo takes a key beside it for a client's
    config = _CONFIG.format(folder=_FOLDER, host=host, secret=secrets.token_hex(8))
    files = {"tls.crt": (certificate / "ca.crt").read_text(), "tls.key": (folder / "tls.key").read_text()}
    faults.run(builder, ["sh", "-c", f"rm -rf {_FOLDER}; mkdir -p -m 700 {_FOLDER}"])
    for name, text in {**files, "registry.yml": config}.items():
        faults.run(builder, ["sh", "-c", f'printf %s "$1" > {_FOLDER}/{name}', "sh", text])
    serve = f"cd {_FOLDER} && setsid docker-registry serve registry.yml >log 2>&1 </dev/null & echo $! >{_FOLDER}/pid"
    faults.run(builder, ["sh", "-c", serve])
    trust = f"/etc/docker/certs.d/{host}"
    try:
        for name in pullers:
            script = f'mkdir -p {trust} && printf %s "$1" > {trust}/ca.crt'
            faults.run(name, ["sh", "-c", script, "sh", files["tls.crt"]])
        _await(address)
        yield Registry(host, builder, certificate)
    finally:
        faults.run(builder, ["sh", "-c", f"kill $(cat {_FOLDER}/pid); rm -rf {_FOLDER}"])
        for name in pullers:
            faults.run(name, ["rm", "-rf", trust])


def _certificate(folder: Path, address: str) -> None:
    """One that is its own authority."""
    (folder / "trusted").mkdir()
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    words += ["-subj", "/CN=benchmark", "-addext", f"subjectAltName=IP:{address}"]
    words += ["-keyout", str(folder / "tls.key"), "-out", str(folder / "trusted" / "ca.crt")]
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def _await(address: str) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            socket.create_connection((address, PORT), timeout=1).close()
        except OSError:
            if time.monotonic() > until:
                raise SystemExit("the benchmark's registry does not answer") from None
            time.sleep(0.1)
        else:
            return
