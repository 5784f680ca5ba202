"""SIGTERM and Ctrl-C during a run: clean up, and print one line."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NoReturn

import click

from jetspark.spark.session import jvm_process

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
# Seconds that Spark may take to stop. It waits for its tasks, forever if necessary.
_PATIENCE_S: Final = 20


class Stopped(BaseException):
    """A signal arrived; not an Exception, so that nothing handles it as an error."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def ends_on_signals() -> Iterator[Callable[[], None]]:
    """Exit on a signal with code 128 plus its number, after cleaning up.

    Lends a function that installs the handlers again: Spark replaces that of SIGINT at its start.
    """
    before: dict[signal.Signals, Any] = {number: signal.getsignal(number) for number in _SIGNALS}
    _take()
    try:
        yield _take
    except Stopped as stopped:
        _end(stopped.number)
    except KeyboardInterrupt:
        _end(signal.SIGINT)
    finally:
        signal.alarm(0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _take() -> None:
    def on_signal(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
        # Cleaning up takes seconds; a second signal ends the process at once.
        for one in _SIGNALS:
            signal.signal(one, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, lambda _number, _frame: _break_off(number))
        signal.alarm(_PATIENCE_S)
        raise Stopped(number)

    for number in _SIGNALS:
        signal.signal(number, on_signal)


def _end(number: int) -> NoReturn:
    _say_why(number)
    sys.exit(128 + number)


def _break_off(number: int) -> NoReturn:
    """Exit without waiting any longer: what was committed is on disk, the rest is repeated."""
    jvm = jvm_process()
    if jvm is not None:
        jvm.kill()  # it would continue its tasks
    _say_why(number)
    os._exit(128 + number)


def _say_why(number: int) -> None:
    name = signal.Signals(number).name
    click.echo(f"jetspark: stopped by {name}; the next run continues from here", err=True)
