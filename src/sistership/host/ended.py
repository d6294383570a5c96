"""What a user is told when a script on a host did not come to its end; the same over every transport."""

from __future__ import annotations

from sistership.errors import HostUnfitError, HostUnreachableError, StoppedError
from sistership.host.transport import Unframe

CUT = "the connection was cut"
CUT_HINT = "run the command again; what has arrived is kept"


def cut(host: str, err: str) -> HostUnreachableError:
    """The script ran, and then the connection was gone."""
    return HostUnreachableError(CUT, where=host, why=_last(err), hint=CUT_HINT)


def stopped(host: str) -> StoppedError:
    """This run ends, and with it what it does on its hosts."""
    return StoppedError("interrupted", where=host, hint=CUT_HINT)


def silent(host: str, why: str) -> HostUnreachableError:
    """Nothing comes back from it."""
    hint = "is the machine on, and the network up?"
    return HostUnreachableError("it does not answer", where=host, why=why, hint=hint)


def forwards_nothing(host: str) -> HostUnfitError:
    """Its sshd lets nobody through to a port."""
    hint = "set AllowTcpForwarding yes (or local) in its sshd_config, or PermitOpen for that port"
    return HostUnfitError("its sshd forwards no port", where=host, hint=hint)


def shell_ended(host: str, status: int, unframe: Unframe, err: str) -> HostUnfitError:
    """The connection holds, but the shell there ended before the closing line."""
    if unframe.opened:
        return HostUnfitError(
            f"its shell was ended in the middle of the work (exit status {status})",
            where=host,
            why=_last(err),
            hint="was memory short there? see dmesg, then run the command again",
        )
    said = unframe.preface.decode(errors="replace").strip()[:200]
    return HostUnfitError(
        f"its login shell ended before the script ran (exit status {status})",
        where=host,
        why=said or _last(err),
        hint="its login files must let commands without a terminal through; sh and base64 must be there",
    )


def _last(err: str) -> str | None:
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    return lines[-1][:200] if lines else None
