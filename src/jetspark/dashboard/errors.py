"""Errors of the dashboard's requests: an HTTP status, a sentence, and what to do about it."""

import asyncio
from http import HTTPStatus
from typing import Final

from jetspark.errors import (
    ApiError,
    BucketNotFound,
    ConnectionClosed,
    Error,
    JetStreamNotEnabled,
    KeyNotFound,
    MessageNotFound,
    NoResponders,
    ObjectNotFound,
    PermissionsViolation,
    RequestTimeout,
)

_CLIENT_ERRORS: Final = range(400, 500)
# What servers of a cluster answer while too few of them are up.
_NO_LEADER: Final = frozenset({10008, 10009})
_NO_LEADER_HINT: Final = (
    "Too few servers of the cluster are up, or they choose a leader: a majority is needed."
)
_HINTS: Final[dict[type[BaseException], str]] = {
    JetStreamNotEnabled: (
        "JetStream is off for this account: start the server with -js, or choose another account."
    ),
    RequestTimeout: (
        "The server did not answer in time. It may be busy, or the user of the dashboard may not "
        "send this request."
    ),
    PermissionsViolation: (
        "The user of the dashboard may not do this: give it publish permission for the subject, "
        "and subscribe permission for _INBOX.>."
    ),
    ConnectionClosed: "The dashboard is not connected, and tries again every few seconds.",
}


class BadInput(Exception):
    """An argument that cannot be used; the text says what was expected."""


class Forbidden(Exception):
    """A request that must not be sent; the text says why."""


class Unavailable(Exception):
    """Something that this deployment does not offer; ``hint`` says how to get it."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text, hint)
        self.text = text
        self.hint = hint


class Problem:
    """How an error is shown."""

    def __init__(self, status: int, text: str, hint: str = "", title: str = "") -> None:
        self.status: Final = int(status)
        self.text: Final = text
        self.hint: Final = hint
        # A page has one for each status, which is enough for most.
        self.title: Final = title

    def body(self) -> dict[str, object]:
        """The answer."""
        return {
            "error": self.text,
            "hint": self.hint,
            "status": self.status,
            "title": self.title,
        }


def problem_of(error: BaseException) -> Problem | None:
    """How to show an error; None for one that is a defect of ours."""
    hint = next((text for kind, text in _HINTS.items() if isinstance(error, kind)), "")
    match error:
        case BadInput() | ValueError():
            return Problem(HTTPStatus.BAD_REQUEST, str(error))
        case Forbidden():
            return Problem(HTTPStatus.FORBIDDEN, str(error))
        case Unavailable():
            return Problem(HTTPStatus.NOT_IMPLEMENTED, error.text, error.hint)
        case PermissionsViolation():
            return Problem(HTTPStatus.FORBIDDEN, str(error), hint)
        case RequestTimeout() | asyncio.TimeoutError():
            text = str(error) or "the request took too long"
            return Problem(HTTPStatus.GATEWAY_TIMEOUT, text, hint)
        case KeyNotFound() | ObjectNotFound() | BucketNotFound() | MessageNotFound():
            return Problem(HTTPStatus.NOT_FOUND, str(error))
        case JetStreamNotEnabled():
            title = "JetStream is off"
            return Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error), hint, title)
        case NoResponders() | ConnectionClosed():
            return Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error), hint)
        case ApiError() if error.err_code in _NO_LEADER:
            title = "The cluster has no leader"
            return Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error), _NO_LEADER_HINT, title)
        case ApiError():
            status = error.code if error.code in _CLIENT_ERRORS else HTTPStatus.BAD_GATEWAY
            return Problem(status, str(error), hint)
        case Error():
            return Problem(HTTPStatus.BAD_GATEWAY, str(error), hint)
        case _:
            return None
