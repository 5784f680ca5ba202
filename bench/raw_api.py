"""Streams, consumers and buckets by raw requests, so that one program can measure any build."""

import json
from typing import Any


def stream_request(name: str, **fields: Any) -> tuple[str, bytes]:
    """Subject and body of a request that creates a stream."""
    return f"$JS.API.STREAM.CREATE.{name}", json.dumps({"name": name, **fields}).encode()


def consumer_request(stream: str, name: str, **fields: Any) -> tuple[str, bytes]:
    """Subject and body of a request that creates a consumer."""
    body = {"stream_name": stream, "config": {"name": name, **fields}}
    return f"$JS.API.CONSUMER.CREATE.{stream}.{name}", json.dumps(body).encode()


def bucket_request(bucket: str, **fields: Any) -> tuple[str, bytes]:
    """Subject and body of a request that creates the stream of a bucket."""
    settings: dict[str, Any] = {
        "max_msgs_per_subject": 1,
        "allow_direct": True,
        "allow_rollup_hdrs": True,
    }
    settings |= {"deny_delete": True, "discard": "new", "subjects": [f"$KV.{bucket}.>"]}
    return stream_request(f"KV_{bucket}", **settings, **fields)


def checked(answer: Any) -> None:
    """Raise the server's error, if any."""
    error = json.loads(answer.data).get("error")
    if error:
        raise RuntimeError(error["description"])
