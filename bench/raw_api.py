"""Streams and consumers by raw requests, so that one program measures builds of any signatures."""

import json
from typing import Any


def stream_request(name: str, **fields: Any) -> tuple[str, bytes]:
    """Subject and body of a request that creates a stream."""
    return f"$JS.API.STREAM.CREATE.{name}", json.dumps({"name": name, **fields}).encode()


def consumer_request(stream: str, name: str, **fields: Any) -> tuple[str, bytes]:
    """Subject and body of a request that creates a consumer."""
    body = {"stream_name": stream, "config": {"name": name, **fields}}
    return f"$JS.API.CONSUMER.CREATE.{stream}.{name}", json.dumps(body).encode()


def checked(answer: Any) -> None:
    """Raise what a server says against it."""
    error = json.loads(answer.data).get("error")
    if error:
        raise RuntimeError(error["description"])
