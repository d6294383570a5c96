"""The registry's own language: OCI distribution, with logins, patience and clear refusals.

Source: github.com/opencontainers/distribution-spec v1.1, and the token specification of
github.com/distribution/distribution.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from sistership.errors import ShipError, SistershipError
from sistership.image.documents import MANIFEST
from sistership.registry.challenge import Challenge, chosen, scope
from sistership.registry.login import Login
from sistership.registry.wire import Answer, Body, CutError, Wire

#: How often something is tried that may go well the next time.
TRIES: Final = 5
#: The longest that is waited before the next try, in seconds.
LONGEST: Final = 60.0
_BUSY: Final = 429
_UNAUTHORIZED: Final = 401
_SERVER: Final = 500


class Client:
    """One registry, for one repository of it and, to read, others beside it.

    Args:
        login: None: anonymous.
        wait: called with seconds before something is tried again; None: wait for that long, or until `stop` is set.
    """

    def __init__(self, wire: Wire, login: Login | None, *, wait: Callable[[float], object] | None = None) -> None:
        self.wire = wire
        self.place = wire.place
        self.stop = threading.Event()
        self.wait = self.stop.wait if wait is None else wait
        self._login = login
        self._guard = threading.Lock()
        self._challenge: Challenge | None = None
        self._tokens: dict[tuple[str, ...], str] = {}

    def begin(self) -> None:
        """Find out how the registry wants to be spoken to.

        Raises:
            HostUnreachableError: it does not answer.
            ShipError: it is no registry, or its certificate does not verify.
        """
        answer = self.wire.settle()
        if answer.status == _UNAUTHORIZED:
            self._challenge = chosen(answer.headers.get("www-authenticate", ""))
        elif answer.status not in {200, 403}:
            raise self.refusal(answer, "is no registry: it does not answer /v2/")

    def url(self, path: str, repository: str | None = None) -> str:
        """The address of something in a repository, by default in the place's own."""
        return f"{self.wire.base}/v2/{repository or self.place.repository}/{path}"

    def blob_size(self, digest: str, repository: str | None = None) -> int | None:
        """Bytes of a blob that the repository has; None when it has none, or may not be looked at."""
        answer = self.ask("HEAD", self.url(f"blobs/{digest}", repository), scopes=self.scopes(repository))
        if answer.status in {200, 307, 302}:
            length = answer.headers.get("content-length", "0")
            return int(length) if length.isdigit() else 0
        if answer.status == 404 or repository not in {None, self.place.repository}:  # noqa: PLR2004
            return None
        raise self.refusal(answer, "does not say which blobs it has")

    def manifest(self, reference: str) -> str | None:
        """The digest of the manifest under a tag or digest; None when there is none."""
        answer = self.ask(
            "HEAD", self.url(f"manifests/{reference}"), scopes=self.scopes(), headers={"Accept": MANIFEST}
        )
        if answer.status == 200:  # noqa: PLR2004
            return answer.headers.get("docker-content-digest") or (reference if ":" in reference else None)
        if answer.status == 404:  # noqa: PLR2004
            return None
        raise self.refusal(answer, "does not say which manifests it has")

    def put_manifest(self, reference: str, document: bytes) -> None:
        """Write a manifest under a digest or a tag.

        Raises:
            ShipError: it was refused.
        """
        answer = self.ask(
            "PUT",
            self.url(f"manifests/{reference}"),
            scopes=self.scopes(),
            headers={"Content-Type": MANIFEST},
            body=document,
        )
        if answer.status not in {200, 201, 202}:
            raise self.refusal(answer, f"does not take the manifest {reference[:19]}")

    def scopes(self, *others: str | None) -> tuple[str, ...]:
        """What a token must allow: to push here, to read there."""
        beside = sorted({each for each in others if each and each != self.place.repository})
        return (scope(self.place.repository, push=True), *(scope(each, push=False) for each in beside))

    def ask(
        self,
        method: str,
        url: str,
        *,
        scopes: Sequence[str],
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """A small request, tried again where the next try may go well: cut, 5xx, 429.

        Raises:
            HostUnreachableError: it was cut each time.
            ShipError: the registry asks for a login that is not there.
        """
        for number in range(1, TRIES):
            try:
                answer = self.once(method, url, scopes=scopes, headers=headers, body=lambda: body)
            except CutError:
                self.wait(back_off(number))
                continue
            if not may_pass(answer):
                return answer
            self.wait(retry_after(answer, number))
        try:
            return self.once(method, url, scopes=scopes, headers=headers, body=lambda: body)
        except CutError as cut:
            raise self.wire.unreachable(cut) from None

    def once(
        self,
        method: str,
        url: str,
        *,
        scopes: Sequence[str],
        headers: Mapping[str, str] | None = None,
        body: Callable[[], Body | None] = lambda: None,
    ) -> Answer:
        """One request with a login; a second one when its token had run out.

        Args:
            body: makes the body, for each request anew.

        Raises:
            CutError: as the wire.
            ShipError: the login is refused, or there is none.
        """
        sent = {**(headers or {}), **self._authorization(url, scopes)}
        answer = self.wire.send(method, url, headers=sent, body=body())
        if answer.status != _UNAUTHORIZED or not self.wire.is_own(url):
            return answer
        with self._guard:
            self._challenge = chosen(answer.headers.get("www-authenticate", "")) or self._challenge
            self._tokens.pop(tuple(scopes), None)
        again = {**(headers or {}), **self._authorization(url, scopes)}
        if again == sent:
            return answer
        return self.wire.send(method, url, headers=again, body=body())

    def _authorization(self, url: str, scopes: Sequence[str]) -> dict[str, str]:
        # Storage elsewhere, to which an upload may lead, has its own key in the address.
        if not self.wire.is_own(url) or self._challenge is None:
            return {}
        if self._challenge.scheme == "basic":
            return {"Authorization": self._login.basic} if self._login and self._login.user else {}
        with self._guard:
            wanted = tuple(scopes)
            if wanted not in self._tokens:
                self._tokens[wanted] = self._token(self._challenge, wanted)
            return {"Authorization": f"Bearer {self._tokens[wanted]}"}

    def _token(self, challenge: Challenge, scopes: Sequence[str]) -> str:
        url = challenge.token_url(scopes)
        if urlsplit(url).scheme != "https" and not self.place.plain_allowed:
            raise ShipError(
                "the registry wants the login sent by plain HTTP; it was not sent",
                where=str(self.place),
                why=f"its tokens come from {urlsplit(url).netloc or 'nowhere'}",
                hint="correct the token server's address in the registry's configuration",
            )
        answer = self._ask_for_token(url, challenge, scopes)
        if answer.status != 200:  # noqa: PLR2004
            raise self.refusal(answer, "gives no token")
        try:
            document = json.loads(answer.data)
            token = document.get("token") or document["access_token"]
        except (ValueError, KeyError, AttributeError):
            raise ShipError("the registry's token cannot be read", where=str(self.place)) from None
        return str(token)

    def _ask_for_token(self, url: str, challenge: Challenge, scopes: Sequence[str]) -> Answer:
        method, headers, body = "GET", {}, None
        if self._login and self._login.identity_token:
            form = {
                "grant_type": "refresh_token",
                "service": challenge.parameters.get("service", ""),
                "client_id": "sistership",
                "scope": " ".join(scopes),
                "refresh_token": self._login.identity_token,
            }
            method, url, body = "POST", url.partition("?")[0], urlencode(form).encode()
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
        elif self._login:
            headers = {"Authorization": self._login.basic}
        for number in range(1, TRIES + 1):
            try:
                answer = self.wire.send(method, url, headers=headers, body=body)
            except CutError as cut:
                if number == TRIES:
                    raise self.wire.unreachable(cut) from None
                self.wait(back_off(number))
                continue
            if number == TRIES or not may_pass(answer):
                break
            self.wait(retry_after(answer, number))
        return answer

    def refusal(self, answer: Answer, what: str) -> SistershipError:
        """The error that an answer stands for.

        Args:
            what: the registry does, or does not do: `gives no token`.
        """
        why = reason(answer)
        login = f"docker login {self.place.host}"
        hints = {
            401: (f"wants {'another' if self._login else 'a'} login", f"run: {login}"),
            403: ("does not allow this login to push there", f"ask for the right to push, or run: {login}"),
            404: ("has no such repository, or does not make one by itself", "make the repository there first"),
            405: ("is read-only", "name a registry that takes images"),
            413: ("takes no requests as large as this", "raise the limit of its proxy (client_max_body_size in nginx)"),
            429: ("asks for fewer requests", "wait, and run the command again"),
        }
        text, hint = hints.get(answer.status, (what, "see the registry's log, then run the command again"))
        return ShipError(f"the registry {text}", where=str(self.place), why=why, hint=hint)


def may_pass(answer: Answer) -> bool:
    """Whether the same request may go well later."""
    return answer.status == _BUSY or answer.status >= _SERVER


def back_off(number: int) -> float:
    """Seconds to wait after the try of this number (from 1): half a second, then twice as long each time."""
    return float(min(0.25 * 2**number, LONGEST))


def retry_after(answer: Answer, number: int, now: datetime | None = None) -> float:
    """Seconds to wait before a request is sent again: as `Retry-After` says, within reason, else longer each time."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isdigit():
        return min(float(text), LONGEST)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return back_off(number)
    seconds = (at.astimezone(UTC) - (now or datetime.now(UTC))).total_seconds()
    return min(max(seconds, 0.0), LONGEST)


def reason(answer: Answer) -> str:
    """An answer in words: its status, and what the registry's error document says."""
    said = ""
    try:
        errors: Any = json.loads(answer.data)["errors"]
        first = errors[0]
        said = f"{first.get('code', '')}: {first.get('message', '')}".strip(": ")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        said = answer.data.decode(errors="replace").strip().splitlines()[0] if answer.data.strip() else ""
    return f"HTTP {answer.status}{f', {said[:160]}' if said else ''}"
