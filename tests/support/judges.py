"""nats-server 2.15.1 and our rules as judges of the same operations, over raw sockets and pure.

`tests/interop/security/test_permissions_differential.py` and `test_authentication_differential.py`
compare what they say.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jetspark.server.auth.permissions import Permissions
from jetspark.server.auth.users import rules_of
from jetspark.server.auth.violations import publish_violation, subscription_violation
from jetspark.server.config.blocks.permissions import Permissions as Block
from jetspark.server.config.blocks.permissions import Responses, SubjectPermission
from jetspark.units import Nanoseconds

ADMIN = "admin"
TIMEOUT_SECONDS = 10
NOW = 1


@dataclass(frozen=True)
class Pub:
    """Publish; the answer is what ``-ERR`` says, or nothing."""

    subject: str


@dataclass(frozen=True)
class Sub:
    """Subscribe."""

    subject: str
    queue: str = ""


@dataclass(frozen=True)
class Get:
    """The administrator publishes; the answer is how often it arrives, over all subscriptions."""

    subject: str
    reply: str = ""


Operation = Pub | Sub | Get


@contextlib.contextmanager
def running_nats_server(
    config: Path, flags: Sequence[str] = ("-a", "127.0.0.1", "-p", "-1")
) -> Iterator[int]:
    """Run nats-server with a configuration; gives the port."""
    beside = Path(sys.executable).parent / "nats-server"
    program = str(beside) if beside.exists() else shutil.which("nats-server")
    if program is None:
        pytest.skip("nats-server comes with `make env`")
    process = subprocess.Popen(
        [program, *flags, "-c", str(config)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    reader = threading.Thread(target=process.stderr.read)
    try:
        port = _port_of(process)
        # Every violation is logged: an unread pipe would fill up and stop the server.
        reader.start()
        yield port
    finally:
        process.kill()
        process.wait()
        if reader.is_alive():
            reader.join()
        process.stderr.close()


class Wire:
    """A raw connection. ``options`` None sends no CONNECT."""

    def __init__(self, port: int, options: dict[str, Any] | None) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS)
        self._lines = self._socket.makefile("rb")
        self.info: dict[str, Any] = json.loads(self._lines.readline().removeprefix(b"INFO "))
        self._greeting = b""
        if options is not None:
            quiet = {"verbose": False, "pedantic": False, "echo": False}
            self._greeting = b"CONNECT %b\r\n" % json.dumps(quiet | options).encode()

    def ask(self, data: bytes) -> list[bytes]:
        """Send, and return the lines that come before the answer to a PING, or before the end."""
        self._socket.sendall(self._greeting + data + b"PING\r\n")
        self._greeting = b""
        lines: list[bytes] = []
        while True:
            line = self._next()
            if line in {b"PONG\r\n", b""}:
                return lines
            lines.append(line.removesuffix(b"\r\n"))

    def close(self) -> None:
        """End it."""
        self._lines.close()
        self._socket.close()

    def _next(self) -> bytes:
        try:
            return self._lines.readline()
        except ConnectionResetError:
            return b""


def _port_of(process: subprocess.Popen[str]) -> int:
    assert process.stderr is not None
    number = 0
    for line in process.stderr:
        match = re.search(r"Listening for client connections on \S+:(\d+)", line)
        number = int(match[1]) if match else number
        if "Server is ready" in line:
            return number
    raise AssertionError("nats-server ended before it was ready")


def settings(block: dict[str, Any]) -> Block:
    """The block as our configuration would read it."""
    sides = {
        side: SubjectPermission(
            allow=tuple(block[side]["allow"]) if "allow" in block[side] else None,
            deny=tuple(block[side].get("deny", ())),
        )
        for side in ("publish", "subscribe")
        if side in block
    }
    given = block.get("allow_responses")
    responses = None
    if given is True:
        responses = Responses()
    elif given is not None:
        seconds = {"1h": 3600.0, None: 120.0}[given.get("expires")]
        responses = Responses(max_msgs=given["max"], expires=Nanoseconds(int(seconds * 1e9)))
    return Block(**sides, allow_responses=responses)


class Theirs:
    """What nats-server makes of the operations of one user."""

    def __init__(self, port: int, user: str) -> None:
        self._wire = Wire(port, {"user": user, "pass": user})
        self._admin = Wire(port, {"user": ADMIN, "pass": ADMIN})
        self._sid = 0

    def judge(self, operation: Operation) -> object:
        """Return the text of ``-ERR``, or how many messages came."""
        match operation:
            case Pub(subject):
                return error_of(self._wire.ask(b"PUB %b 0\r\n\r\n" % subject.encode()))
            case Sub(subject, queue):
                self._sid += 1
                line = f"SUB {subject} {queue} {self._sid}\r\n".encode()
                return error_of(self._wire.ask(line))
            case Get(subject, reply):
                self._admin.ask(f"PUB {subject} {reply} 0\r\n\r\n".encode())
                return sum(line.startswith(b"MSG ") for line in self._wire.ask(b""))

    def close(self) -> None:
        """End both connections."""
        self._wire.close()
        self._admin.close()


class Ours:
    """What our rules make of them. Subscriptions are matched as the router would."""

    def __init__(self, block: dict[str, Any]) -> None:
        rules = rules_of(settings(block))
        assert rules is not None
        self._permissions = Permissions(rules)
        self._subscriptions: list[Sub] = []

    def judge(self, operation: Operation) -> object:
        """Return the same as nats-server, it is hoped."""
        permissions = self._permissions
        match operation:
            case Pub(subject):
                name = subject.encode()
                return b"" if permissions.may_publish(name, NOW) else publish_violation(name)
            case Sub(subject, queue):
                if permissions.may_subscribe(subject.encode(), queue.encode()):
                    self._subscriptions.append(operation)
                    return b""
                return subscription_violation(subject.encode(), queue.encode())
            case Get(subject, reply):
                return sum(self._gets(sub, subject, reply) for sub in self._subscriptions)

    def _gets(self, subscription: Sub, subject: str, reply: str) -> bool:
        pattern = subscription.subject.replace(".", r"\.").replace("*", "[^.]+").replace(">", ".+")
        if not re.fullmatch(pattern, subject):
            return False
        permissions = self._permissions
        if permissions.needs_delivery_check and not permissions.may_deliver(
            subject.encode(), subscription.queue.encode()
        ):
            return False
        if reply and permissions.tracks_replies:
            permissions.note_request(reply.encode(), NOW)
        return True


def error_of(lines: list[bytes]) -> bytes:
    """Return the text of the only ``-ERR``, or nothing."""
    assert len(lines) <= 1, lines
    return lines[0].removeprefix(b"-ERR '").removesuffix(b"'") if lines else b""
