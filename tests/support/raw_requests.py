"""One raw connection that asks a server and keeps the replies as they came."""

from __future__ import annotations

import itertools
import json
import secrets
import select
import socket
from dataclasses import dataclass
from typing import Any

CONNECT = (
    b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"protocol":1}'
    b"\r\n"
)
SILENCE_SECONDS = 10.0


@dataclass(frozen=True)
class Reply:
    """One message: its header block (empty if none) and payload."""

    headers: bytes
    payload: bytes

    @property
    def is_status(self) -> bool:
        return self.headers.startswith(b"NATS/1.0 ")


class RawClient:
    """Speaks just enough of the protocol to make requests."""

    def __init__(self, address: str, options: str = "") -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=SILENCE_SECONDS)
        self._buffer = b""
        self._numbers = itertools.count(1)
        self._heard: list[tuple[str, str, str, bytes]] = []
        self._inbox = f"_INBOX.{secrets.token_hex(8)}.".encode()
        self._line()  # INFO
        self._socket.sendall(CONNECT.replace(b"{", b"{" + options.encode(), 1))
        self._socket.sendall(b"SUB %s* 1\r\n" % self._inbox)

    def close(self) -> None:
        self._socket.close()

    def ask(
        self,
        subject: str,
        body: bytes = b"",
        headers: bytes = b"",
        *,
        many: bool = False,
        wait_seconds: float | None = None,
    ) -> list[Reply]:
        """Send a request; its reply, or with ``many`` all up to the first status.

        An error of the protocol is a reply as well. Without a reply a test fails after a long
        time; with ``wait_seconds`` there are none after that time.
        """
        inbox = self._inbox + b"%d" % next(self._numbers)
        if headers:
            line = b"HPUB %s %s %d %d\r\n" % (
                subject.encode(), inbox, len(headers), len(headers) + len(body),
            )  # fmt: skip
        else:
            line = b"PUB %s %s %d\r\n" % (subject.encode(), inbox, len(body))
        self._socket.sendall(line + headers + body + b"\r\n")
        replies: list[Reply] = []
        while True:
            if wait_seconds is not None and not self._is_readable(wait_seconds):
                return replies
            to, answer, reply = self._message()
            if to not in {inbox, b""}:
                self._keep(to, answer, reply)
                continue
            replies.append(reply)
            if not many or reply.is_status:
                return replies

    def listen(self, subject: str) -> None:
        """Keep the messages of a subject for `heard`."""
        self._socket.sendall(b"SUB %s 2\r\n" % subject.encode())

    def subscribe(self, subject: str, sid: int) -> None:
        """Subscribe under a number of its own, for `unsubscribe`."""
        self._socket.sendall(b"SUB %s %d\r\n" % (subject.encode(), sid))

    def unsubscribe(self, sid: int) -> None:
        """End a subscription."""
        self._socket.sendall(b"UNSUB %d\r\n" % sid)

    def all_heard(self) -> list[tuple[str, str, str, bytes]]:
        """What has come of what was listened to."""
        found, self._heard = self._heard, []
        return found

    def heard(self) -> tuple[str, bytes]:
        """The next message of what was listened to: its subject and payload."""
        subject, _, _, payload = self.heard_whole()
        return subject, payload

    def heard_whole(self) -> tuple[str, str, str, bytes]:
        """The next message of what was listened to: subject, reply, headers and payload."""
        while not self._heard:
            self._keep(*self._message())
        return self._heard.pop(0)

    def tell(self, subject: str, body: bytes) -> None:
        """Publish without asking for an answer."""
        self._socket.sendall(b"PUB %s %d\r\n%s\r\n" % (subject.encode(), len(body), body))

    def publish(self, subject: str, body: bytes, reply: str) -> None:
        """Publish with a reply subject of the caller's."""
        line = f"PUB {subject} {reply} {len(body)}\r\n".encode()
        self._socket.sendall(line + body + b"\r\n")

    def _keep(self, to: bytes, answer: bytes, reply: Reply) -> None:
        self._heard.append((to.decode(), answer.decode(), reply.headers.decode(), reply.payload))

    def _message(self) -> tuple[bytes, bytes, Reply]:
        """The next message: its subject, its reply subject, and what it says."""
        while True:
            words = self._line().split(b" ")
            if words[0] == b"PING":
                self._socket.sendall(b"PONG\r\n")
            elif words[0] == b"-ERR":
                return b"", b"", Reply(b"", b" ".join(words))
            elif words[0] == b"MSG":
                answer = words[3] if len(words) == 5 else b""
                return words[1], answer, Reply(b"", self._bytes(int(words[-1])))
            elif words[0] == b"HMSG":
                size, total = int(words[-2]), int(words[-1])
                block = self._bytes(total)
                answer = words[3] if len(words) == 6 else b""
                return words[1], answer, Reply(block[:size], block[size:])

    def _is_readable(self, seconds: float) -> bool:
        return bool(self._buffer or select.select([self._socket], [], [], seconds)[0])

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            self._fill()
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _bytes(self, count: int) -> bytes:
        while len(self._buffer) < count + 2:
            self._fill()
        data, self._buffer = self._buffer[:count], self._buffer[count + 2 :]
        return data

    def _fill(self) -> None:
        data = self._socket.recv(65536)
        if not data:
            raise ConnectionError("the server closed the connection")
        self._buffer += data


def api(client: RawClient, verb: str, body: object = None) -> dict[str, Any]:
    payload = b"" if body is None else json.dumps(body).encode()
    answer: dict[str, Any] = json.loads(client.ask(f"$JS.API.{verb}", payload)[0].payload)
    return answer
