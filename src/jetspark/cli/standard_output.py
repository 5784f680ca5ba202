"""Bytes to the standard output, of which the reader may have had enough."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

# What shells report for other programs whose reader went away: 128 and SIGPIPE.
PIPE_CLOSED: Final = 141


@contextmanager
def standard_output() -> Iterator[BinaryIO]:
    """Lend the standard output; all of it is written when the block ends.

    When the reader goes away (`| head`) the command ends without a word. Other errors are raised.
    """
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except OSError as error:
        # What is still buffered has nowhere to go; Python would complain about it at the end.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        if isinstance(error, BrokenPipeError):
            sys.exit(PIPE_CLOSED)
        raise
