"""An image of the store into a repository: blobs first, several at once, the manifest last."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sistership.errors import ShipError
from sistership.image.identity import Image
from sistership.image.layout import Store
from sistership.registry.client import Client
from sistership.registry.login import find_login
from sistership.registry.place import Place, tag_of
from sistership.registry.upload import Arrived, Outgoing, StoppedError, Upload
from sistership.registry.wire import Wire

Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class Pushed:
    """What a push did.

    Attributes:
        sent: blob bytes that travelled.
        there: blobs that the repository had.
        mounted: blobs that it took from a repository beside it.
    """

    place: Place
    image: Image
    sent: int
    there: int
    mounted: int


def open_client(place: Place) -> Client:
    """A client with the login that Docker keeps for the registry.

    Raises:
        HostUnreachableError: the registry does not answer.
        ShipError: it is none, its certificate does not verify, or the login cannot be read.
    """
    client = Client(Wire(place), find_login(place))
    client.begin()
    return client


def blobs_of(image: Image, store: Store) -> tuple[Outgoing, ...]:
    """What a repository needs before the manifest: each zstd layer once, the largest first, and the config.

    Raises:
        SistershipError: the config is missing or damaged in the store.
    """
    layers = {layer.digest: layer.size for layer in image.layers}
    sized = sorted(layers.items(), key=lambda pair: -pair[1])
    config = Outgoing(image.config, len(store.read(image.config)), store.path(image.config))
    return (*(Outgoing(digest, size, store.path(digest)) for digest, size in sized), config)


def missing(client: Client, image: Image, store: Store) -> tuple[Outgoing, ...]:
    """The blobs that a push would send or mount. Changes nothing."""
    return tuple(blob for blob in blobs_of(image, store) if client.blob_size(blob.digest) is None)


def push(
    client: Client,
    image: Image,
    store: Store,
    *,
    others: Sequence[str] = (),
    progress: Progress = lambda _done, _total: None,
    jobs: int = 4,
) -> Pushed:
    """Have an image in a repository, byte for byte as the store has it, under its digest and its config's 12 digits.

    Args:
        others: repositories of the same registry that blobs may be mounted from.
        progress: is told bytes done and bytes in all.
        jobs: blobs sent at once.

    Raises:
        ShipError: the registry refused something; what it has taken so far stays there.
        HostUnreachableError: it does not answer.
        SistershipError: a blob is damaged in the store; it was not sent to its end.
    """
    blobs = blobs_of(image, store)
    arrived = _Sending(client, blobs, others, progress).run(jobs)
    document = store.read(image.manifest)
    for reference in (image.manifest, tag_of(image)):
        if client.manifest(reference) != image.manifest:
            client.put_manifest(reference, document)
    found = client.manifest(tag_of(image))
    if found != image.manifest:
        raise ShipError(
            "the registry shows another manifest than the one that was sent",
            where=f"{client.place}:{tag_of(image)}",
            why=f"{found} instead of {image.manifest}",
            hint="does something rewrite images there, such as a converting proxy?",
        )
    return Pushed(
        client.place,
        image,
        sum(each.sent for each in arrived),
        sum(1 for each in arrived if each.how == "there"),
        sum(1 for each in arrived if each.how == "mounted"),
    )


class _Sending:
    """Blobs on their way, several at once."""

    def __init__(self, client: Client, blobs: Sequence[Outgoing], others: Sequence[str], progress: Progress) -> None:
        self._client = client
        self._others = tuple(others)
        self._progress = progress
        self._guard = threading.Lock()
        self._waiting = deque(blobs)
        self._total = sum(blob.size for blob in blobs)
        self._done = 0
        self._arrived: list[Arrived] = []
        self._errors: list[BaseException] = []

    def run(self, jobs: int) -> list[Arrived]:
        """Have them all in the repository; the first error ends the others and is raised."""
        # Daemons: whoever interrupts does not wait for a registry that has stopped to take bytes.
        threads = [threading.Thread(target=self._work, daemon=True, name=f"push-{each}") for each in range(jobs)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:
            self._client.stop.set()
            raise
        if self._errors:
            raise self._errors[0]
        return self._arrived

    def _work(self) -> None:
        try:
            while (blob := self._next()) is not None:
                arrived = Upload(self._client, blob, others=self._others, progress=self._count).run()
                if arrived.how != "sent":
                    self._count(blob.size)
                self._arrived.append(arrived)
        except StoppedError:
            return
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            self._errors.append(error)
            self._client.stop.set()

    def _next(self) -> Outgoing | None:
        with self._guard:
            return None if self._client.stop.is_set() or not self._waiting else self._waiting.popleft()

    def _count(self, size: int) -> None:
        with self._guard:
            self._done += size
            self._progress(min(self._done, self._total), self._total)
