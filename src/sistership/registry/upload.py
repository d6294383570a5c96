"""One blob into a repository: mounted from one beside it where that has it, else sent in parts that can be resumed.

A cut upload goes on where the registry says that it stands (`GET` on the upload, its `Range`). Registries made of
distribution 2 cannot say so (measured with 2.8.3: 404, and the upload is gone); there the blob begins anew.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from sistership.errors import ShipError, SistershipError
from sistership.image import disk
from sistership.image.blobs import damaged
from sistership.registry.client import TRIES, Client, back_off, may_pass, retry_after
from sistership.registry.wire import Answer, CutError

#: Bytes of one request: below the 100 MB that common proxies allow, and large enough that a round trip costs nothing.
PART: Final = 64 << 20
#: Parts are not made smaller than this when a registry finds them too large.
LEAST: Final = 1 << 20
_CHUNK: Final = 1 << 20
_RANGE: Final = re.compile(r"(?:bytes[ =])?0-(\d+)")

Progress = Callable[[int], object]


class StoppedError(Exception):
    """Another blob failed; this one is not needed any more."""


@dataclass(frozen=True)
class Outgoing:
    """A blob of the store: its digest, its bytes' count, its file."""

    digest: str
    size: int
    path: Path


@dataclass(frozen=True)
class Arrived:
    """How a blob came to be in the repository: `there`, `mounted` or `sent`, and the bytes that travelled for it."""

    how: str
    sent: int = 0


