"""Any transport, with each script told to whoever observes the run."""

from __future__ import annotations

from contextlib import AbstractContextManager

from sistership import trace
from sistership.host.lines import Line
from sistership.host.transport import STALL, Completed, Input, Sink, Transport


class Traced:
    """A transport that tells what runs through it, and otherwise is the one it was given."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    @property
    def host(self) -> str:
        """The host's name in the inventory."""
        return self._inner.host

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
        with trace.script(self.host, script) as span:
            done = self._inner.run(script, stdin=stdin, sink=sink, timeout=timeout, stall=stall)
            span.end(done.status, done.err)
            return done

    def dial(self, port: int) -> AbstractContextManager[Line]:
        """See Transport.dial."""
        return self._inner.dial(port)

    def close(self) -> None:
        """See Transport.close."""
        self._inner.close()
