"""Answers over HTTP, with the headers and texts of nats-server."""

import re
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.responses import PlainTextResponse, Response

from jetspark.api.base import encode

JSON: Final = "application/json"
_SCRIPT: Final = "application/javascript"
# A JavaScript name, or names joined by dots: anything else would be a program.
_CALLBACK: Final = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*", re.ASCII)
_CALLBACK_SIZE_MAX: Final = 128
# Larger answers are read by programs, and indenting them blocks the loop longer than the rest.
_INDENTED_SIZE_MAX: Final = 1024 * 1024


class Answers:
    """Builds responses. ``is_guarded`` says that they require the token.

    Then no other web page may read them: neither by CORS, which nats-server allows for all, nor as
    a script (JSONP), for which a browser would send stored credentials.
    """

    def __init__(self, *, is_guarded: bool) -> None:
        self._is_guarded = is_guarded

    def json(
        self,
        model: object,
        *,
        callback: str = "",
        status: int = HTTPStatus.OK,
        indent: bool = True,
    ) -> Response:
        """Return a model as JSON, indented for people as nats-server does.

        ``callback`` requests JSONP. nats-server had it up to 2.14.0 and ignores it since; here it
        is served where it can do no harm, and ignored otherwise.
        """
        body = _encode(model)
        if indent and len(body) <= _INDENTED_SIZE_MAX:
            body = msgspec.json.format(body, indent=2)
        if self._is_guarded:
            return Response(body, status, media_type=JSON)
        headers = {"Access-Control-Allow-Origin": "*"}
        if len(callback) <= _CALLBACK_SIZE_MAX and _CALLBACK.fullmatch(callback):
            # The comment at the start keeps plug-ins from loading the answer as one of their
            # files.
            body = b"/**/%b(%b)" % (callback.encode(), body)
            headers["X-Content-Type-Options"] = "nosniff"
            return Response(body, status, headers, media_type=_SCRIPT)
        return Response(body, status, headers, media_type=JSON)


def _encode(model: object) -> bytes:
    """Return the JSON of a model; file names in it need not be UTF-8."""
    try:
        return encode(model)
    except UnicodeEncodeError:
        return encode(_printable(msgspec.to_builtins(model, enc_hook=str)))


def _printable(value: object) -> object:
    """Escape in every text what UTF-8 cannot represent."""
    if isinstance(value, dict):
        return {_printable(key): _printable(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(held) for held in value]
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    return value


def refusal(text: str) -> Response:
    """Return a 400 for a wrong argument."""
    return PlainTextResponse(text, HTTPStatus.BAD_REQUEST)


def not_found() -> Response:
    """Return the answer of Go's HTTP server to an unknown path."""
    return PlainTextResponse(
        "404 page not found\n", HTTPStatus.NOT_FOUND, {"X-Content-Type-Options": "nosniff"}
    )
