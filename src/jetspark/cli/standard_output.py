"""Standard output whose reader may close it early (`| head`)."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NoReturn

from jetspark.cli.exit_codes import PIPE_CLOSED


@contextmanager
def standard_output() -> Iterator[BinaryIO]:
    """Lend the binary standard output; everything is flushed when the block ends.

    If the reader closes it the command exits silently. Other errors are raised.
    """
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        leave_closed_pipe()
    except OSError:
        drop_buffered()
        raise


def leave_closed_pipe() -> NoReturn:
    """Exit silently: the reader of standard output has closed it."""
    drop_buffered()
    sys.exit(PIPE_CLOSED)


def drop_buffered() -> None:
    """Forget buffered data, which cannot be written; Python would complain about it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
