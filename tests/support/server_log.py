"""The log of this process, which `jetspark serve` sets up: restored after a test that did so."""

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def restored_log() -> Iterator[None]:
    """Let the code inside set up the log; later tests find it as it was."""
    logger = logging.getLogger("jetspark")
    handlers, level, propagate = list(logger.handlers), logger.level, logger.propagate
    logger.handlers = []
    try:
        yield
    finally:
        for handler in logger.handlers:
            handler.close()
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)
