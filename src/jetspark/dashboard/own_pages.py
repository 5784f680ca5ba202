"""Bodies that only a page of this dashboard can have sent.

A form of another site can send no JSON, and a script of it cannot send the headers of this one.
"""

from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request

from jetspark.dashboard.errors import BadInput, Forbidden


async def read_body(request: Request, most: int) -> dict[str, Any]:
    """The JSON object of a request of a page of ours; raises Forbidden or BadInput."""
    origin = request.headers.get("origin")
    if origin is not None and _netloc(origin) != request.headers.get("host"):
        raise Forbidden(f"a request from the origin {origin[:100]!r} is refused")
    if request.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        raise Forbidden("a request from another site is refused")
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise BadInput("expected a body of the type application/json")
    text = bytearray()
    async for chunk in request.stream():
        text += chunk
        if len(text) > most:
            raise BadInput(f"the body is larger than {most} bytes")
    try:
        fields = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"the body is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise BadInput("expected a JSON object")
    return fields


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
