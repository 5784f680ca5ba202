"""Batches over a raw socket, for both servers of the differential tests (wire.md, Batches).

A fast batch is answered on many subjects and not once per message, so no one knows beforehand what
to wait for: the released server is asked first and listened to until it is silent, then ours must
say the same within the usual patience.
"""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from tests.interop.publishing.publish_wire import (
    Api,
    Pub,
    RawClient,
    api,
    block,
    contents,
    masked,
    published,
)

PREFIX = "_F.differential"
# The released server answers within a millisecond (wire.md, Limits and timings).
SILENCE_SECONDS = 0.012
PATIENCE_SECONDS = 5.0
PING = 4


@dataclass(frozen=True)
class Fast:
    """One message of a fast batch, in the reply-subject dialect."""

    seq: int | str
    op: int | str = 1
    batch: str = "b"
    gap: str = "fail"
    flow: int | str = 10
    subject: str = "a"
    payload: bytes = b"x"
    headers: tuple[tuple[str, str], ...] = ()

    def reply(self) -> str:
        """The reply subject that describes the message."""
        return f"{PREFIX}.{self.batch}.{self.flow}.{self.gap}.{self.seq}.{self.op}.$FI"


@dataclass(frozen=True)
class Raw:
    """A message with any reply subject under the prefix."""

    tail: str
    subject: str = "a"
    payload: bytes = b"x"


BatchStep = Pub | Api | Fast | Raw


@dataclass(frozen=True)
class BatchScript:
    """A stream and what happens to it, in order."""

    name: str
    steps: tuple[BatchStep, ...]
    config: dict[str, Any] = field(default_factory=dict)


class BatchClient(RawClient):
    """A connection that also receives all answers to fast batches."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.heard: list[tuple[bytes, bytes]] = []
        self._socket.sendall(b"SUB _F.> 2\r\n")
        self.flush()

    def flush(self) -> None:
        """Wait until the server has seen everything; keep what arrives meanwhile."""
        self._socket.sendall(b"PING\r\n")
        while True:
            line = self._lines.readline()
            if line == b"PONG\r\n":
                return
            self._keep(line)

    def send(self, subject: str, reply: str, payload: bytes, headers: bytes = b"") -> None:
        """Publish; what comes back is received by ``flush`` and ``listen``."""
        head = f"{subject} {reply} ".encode()
        if headers:
            sizes = b"%d %d" % (len(headers), len(headers) + len(payload))
            frame = b"HPUB " + head + sizes + b"\r\n" + headers + payload + b"\r\n"
        else:
            frame = b"PUB " + head + b"%d\r\n" % len(payload) + payload + b"\r\n"
        self._socket.sendall(frame)

    def listen(self, count: int | None) -> list[tuple[str, Any]]:
        """What was received since the last time: ``count`` messages, or until there is silence."""
        self.flush()
        until = time.monotonic() + PATIENCE_SECONDS
        if count is None:
            time.sleep(SILENCE_SECONDS)
            self.flush()
        else:
            while len(self.heard) < count and time.monotonic() < until:
                time.sleep(0.001)
                self.flush()
        told, self.heard = self.heard, []
        return [(to.decode(), masked(json.loads(body)) if body else None) for to, body in told]

    def _keep(self, line: bytes) -> None:
        words = line.split()
        if not words:
            raise ConnectionError("the server closed the connection")
        if words[0] in {b"MSG", b"HMSG"}:
            size = int(words[-1])
            data = self._lines.read(size + 2)[:size]
            split = int(words[-2]) if words[0] == b"HMSG" else 0
            if words[1].startswith(b"_F."):
                self.heard.append((words[1], data[split:]))
        elif words[0] == b"-ERR":
            raise AssertionError(line.decode())


def do(client: BatchClient, step: BatchStep, stream: str, count: int | None) -> Any:
    """What a server says to one step; ``count``: as many messages as the other server sent."""
    if isinstance(step, Api):
        answer = api(client, step.verb.replace("{S}", stream), step.body)
        return {k: answer.get(k) for k in ("error", "success", "purged")}
    if isinstance(step, Pub):
        return published(client, step, stream)
    headers = b""
    if isinstance(step, Fast):
        reply = step.reply()
        if step.headers:
            headers = block(step.headers).replace(b"{S}", stream.encode())
    else:
        reply = f"_F.{step.tail}"
    client.send(f"{stream}.{step.subject}", reply, step.payload, headers)
    return client.listen(count)


def settled(client: BatchClient, stream: str, expected: list[Any]) -> list[Any]:
    """What is in our stream: it shows when it is durable, and no one had to wait for it."""
    until = time.monotonic() + PATIENCE_SECONDS
    found = contents(client, stream)
    while found != expected and time.monotonic() < until:
        found = contents(client, stream)
    return found


def play_both(
    ours: BatchClient, theirs: BatchClient, script: BatchScript, stream: str
) -> list[tuple[Any, Any, Any]]:
    """(step, what we say, what they say) for every step, and for the contents at the end."""
    config = {"name": stream, "subjects": [f"{stream}.>"]} | script.config
    said: list[tuple[Any, Any, Any]] = []
    made = [api(c, f"STREAM.CREATE.{stream}", config).get("error", "made") for c in (ours, theirs)]
    said.append(("create", *made))
    for step in script.steps:
        if isinstance(step, Fast) and step.op == PING:
            # We answer with what is durable, the released server with what it has taken, which is
            # not synced: on a busy machine what was sent before is not durable at once.
            settled(ours, stream, contents(theirs, stream))
        there = do(theirs, step, stream, None)
        here = do(ours, step, stream, len(there) if isinstance(there, list) else None)
        said.append((step, here, there))
    there = contents(theirs, stream)
    said.append(("contents", settled(ours, stream, there), there))
    said.append(("late", ours.listen(None), theirs.listen(None)))
    for client in (ours, theirs):
        api(client, f"STREAM.DELETE.{stream}", None)
    return said
