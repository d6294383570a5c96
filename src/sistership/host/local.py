"""This machine as a host."""

from __future__ import annotations

from contextlib import AbstractContextManager

from sistership.errors import HostUnreachableError
from sistership.host.ended import stopped
from sistership.host.lines import Line, to_local
from sistership.host.process import Processes
from sistership.host.transport import STALL, Completed, Frame, Input, Sink, Unframe
from sistership.host.watch import over_limit


class Local:
    """Runs scripts on this machine, with the environment of the caller."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._processes = Processes()

    def run(
        self,
        script: str,
        *,
        stdin: Input | None = None,
        sink: Sink | None = None,
        timeout: float | None = None,
        stall: float | None = STALL,
    ) -> Completed:
        """See Transport.run."""
        frame = Frame.fresh()
        kept: list[bytes] = []
        unframe = Unframe(frame, sink or kept.append)
        command = ["/bin/sh", "-c", frame.wrap(script)]
        ended = self._processes.run(command, stdin=stdin, sink=unframe.feed, timeout=timeout, stall=stall)
        status = unframe.finish()
        if status is None and ended.cause:
            raise over_limit(self.host, ended.cause, timeout, stall)
        if status is None and self._processes.closed:
            raise stopped(self.host)
        if status is None:
            why = ended.err.strip()[-300:] or "it was ended"
            raise HostUnreachableError("a command on this machine did not finish", where=self.host, why=why)
        return Completed(status, b"".join(kept), ended.err)

    def dial(self, port: int) -> AbstractContextManager[Line]:
        """See Transport.dial."""
        return to_local(port)

    def close(self) -> None:
        """End what still runs."""
        self._processes.close()
