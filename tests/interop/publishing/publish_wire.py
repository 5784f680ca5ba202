"""Publishing over a raw socket, for both servers of the differential tests.

A *step* is a publish or a request; ``play`` returns what the server answered, as plain values in
which everything that must differ (times) was taken out.
"""

from __future__ import annotations

import base64
import itertools
import json
import socket
from dataclasses import dataclass, field
from typing import Any

CONNECT = (
    b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,'
    b'"lang":"differential","version":"1","protocol":1}\r\nSUB _R.* 1\r\nPING\r\n'
)
TIMEOUT_SECONDS = 10
STATE = ("messages", "bytes", "first_seq", "last_seq", "num_subjects", "num_deleted")
# What changes from run to run: when a message was stored.
MOVING = ("time", "ts", "created", "first_ts", "last_ts")


@dataclass(frozen=True)
class Pub:
    """Publish with a reply subject; ``headers`` are names and values in order."""

    subject: str
    payload: bytes = b"x"
    headers: tuple[tuple[str, str], ...] = ()
    raw_headers: bytes = b""


@dataclass(frozen=True)
class Api:
    """A ``$JS.API`` request; ``{S}`` in the verb is the stream."""

    verb: str
    body: dict[str, Any] = field(default_factory=dict)


Step = Pub | Api


@dataclass(frozen=True)
class Script:
    """A stream and what happens to it, in order."""

    name: str
    steps: tuple[Step, ...]
    config: dict[str, Any] = field(default_factory=dict)


class RawClient:
    """One connection that asks and reads the answer."""

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("nats://").rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_SECONDS)
        self._lines = self._socket.makefile("rb")
        self._numbers = itertools.count(1)
        self._lines.readline()
        self._socket.sendall(CONNECT)
        while self._lines.readline() != b"PONG\r\n":
            pass

    def close(self) -> None:
        """Hang up."""
        self._lines.close()
        self._socket.close()

    def ask(self, subject: str, payload: bytes, headers: bytes = b"") -> tuple[bytes, bytes]:
        """Headers and payload of the one answer."""
        reply = b"_R.%d" % next(self._numbers)
        head = b"%b %b " % (subject.encode(), reply)
        if headers:
            sizes = b"%d %d" % (len(headers), len(headers) + len(payload))
            frame = b"HPUB " + head + sizes + b"\r\n" + headers + payload + b"\r\n"
        else:
            frame = b"PUB " + head + b"%d\r\n" % len(payload) + payload + b"\r\n"
        self._socket.sendall(frame)
        while True:
            found = self._next()
            if found[0] == reply:
                return found[1], found[2]

    def _next(self) -> tuple[bytes, bytes, bytes]:
        while True:
            line = self._lines.readline()
            words = line.split()
            if not words:
                raise ConnectionError("the server closed the connection")
            if words[0] == b"PING":
                self._socket.sendall(b"PONG\r\n")
            elif words[0] == b"-ERR":
                raise AssertionError(line.decode())
            elif words[0] in {b"MSG", b"HMSG"}:
                size = int(words[-1])
                data = self._lines.read(size + 2)[:size]
                split = int(words[-2]) if words[0] == b"HMSG" else 0
                return words[1], data[:split], data[split:]


def block(headers: tuple[tuple[str, str], ...]) -> bytes:
    """A header block, as it is given: no check."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"NATS/1.0\r\n{lines}\r\n".encode()


def masked(value: Any) -> Any:
    """Without what changes from run to run."""
    if isinstance(value, dict):
        return {k: masked(v) for k, v in value.items() if k not in MOVING}
    if isinstance(value, list):
        return [masked(v) for v in value]
    return value


def play(client: RawClient, script: Script, stream: str) -> list[Any]:
    """What a server says to a script, and what is in the stream at the end."""
    config = {"name": stream, "subjects": [f"{stream}.>"]} | script.config
    made = api(client, f"STREAM.CREATE.{stream}", config)
    said: list[Any] = [made.get("error", "made")]
    for step in script.steps:
        if isinstance(step, Api):
            answer = api(client, step.verb.replace("{S}", stream), step.body)
            said.append({k: answer.get(k) for k in ("error", "success", "purged")})
        else:
            said.append(published(client, step, stream))
    if made.get("error") is None:
        said.append(contents(client, stream))
        api(client, f"STREAM.DELETE.{stream}", None)
    return said


def published(client: RawClient, step: Pub, stream: str) -> Any:
    """The answer to one publish."""
    headers = step.raw_headers or (block(step.headers) if step.headers else b"")
    headers = headers.replace(b"{S}", stream.encode())
    status, body = client.ask(f"{stream}.{step.subject}", step.payload, headers)
    return [status, masked(json.loads(body)) if body else None]


def contents(client: RawClient, stream: str) -> list[Any]:
    """Counts and messages."""
    state = api(client, f"STREAM.INFO.{stream}", {})["state"]
    found: list[Any] = [{name: state.get(name, 0) for name in STATE}]
    for seq in range(max(1, state["first_seq"]), state["last_seq"] + 1):
        answer = api(client, f"STREAM.MSG.GET.{stream}", {"seq": seq})
        message = answer.get("message")
        if message is None:
            found.append(answer["error"]["err_code"])
            continue
        hdrs = base64.b64decode(message.get("hdrs", ""))
        found.append((message["subject"], hdrs, message.get("data")))
    return found


def api(client: RawClient, verb: str, body: dict[str, Any] | None) -> dict[str, Any]:
    """One request; None is an empty body."""
    payload = b"" if body is None else json.dumps(body).encode()
    answer: dict[str, Any] = json.loads(client.ask(f"$JS.API.{verb}", payload)[1])
    return answer
