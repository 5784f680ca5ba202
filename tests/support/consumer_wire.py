"""Consumers over a raw socket, for both servers of the differential tests.

A `Wire` is one connection; what it received is compared as plain values in which times, and the
numbers that only one server knows, were taken out.
"""

from __future__ import annotations

import itertools
import json
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CONNECT = (
    b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,'
    b'"lang":"differential","version":"1","protocol":1}\r\nSUB _R.* 1\r\nPING\r\n'
)
PATIENCE_S = 10
# What changes from run to run: moments, and how long a pause still lasts.
MOVING = (
    "created",
    "ts",
    "last_active",
    "pause_remaining",
    "pinned_ts",
    "pinned_client_id",
    "pinned_id",
)
_ACK = re.compile(rb"\$JS\.ACK\.([^.]+)\.([^.]+)\.(\d+)\.(\d+)\.(\d+)\.\d+\.(\d+)")
_FLOW = re.compile(rb"\$JS\.FC\.([^.]+)\.([^.]+)\.[^.\r\n]+")
_PIN = re.compile(rb"Nats-Pin-Id: \S+")


Enough = Callable[[list["Message"]], bool]


@dataclass(frozen=True)
class Message:
    """One message as it came; ``to`` is the subject of the subscription's delivery."""

    to: bytes
    reply: bytes
    headers: bytes
    payload: bytes

    @property
    def status(self) -> int:
        """The number of a status line; 0 for a message."""
        return int(self.headers[9:12]) if self.headers.startswith(b"NATS/1.0 ") else 0

    @property
    def size(self) -> int:
        """What a pull request's limit of bytes counts."""
        return len(self.to) + len(self.reply) + len(self.headers) + len(self.payload)

    def masked(self) -> tuple[bytes, bytes, bytes, bytes]:
        """Without what must differ between two servers."""
        to = self.to[:2] if self.to.startswith((b"_R.", b"_P.")) else self.to
        reply = _FLOW.sub(rb"FC.\1.\2", _ACK.sub(rb"ACK.\1.\2.\3.\4.\5.TIME.\6", self.reply))
        headers = _FLOW.sub(rb"FC.\1.\2", _PIN.sub(b"Nats-Pin-Id: PIN", self.headers))
        return to, reply, headers, self.payload


