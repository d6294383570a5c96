"""Loading begins before the last byte has arrived: the host reads each layer while it is written.

The archive goes to the engine as ever, from the host's own disk and with its metadata last: those follow only when
every layer was checked and has its name. Whatever fails here costs nothing: the load is then done in the usual way.
"""

from __future__ import annotations

import contextlib
import threading
from types import TracebackType
from typing import Self

from sistership.errors import SistershipError
from sistership.host.inventory import Peer
from sistership.image.archive import pieces
from sistership.image.layout import Store
from sistership.image.prefix import Prefix
from sistership.image.release import Release
from sistership.ship.batches import Batch, batches, name_of
from sistership.ship.load import Assembly, assemble, give_up_script, load
from sistership.ship.plan import HostPlan

#: Seconds for the loading thread to end when its layers will not come.
_PATIENCE = 30


class EarlyLoad:
    """The loads of a plan, done in a thread of their own while the layers are sent.

    Args:
        cuts: the image's lowest layers as images, by depth.
    """

    def __init__(self, peer: Peer, release: Release, plan: HostPlan, store: Store, cuts: dict[int, Prefix]) -> None:
        self._peer = peer
        self._release = release
        self._loads = [_assembly(release, plan, store, batch, cuts) for batch in batches(plan, release)]
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
        promises = [each.promise for each, _ in self._loads if each.promise]
        with contextlib.suppress(SistershipError):
            self._peer.transport.run(give_up_script(promises), timeout=10)

    def wait(self) -> str:
        """Wait for the last load. Returns why it did not come to an end; "" when it did."""
        self._thread.join()
        return self._trouble

    @property
    def words(self) -> str:
        """What the engine printed of the last load."""
        return self._words

    def _run(self) -> None:
        try:
            for assembly, name in self._loads:
                if self._given_up.is_set():
                    self._trouble = "a layer came otherwise than it was announced"
                    return
                self._words = load(self._peer, assembly, self._release, name)
        except SistershipError as error:
            self._trouble = f"{error.what}: {error.why}" if error.why else error.what
        except Exception as error:  # noqa: BLE001 - told by wait(); the load is then done in the usual way
            self._trouble = repr(error)


def _assembly(
    release: Release, plan: HostPlan, store: Store, batch: Batch, cuts: dict[int, Prefix]
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
    return assemble(parts, release, plan.encoding, plan.files, coming), "" if cut else release.unique
