"""Binary standard output, whose reader may close it early."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

# The exit code that shells report for a closed pipe: 128 and SIGPIPE.
PIPE_CLOSED: Final = 141


@contextmanager
def standard_output() -> Iterator[BinaryIO]:
    """Lend the standard output; everything is flushed when the block ends.

    If the reader closes it (`| head`) the command exits silently. Other errors are raised.
    """
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except OSError as error:
        # Buffered data cannot be written; Python would complain about it at exit.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        if isinstance(error, BrokenPipeError):
            sys.exit(PIPE_CLOSED)
        raise
