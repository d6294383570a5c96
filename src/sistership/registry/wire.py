"""HTTP to one registry: verified TLS, proxies of the environment, plain HTTP only where it is allowed."""

from __future__ import annotations

import ssl
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

import urllib3
from urllib3.exceptions import HTTPError, SSLError

from sistership.errors import HostUnreachableError, ShipError
from sistership.registry.place import Place, is_loopback

#: Seconds in which a connection is made, and in which a registry takes some of what it is sent; then, for an answer:
#: some copy and hash a whole blob before they give one.
TIMEOUT: Final = urllib3.Timeout(connect=30, read=300)
_MOST: Final = 1 << 20  # bytes of an answer that are read; manifests, tokens and errors are smaller
_TLS_FOLDERS: Final = ("/etc/docker/certs.d", "~/.config/docker/certs.d", "/etc/containers/certs.d")
_NOT_TLS: Final = ("wrong version number", "record layer failure", "unknown protocol", "http request")

Body = bytes | Iterable[bytes]


class CutError(Exception):
    """The connection ended before there was an answer: whether the registry took the bytes is not known."""


@dataclass(frozen=True)
class Answer:
    """What a registry answered; header names are in small letters."""

    status: int
    headers: Mapping[str, str]
    data: bytes = b""


def tls_context(host: str, folders: Iterable[str] = _TLS_FOLDERS) -> ssl.SSLContext:
    """The system's authorities, and what engines keep for a registry: `certs.d/HOST/*.crt`, `*.cert` with `*.key`.

    Raises:
        ShipError: one of these files cannot be read.
    """
    context = ssl.create_default_context()
    for folder in folders:
        place = Path(folder).expanduser() / host
        try:
            for path in sorted(place.glob("*.crt")):
                context.load_verify_locations(path)
            for path in sorted(place.glob("*.cert")):
                context.load_cert_chain(path, path.with_suffix(".key"))
        except (OSError, ssl.SSLError) as error:
            raise ShipError(f"the certificates of {host} cannot be read", where=str(place), why=str(error)) from None
    return context


class Wire:
    """Sends requests to a registry and to the server that gives tokens for it; safe for several threads.

    Args:
        connections: that may be open at once.
    """

    def __init__(self, place: Place, *, connections: int = 8, context: ssl.SSLContext | None = None) -> None:
        self.place = place
        self._context = context or tls_context(place.server)
        self._connections = connections
        self._pools: dict[str | None, urllib3.PoolManager] = {}
        self.base = f"https://{place.server}"

    def settle(self) -> Answer:
        """Ask for `/v2/`; from then on it is known whether the registry speaks TLS.

        Raises:
            HostUnreachableError: no connection.
            ShipError: its certificate does not verify, or it speaks plain HTTP where that is not allowed.
        """
        try:
            return self.send("GET", f"{self.base}/v2/")
        except CutError as cut:
            if not _speaks_plain(cut.__cause__):
                raise self.unreachable(cut) from None
        if not self.place.plain_allowed:
            raise ShipError(
                "the registry speaks plain HTTP; nothing was sent",
                where=str(self.place),
                why="image and login would travel unprotected",
                hint="give it a certificate, or write registry: {repository: …, insecure: true} in the matrix",
            )
        self.base = f"http://{self.place.server}"
        try:
            return self.send("GET", f"{self.base}/v2/")
        except CutError as cut:
            raise self.unreachable(cut) from None

    def send(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: Body | None = None
    ) -> Answer:
        """One request, never repeated, never redirected.

        Args:
            url: absolute.

        Raises:
            CutError: the connection could not be made, or ended before there was an answer.
            ShipError: the certificate does not verify.
        """
        try:
            response = self._pool(url).urlopen(
                method,
                url,
                body=body,
                headers={"User-Agent": "sistership", **(headers or {})},
                redirect=False,
                retries=False,
                timeout=TIMEOUT,
                preload_content=False,
            )
            data = response.read(_MOST)
            response.drain_conn()
        except (HTTPError, OSError) as error:
            if _unverified(error):
                raise self._not_trusted(error) from None
            raise CutError(str(error)) from error
        return Answer(response.status, {name.lower(): value for name, value in response.headers.items()}, data)

    def resolve(self, location: str) -> str:
        """An absolute address from a `Location`; on the registry's own host always by the registry's own scheme.

        A registry behind a TLS proxy often writes `http://` there.

        Raises:
            ShipError: it leads to another host by plain HTTP.
        """
        url = urljoin(f"{self.base}/", location)
        if self.is_own(url):
            return self.base + url.partition("://")[2].removeprefix(urlsplit(url).netloc)
        if urlsplit(url).scheme != "https" and not self.place.plain_allowed:
            raise ShipError(
                f"the registry sends uploads to {urlsplit(url).netloc} by plain HTTP",
                where=str(self.place),
                hint="correct the external address in the registry's configuration",
            )
        return url

    def is_own(self, url: str) -> bool:
        """Whether an address is on the registry's own host: only there does its login go."""
        return urlsplit(url).netloc.removesuffix(":443") == self.place.server.removesuffix(":443")

    def unreachable(self, cut: CutError) -> HostUnreachableError:
        """The error when there is no way to the registry."""
        return HostUnreachableError(
            f"the registry {self.place.host} does not answer",
            where=str(self.place),
            why=_last(cut),
            hint="check its address in the matrix and this machine's network, or use --via direct",
        )

    def _pool(self, url: str) -> urllib3.PoolManager:
        proxy = _proxy_for(url)
        if proxy not in self._pools:
            if proxy is None:
                self._pools[proxy] = urllib3.PoolManager(maxsize=self._connections, ssl_context=self._context)
            else:
                login = urlsplit(proxy)
                words = f"{login.username}:{login.password or ''}" if login.username else None
                auth = urllib3.make_headers(proxy_basic_auth=words) if words else None
                self._pools[proxy] = urllib3.ProxyManager(
                    proxy, maxsize=self._connections, ssl_context=self._context, proxy_headers=auth
                )
        return self._pools[proxy]

    def _not_trusted(self, error: BaseException) -> ShipError:
        return ShipError(
            f"the certificate of {self.place.host} does not verify; nothing was sent",
            where=str(self.place),
            why=_last(error),
            hint=f"put its authority's certificate into /etc/docker/certs.d/{self.place.server}/ca.crt",
        )


def _proxy_for(url: str) -> str | None:
    """The proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name for an address; loopback is reached directly."""
    parts = urlsplit(url)
    proxies = urllib.request.getproxies_environment()
    if is_loopback(parts.netloc) or urllib.request.proxy_bypass(parts.netloc):
        return None
    return proxies.get(parts.scheme)


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        inner = getattr(error, "reason", None)
        error = inner if isinstance(inner, BaseException) else error.__cause__ or error.__context__
    return found


def _unverified(error: BaseException) -> bool:
    return any(isinstance(each, ssl.SSLCertVerificationError) for each in _chain(error))


def _speaks_plain(error: BaseException | None) -> bool:
    words = [
        str(each).lower().replace("_", " ") for each in _chain(error) if isinstance(each, (ssl.SSLError, SSLError))
    ]
    return any(sign in text for text in words for sign in _NOT_TLS)


def _last(error: BaseException) -> str:
    """The innermost cause, in one line."""
    return str(_chain(error)[-1]).splitlines()[0][:200] if str(_chain(error)[-1]) else type(error).__name__