class Upload:
    """One blob on its way. The bytes are hashed while they are read, once.

    Args:
        client: its `stop` ends this upload too.
        others: repositories of the same registry that may have the blob.
        progress: is told bytes as they go out.
    """

    def __init__(
        self,
        client: Client,
        blob: Outgoing,
        *,
        others: tuple[str, ...] = (),
        progress: Progress = lambda _: None,
        part: int = PART,
    ) -> None:
        self._client = client
        self._blob = blob
        self._others = others
        self._progress = progress
        self._stop = client.stop
        self._part = part
        self._least = 0  # bytes that a part must have at least, as the registry says
        self._refused = 0  # bytes of the smallest part that was too large; 0: none was
        self._scopes = client.scopes()
        self._hash = hashlib.sha256()
        self._hashed = 0
        self._sent = 0
        self._failed = 0
        self._location = ""

    def run(self) -> Arrived:
        """Have the blob in the repository.

        Raises:
            ShipError: the registry refuses it, or keeps nothing of it.
            HostUnreachableError: the connection was cut again and again.
            SistershipError: the store's file is damaged; the registry keeps nothing of it.
            StoppedError: the client was stopped.
        """
        if self._client.blob_size(self._blob.digest) is not None:
            return Arrived("there")
        if self._mounted():
            return Arrived("mounted")
        for last in (False, True):
            self._parts()
            if f"sha256:{self._hash.hexdigest()}" != self._blob.digest:
                self._client.ask("DELETE", self._location, scopes=self._scopes)
                raise self._other_bytes()
            refused = self._finish()
            if refused is None:
                break
            if last:
                raise self._client.refusal(refused, "does not take the finished blob")
            # A blob that a registry finds wrong at its end is sent once more, from the beginning.
            self._open()
        return Arrived("sent", self._sent)

    def _mounted(self) -> bool:
        """Begin the upload; True when the registry took the blob from a repository beside this one instead."""
        for other in self._others:
            if self._client.blob_size(self._blob.digest, other) is not None:
                return self._open(other)
        return self._open()

    def _open(self, other: str | None = None) -> bool:
        scopes = self._client.scopes(other)
        url = self._client.url("blobs/uploads/")
        if other:
            url += "?" + urlencode({"mount": self._blob.digest, "from": other})
        answer = self._client.ask("POST", url, scopes=scopes, headers={"Content-Length": "0"}, body=b"")
        if answer.status == 201 and other:  # noqa: PLR2004
            return True
        if answer.status != 202 or "location" not in answer.headers:  # noqa: PLR2004
            raise self._client.refusal(answer, "does not take blobs")
        self._take(answer)
        least = answer.headers.get("oci-chunk-min-length", "")
        self._least = int(least) if least.isdigit() else 0
        self._fit()
        return False

    def _fit(self) -> None:
        """Make parts as large as the registry asks for.

        Raises:
            ShipError: something on the way, mostly a proxy, takes none as large as that.
        """
        if self._refused and self._least >= self._refused:
            raise ShipError(
                "the registry wants larger parts than its proxy takes",
                where=str(self._client.place),
                why=f"it wants {self._least} bytes or more at once (oci-chunk-min-length); "
                f"{self._refused} bytes were refused (HTTP 413)",
                hint="raise the limit of its proxy above that (client_max_body_size in nginx), or use --via direct",
            )
        self._part = max(self._part, self._least)

    def _take(self, answer: Answer) -> None:
        if "location" in answer.headers:
            self._location = self._client.wire.resolve(answer.headers["location"])

    def _parts(self) -> None:
        """Send the blob part after part, from wherever the upload stands.

        Only a byte beyond all that the registry ever had counts as progress: a blob that begins anew again and again,
        or a part that is taken and not kept, has an end.
        """
        offset = furthest = 0
        while offset < self._blob.size:
            end = min(offset + self._part, self._blob.size)
            try:
                answer = self._patch(offset, end)
            except CutError:
                offset = self._recovered(offset, None)
                continue
            if answer.status in {202, 204}:
                self._take(answer)
                # What was not sent yet the registry cannot have.
                stands = min(_stands(answer) or end, end)
                if stands > furthest:
                    self._failed, furthest = 0, stands
                offset = stands if stands > offset else self._recovered(offset, answer)
            elif answer.status == 413 and end - offset > LEAST:  # noqa: PLR2004
                self._refused = end - offset
                self._part = max(self._refused // 2, LEAST)
                self._fit()
                offset = self._stand_of(offset)
            elif may_pass(answer) or answer.status in {404, 416}:
                offset = self._recovered(offset, answer)
            else:
                raise self._client.refusal(answer, "does not take the blob")

    def _patch(self, start: int, end: int) -> Answer:
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(end - start),
            "Content-Range": f"{start}-{end - 1}",
        }
        return self._client.once(
            "PATCH", self._location, scopes=self._scopes, headers=headers, body=lambda: self._read(start, end)
        )

    def _read(self, start: int, end: int) -> Iterator[bytes]:
        with disk.explained(self._blob.path, "a blob cannot be read"):
            file = self._blob.path.open("rb")
        with file:
            file.seek(start)
            at = start
            while at < end:
                if self._stop.is_set():
                    raise StoppedError
                chunk = file.read(min(_CHUNK, end - at))
                if not chunk:
                    raise damaged(self._blob.path)
                if at + len(chunk) > self._hashed:
                    self._hash.update(chunk[self._hashed - at :])
                    self._hashed = at + len(chunk)
                at += len(chunk)
                yield chunk
                self._sent += len(chunk)
                self._progress(len(chunk))

    def _recovered(self, offset: int, answer: Answer | None) -> int:
        """Wait, then find out where the upload stands, or begin a new one. Returns the offset to go on from."""
        if self._stop.is_set():
            raise StoppedError
        self._failed += 1
        if self._failed >= TRIES:
            if answer is not None:
                kept = "takes parts of the blob and keeps nothing of them"
                raise self._client.refusal(answer, "does not take the blob" if answer.status >= 400 else kept)  # noqa: PLR2004
            raise ShipError(
                f"the upload of {self._blob.digest[7:19]} was cut {self._failed} times",
                where=str(self._client.place),
                hint="run the command again: finished blobs are not sent again; or use --via direct",
            )
        self._client.wait(retry_after(answer, self._failed) if answer else back_off(self._failed))
        return self._stand_of(offset)

    def _stand_of(self, acknowledged: int) -> int:
        answer = self._client.ask("GET", self._location, scopes=self._scopes)
        stands = _stands(answer) if answer.status in {200, 204} else 0
        # Distribution 2 says "0-0" of any upload: less than it has acknowledged is not believed.
        # Nor is more than was ever read: it would be hashed by nobody.
        if stands and acknowledged <= stands <= self._hashed:
            self._take(answer)
            return stands
        self._open()
        return 0

    def _other_bytes(self) -> SistershipError:
        """The error when what went out has another digest; nobody is told to delete a file that is sound."""
        if not _is_sound(self._blob):
            return damaged(self._blob.path)
        return ShipError(
            f"the upload of {self._blob.digest[7:19]} went wrong: other bytes went out than the store has",
            where=str(self._client.place),
            why="the store's file is sound; the registry keeps nothing of the upload",
            hint="run the command again: finished blobs are not sent again; or use --via direct",
        )

    def _finish(self) -> Answer | None:
        """Close the upload; the registry's refusal when the blob has to be sent again."""
        mark = "&" if "?" in self._location else "?"
        url = f"{self._location}{mark}{urlencode({'digest': self._blob.digest})}"
        answer = self._client.ask("PUT", url, scopes=self._scopes, headers={"Content-Length": "0"}, body=b"")
        if answer.status in {201, 204}:
            return None
        if answer.status not in {400, 404, 416}:
            raise self._client.refusal(answer, "does not take the finished blob")
        # An answer that was lost: the second try finds no upload, but the blob.
        return None if self._client.blob_size(self._blob.digest) is not None else answer


def _is_sound(blob: Outgoing) -> bool:
    with disk.explained(blob.path, "a blob cannot be read"), blob.path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}" == blob.digest


def _stands(answer: Answer) -> int:
    """How many bytes the registry says it has; 0 where it does not say, or says `0-0`, which may mean none."""
    found = _RANGE.fullmatch(answer.headers.get("range", ""))
    return int(found[1]) + 1 if found and int(found[1]) else 0