class Wire:
    """One connection that publishes, subscribes, requests, and records what arrives."""

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("nats://").rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()
        self._numbers = itertools.count(1)
        self._sids = itertools.count(2)
        self._pongs = 0
        # By sid: what came there and was not taken yet.
        self._arrived: dict[bytes, list[Message]] = {b"1": []}
        self._socket.sendall(CONNECT)
        self._until(lambda: self._pongs > 0)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    # What a test does -------------------------------------------------------------------------

    def subscribe(self, subject: str, queue: str = "") -> bytes:
        """Listen; gives the sid."""
        sid = b"%d" % next(self._sids)
        self._arrived[sid] = []
        words = [subject.encode(), queue.encode(), sid] if queue else [subject.encode(), sid]
        self._socket.sendall(b"SUB %b\r\n" % b" ".join(words))
        self.flush()
        return sid

    def unsubscribe(self, sid: bytes) -> None:
        """Listen no longer."""
        self._socket.sendall(b"UNSUB %b\r\n" % sid)
        self.flush()

    def publish(
        self, subject: str | bytes, payload: bytes = b"", headers: bytes = b"", reply: bytes = b""
    ) -> None:
        """Send one message."""
        name = subject.encode() if isinstance(subject, str) else subject
        target = name + (b" " + reply if reply else b"")
        if headers:
            sizes = b"%d %d" % (len(headers), len(headers) + len(payload))
            line = b"HPUB %b %b\r\n" % (target, sizes)
        else:
            line = b"PUB %b %d\r\n" % (target, len(payload))
        self._socket.sendall(line + headers + payload + b"\r\n")

    def ask(self, subject: str | bytes, payload: bytes = b"", headers: bytes = b"") -> Message:
        """One request and its one answer."""
        return self.ask_all([(subject, payload, headers)])[0]

    def ask_all(self, requests: list[tuple[str | bytes, bytes, bytes]]) -> list[Message]:
        """Requests that do not wait for each other, and their answers in the same order."""
        inboxes = [b"_R.%d" % next(self._numbers) for _ in requests]
        for inbox, (subject, payload, headers) in zip(inboxes, requests, strict=True):
            self.publish(subject, payload, headers, inbox)
        waiting = self._arrived[b"1"]
        wanted = set(inboxes)
        self._until(lambda: wanted <= {message.to for message in waiting})
        found = [message for message in waiting if message.to in wanted]
        waiting[:] = [message for message in waiting if message.to not in wanted]
        assert len(found) == len(inboxes), found
        return sorted(found, key=lambda message: inboxes.index(message.to))

    def pull(self, subject: str | bytes, payload: bytes, enough: Enough) -> list[Message]:
        """One request for messages, and what came, until it is ``enough``.

        Messages show the subject they were stored under, so the inbox has a subscription of its
        own.
        """
        inbox = b"_P.%d" % next(self._numbers)
        sid = b"%d" % next(self._sids)
        got: list[Message] = []
        self._arrived[sid] = got
        self._socket.sendall(b"SUB %b %b\r\n" % (inbox, sid))
        self.publish(subject, payload, b"", inbox)
        self._until(lambda: bool(got) and enough(got))
        self._socket.sendall(b"UNSUB %b\r\n" % sid)
        return got

    def api(self, verb: str, body: Any = None) -> Any:
        """A ``$JS.API`` request; times are masked in its answer."""
        payload = b"" if body is None else json.dumps(body).encode()
        return masked(json.loads(self.ask(f"$JS.API.{verb}", payload).payload or b"null"))

    def take(self, sid: bytes, count: int) -> list[Message]:
        """The next messages of a subscription, once this many have arrived."""
        waiting = self._arrived[sid]
        self._until(lambda: len(waiting) >= count)
        taken = waiting[:count]
        del waiting[:count]
        return taken

    def quiet(self, sid: bytes, seconds: float) -> list[Message]:
        """Everything that a subscription receives within a time."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._read(left)
        return self.taken(sid)

    def taken(self, sid: bytes) -> list[Message]:
        """What came to a subscription so far."""
        taken = list(self._arrived[sid])
        self._arrived[sid].clear()
        return taken

    def arrived(self) -> bool:
        """Say whether something came that no one took."""
        return any(self._arrived.values())

    def left_over(self) -> list[Message]:
        """Answers that no one asked for."""
        self.flush()
        return list(self._arrived[b"1"])

    def flush(self) -> None:
        """Wait until the server has read everything."""
        wanted = self._pongs + 1
        self._socket.sendall(b"PING\r\n")
        self._until(lambda: self._pongs >= wanted)

    # Reading ------------------------------------------------------------------------------------

    def _until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("the server did not answer")
            self._read(left)

    def _read(self, seconds: float) -> None:
        self._socket.settimeout(max(seconds, 0.001))
        try:
            data = self._socket.recv(1 << 18)
        except TimeoutError:
            return
        if not data:
            raise ConnectionError("the server closed the connection")
        self._buffer += data
        while self._parse():
            pass

    def _parse(self) -> bool:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            return False
        words = bytes(self._buffer[:end]).split(b" ")
        kind = words[0]
        if kind not in {b"MSG", b"HMSG"}:
            del self._buffer[: end + 2]
            if kind == b"PING":
                self._socket.sendall(b"PONG\r\n")
            elif kind == b"PONG":
                self._pongs += 1
            elif kind == b"-ERR":
                raise AssertionError(b" ".join(words).decode())
            return True
        size = int(words[-1])
        start = end + 2
        if len(self._buffer) < start + size + 2:
            return False
        data = bytes(self._buffer[start : start + size])
        del self._buffer[: start + size + 2]
        split = int(words[-2]) if kind == b"HMSG" else 0
        names = words[1 : -2 if kind == b"HMSG" else -1]
        reply = names[2] if len(names) > 2 else b""
        message = Message(names[0], reply, data[:split], data[split:])
        self._arrived[names[1]].append(message)
        return True


def masked(value: Any) -> Any:
    """Without what changes from run to run, and our own metadata."""
    if isinstance(value, dict):
        return {
            k: masked(v)
            for k, v in value.items()
            if k not in MOVING and not k.startswith("_jetspark.")
        }
    if isinstance(value, list):
        return [masked(v) for v in value]
    return value
