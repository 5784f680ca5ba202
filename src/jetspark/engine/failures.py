"""What is said when handling a request raised something that nobody expected."""

import logging
import traceback
from typing import Final

from jetspark.engine.outbox import Outbox
from jetspark.engine.target import DIRECT_GET, NEXT, PUBLISH, Target
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.headers.status import SERVER_ERROR, status_block

log: logging.Logger = logging.getLogger("jetspark.engine")

TEXT: Final = "internal error"
BODY: Final = error_body(ErrCode.STREAM_GENERAL, err=TEXT)
INTERNAL_TEXT: Final = b"Internal Error"
_STATUS: Final = status_block(SERVER_ERROR, INTERNAL_TEXT)
# How much of the way to an error a line of the log shows.
_FRAMES: Final = 4
_ERROR_MAX: Final = 200


class RequestFailed(Exception):
    """Handling an API request raised its cause; ``answer`` is what the request is to hear."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(TEXT)
        self.answer: Final = answer


class Failures:
    """Counts and logs errors that nobody expected: the one place for them in a server.

    The caller has contained the error: a request, a stream or a consumer is the worse for
    it, and nothing else is.
    """

    def __init__(self) -> None:
        self.count: int = 0

    def note(self, what: str, error: BaseException) -> None:
        """Something failed: one line in the log says what and where."""
        self.count += 1
        cause = error.__cause__ if isinstance(error, RequestFailed) else None
        log.error("Internal error, %s: %s", what, where(cause or error))


def failure_answer(
    reply: bytes, target: Target | None, error: BaseException, outbox: Outbox
) -> None:
    """Answer with 500, in the shape of the request: a status, an error of the API, or a PubAck."""
    if isinstance(error, RequestFailed):
        outbox.reply(reply, error.answer)
    elif target is None or target.kind in {DIRECT_GET, NEXT}:
        outbox.reply_status(reply, _STATUS)
    elif target.kind == PUBLISH and target.stream is not None:
        outbox.reply(reply, target.stream.replies.failure(BODY))
    else:
        outbox.reply(reply, b'{"error":' + BODY + b"}")


def where(error: BaseException) -> str:
    """An error and the innermost places it came through, in one line."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    path = " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames))
    text = " ".join(str(error)[:_ERROR_MAX].split())
    return f"{type(error).__name__}: {text} ({path})"
