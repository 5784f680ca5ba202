"""nats-server 2.15.1 and ours, each in a process of its own, and what is compared of answers."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.support.raw_requests import RawClient, Reply
from tests.support.served import Served
from tests.support.servers import ServerProcess

from jetspark import sync

TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+Z")


@contextmanager
def running_nats_server(store: Path, config: Path | None = None) -> Iterator[str]:
    """Run nats-server; gives where it listens."""
    more = () if config is None else ("-c", str(config))
    process = ServerProcess("nats-server", store, "-js", *more)
    try:
        yield process.address
    finally:
        process.kill()


@contextmanager
def nats_server(store: Path, options: str = "", config: Path | None = None) -> Iterator[RawClient]:
    with running_nats_server(store, config) as address:
        client = RawClient(address, options)
        try:
            yield client
        finally:
            client.close()


@contextmanager
def jetspark_server(
    store: Path, options: str = "", config: Path | None = None, *, killed: bool = False
) -> Iterator[RawClient]:
    """Ours, in a thread of this process; with ``killed`` in one of its own that is killed."""
    with contextlib.ExitStack() as stack:
        if killed:
            more = () if config is None else ("-c", str(config))
            served = Served(store, "-p", "-1", "-js", *more)
            stack.callback(served.end)
            url = served.url
        else:
            server = sync.Server(store_dir=store, config=config, host="127.0.0.1", port=-1)
            url = stack.enter_context(server).client_url
        client = RawClient(url.removeprefix("nats://"), options)
        stack.callback(client.close)
        yield client


def masked(replies: list[Reply]) -> list[tuple[str, Any]]:
    """Replies with times, servers and our additions taken out; JSON is compared as JSON."""
    return [
        (TIME.sub("TIME", reply.headers.decode()), masked_body(reply.payload)) for reply in replies
    ]


def masked_body(payload: bytes) -> Any:
    text = payload.decode("utf-8", "backslashreplace")
    if not text.startswith("{"):
        return text
    try:
        body = json.loads(TIME.sub(lambda at: at[0] if at[0].startswith("0001") else "TIME", text))
    except ValueError:
        return text  # a message that only begins like an answer
    if "cluster" in body:
        body["cluster"]["leader"] = "SERVER"
    if body.get("error", {}).get("err_code") == 10025:
        body["error"]["description"] = "invalid JSON"  # which says what is wrong in other words
    return body


def comparable(error: dict[str, Any]) -> dict[str, Any]:
    return error | {"description": ""} if error["err_code"] == 10025 else error


def label(config: object) -> str:
    return str(config)[:60]
