"""What every test can rely on, however the tests were started."""

from __future__ import annotations

import signal

from hypothesis import settings


def pytest_configure() -> None:
    """Let no example fail for being slow on a busy machine, and give interrupts their usual meaning back.

    Under nohup, in a background job or a CI runner they may be ignored, children inherit that,
    and sistership rightly leaves ignored what was ignored: tests that interrupt it would wait for ever.
    """
    settings.register_profile("unhurried", deadline=None)
    settings.load_profile("unhurried")
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
