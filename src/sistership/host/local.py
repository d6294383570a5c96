"""This machine as a host."""

from __future__ import annotations

from collections.abc import Iterable

from sistership.errors import HostUnreachableError
from sistership.host.process import Processes
from sistership.host.transport import Completed, Frame, Sink, Unframe


class Local:
    """Runs scripts on this machine, with the environment of the caller."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._processes = Processes()

    def run(
        self,
        script: str,
        *,
        stdin: bytes | Iterable[bytes] | None = None,
        sink: Sink | None = None,
        timeout: float | None = None,
    ) -> Completed:
        """See Transport.run."""
        frame = Frame.fresh()
        kept: list[bytes] = []
        unframe = Unframe(frame, sink or kept.append)
        ended = self._processes.run(
            ["/bin/sh", "-c", frame.wrap(script)], stdin=stdin, sink=unframe.feed, timeout=timeout
        )
        status = unframe.finish()
        if status is None:
            why = f"no end after {timeout:g} s" if ended.timed_out else (ended.err.strip()[-300:] or "it was ended")
            raise HostUnreachableError("a command on this machine did not finish", where=self.host, why=why)
        return Completed(status, b"".join(kept), ended.err)

    def close(self) -> None:
        """End what still runs."""
        self._processes.close()
