"""The log of `jetspark serve`: in the format of nats-server, because tools parse it."""

import logging
import os
import sys
import time
from typing import Final

from jetspark.server.config.settings import Settings
from jetspark.server.net.trace import TRACE

_LEVELS: Final = {
    TRACE: "TRC",
    logging.DEBUG: "DBG",
    logging.INFO: "INF",
    logging.WARNING: "WRN",
    logging.ERROR: "ERR",
    logging.CRITICAL: "FTL",
}


class NatsFormatter(logging.Formatter):
    """`[pid] 2026/11/15 07:01:04.606146 [INF] text`."""

    def __init__(self, *, with_time: bool, utc: bool) -> None:
        super().__init__()
        self._with_time = with_time
        self._clock = time.gmtime if utc else time.localtime

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback if there is one."""
        line = f"[{os.getpid()}] "
        if self._with_time:
            second = time.strftime("%Y/%m/%d %H:%M:%S", self._clock(record.created))
            line += f"{second}.{int(record.created % 1 * 1_000_000):06d} "
        line += f"[{_LEVELS.get(record.levelno, 'INF')}] {record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def open_log(settings: Settings) -> logging.Handler:
    """The log destination of the settings: stderr or a file. Raises OSError."""
    handler: logging.Handler
    if settings.logfile:
        try:
            handler = logging.FileHandler(settings.logfile)
        except OSError as error:
            problem = f"cannot write the log {settings.logfile}: {error.strerror}"
            raise OSError(error.errno, problem) from error
    else:
        handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(NatsFormatter(with_time=settings.logtime, utc=settings.logtime_utc))
    return handler


def set_up_log(settings: Settings, handler: logging.Handler) -> None:
    """Log to this handler from now on; called again when the settings change."""
    logger = logging.getLogger("jetspark")
    for old in list(logger.handlers):
        logger.removeHandler(old)
        old.close()
    logger.addHandler(handler)
    level = logging.DEBUG if settings.debug else logging.INFO
    logger.setLevel(TRACE if settings.trace or settings.trace_verbose else level)
    logger.propagate = False


def reopen_log(settings: Settings) -> None:
    """Start a new file after the old one was moved away (SIGUSR1)."""
    log = logging.getLogger("jetspark.server")
    try:
        handler = open_log(settings)
    except OSError as error:
        log.error("Logging continues in the old file: %s", error.strerror)  # noqa: TRY400
        return
    set_up_log(settings, handler)
    log.info("File log re-opened")
