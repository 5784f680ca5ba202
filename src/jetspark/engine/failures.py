"""Reports of unexpected exceptions while handling a request."""

import logging
from typing import Final

from jetspark.engine.outbox import Outbox
from jetspark.engine.target import DIRECT_GET, NEXT, PUBLISH, Target
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.errors.location import where
from jetspark.headers.status import SERVER_ERROR, status_block

log: logging.Logger = logging.getLogger("jetspark.engine")

TEXT: Final = "internal error"
BODY: Final = error_body(ErrCode.STREAM_GENERAL, err=TEXT)
INTERNAL_TEXT: Final = b"Internal Error"
_STATUS: Final = status_block(SERVER_ERROR, INTERNAL_TEXT)


class RequestFailed(Exception):
    """Handling an API request raised its cause; ``answer`` is the answer to the request."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(TEXT)
        self.answer: Final = answer


class Failures:
    """Counts and logs unexpected errors: the one place for them in a server.

    The caller has contained the error: it affects one request, stream or consumer, and nothing
    else.
    """

    def __init__(self) -> None:
        self.count: int = 0

    def note(self, what: str, error: BaseException) -> None:
        """Log one line about what failed and where."""
        self.count += 1
        cause = error.__cause__ if isinstance(error, RequestFailed) else None
        log.error("Internal error, %s: %s", what, where(cause or error))


def failure_answer(
    reply: bytes, target: Target | None, error: BaseException, outbox: Outbox
) -> None:
    """Answer with an error 500 in the form of the request: a status, an API error, or a PubAck."""
    if isinstance(error, RequestFailed):
        outbox.reply(reply, error.answer)
    elif target is None or target.kind in {DIRECT_GET, NEXT}:
        outbox.reply_status(reply, _STATUS)
    elif target.kind == PUBLISH and target.stream is not None:
        outbox.reply(reply, target.stream.replies.failure(BODY))
    else:
        outbox.reply(reply, b'{"error":' + BODY + b"}")
