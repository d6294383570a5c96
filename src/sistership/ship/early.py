"""Loading begins before the last byte has arrived: the host reads each layer while it is written.

The archive goes to the engine as ever, from the host's own disk and with its metadata last: those follow only when
every layer was checked and has its name. Whatever fails here costs nothing: the load is then done in the usual way.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from sistership.errors import SistershipError
from sistership.host.inventory import Peer
from sistership.image.archive import pieces
from sistership.image.layout import Store
from sistership.image.prefix import Prefix
from sistership.image.release import Release
from sistership.ship.batches import Batch, batches, name_of
from sistership.ship.load import Assembly, assemble, give_up_script, load, put
from sistership.ship.plan import HostPlan

#: Seconds for the loading thread to end when its layers will not come.
_PATIENCE = 30
#: Loads at a time: the engine takes in the archive of one while it unpacks the layers of the one before.
_AT_ONCE = 2


class EarlyLoad:
    """The loads of a plan, done in a thread of their own while the layers are sent.

    Args:
        cuts: the image's lowest layers as images, by depth.
    """

    def __init__(self, peer: Peer, release: Release, plan: HostPlan, store: Store, cuts: dict[int, Prefix]) -> None:
        self._peer = peer
        self._release = release
        self._loads: list[tuple[Assembly, str]] = []
        for batch in batches(plan, release):
            after = self._loads[-1][0].file if self._loads else ""
            self._loads.append(_assembly(release, plan, store, batch, cuts, after))
        self._given_up = threading.Event()
        self._trouble = ""
        self._words = ""
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"load-{peer.name}")

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give up what is still waited for, when the layers could not be sent."""
        if kind is not None:
            self.give_up()
            self._thread.join(_PATIENCE)

    def give_up(self) -> None:
        """Some layer will not come as it was announced: what waits for it ends."""
        if self._given_up.is_set():
            return
        self._given_up.set()
        self._break([each.promise for each, _ in self._loads if each.promise])

    def wait(self) -> str:
        """Wait for the last load. Returns why it did not come to an end; "" when it did."""
        self._thread.join()
        return self._trouble

    @property
    def words(self) -> str:
        """What the engine printed of the last load."""
        return self._words

    def _run(self) -> None:
        running: list[threading.Thread] = []
        for assembly, name in self._loads:
            if len(running) >= _AT_ONCE:
                running[-_AT_ONCE].join()
            if not self._given_up.is_set():
                with self._explained():
                    put(self._peer, assembly, self._release)  # in this order: each load finds the one it waits for
            if self._given_up.is_set():
                self._failed("a layer came otherwise than it was announced")
                self._break([assembly.promise])  # it may have been put after the others were broken
            if self._trouble:
                break
            thread = threading.Thread(target=self._load, args=(assembly, name), daemon=True)
            thread.start()
            running.append(thread)
        for thread in running:
            thread.join()

    def _break(self, promises: Sequence[str]) -> None:
        with contextlib.suppress(SistershipError):
            self._peer.transport.run(give_up_script([each for each in promises if each]), timeout=10)

    def _load(self, assembly: Assembly, name: str) -> None:
        with self._explained():
            self._words = load(self._peer, assembly, name, followed=not name)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """What fails is told by wait(); the load is then done in the usual way."""
        try:
            yield
        except SistershipError as error:
            self._failed(f"{error.what}: {error.why}" if error.why else error.what)
        except Exception as error:  # noqa: BLE001 - a thread of its own: nobody else would hear of it
            self._failed(repr(error))

    def _failed(self, why: str) -> None:
        """Note the first trouble: what waited for that load fails after it."""
        self._trouble = self._trouble or why


def _assembly(
    release: Release, plan: HostPlan, store: Store, batch: Batch, cuts: dict[int, Prefix], after: str
) -> tuple[Assembly, str]:
    """The archive of one batch, and the name that the whole image gets once more."""
    coming = {each.layer.diff_id for each in plan.layers if each.state in {"send", "difference", "copy"}}
    cut = cuts.get(batch.depth)
    image = cut.image if cut else release.image
    parts = pieces(
        image,
        store,
        name=name_of(release, cut) if cut else release.unique,
        plain=plan.plain,
        leave_out=frozenset(image.diff_ids) - batch.layers,
        documents_of=cut.documents if cut else None,
    )
    return assemble(parts, release, plan.encoding, plan.files, coming, after), "" if cut else release.unique
