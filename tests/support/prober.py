"""A client that asks one thing after the other, and what the answers are in few words."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterable
from typing import Any, Final

from tests.support.limit_values import Case

LOST: Final = "connection lost"
SILENCE: Final = "silence"
PATIENCE: Final = 0.5


class Prober:
    """A client that asks one thing after the other and keeps every answer."""

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("nats://").rpartition(":")
        self._address = host, int(port)
        self.answers: dict[int, list[tuple[bytes, bytes]]] = {}
        self.cases: list[Case] = []
        self.lost: list[str] = []
        self.notes: dict[str, str] = {}
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.create_connection(self._address, timeout=30)
        self._input = self._socket.makefile("rb")
        self._input.readline()
        options = b'{"verbose":false,"headers":true,"no_responders":true,"protocol":0}'
        self._socket.sendall(b"CONNECT " + options + b"\r\nSUB in.> 1\r\nPING\r\n")
        self._until_pong()

    def close(self) -> None:
        self._input.close()
        self._socket.close()

    def ask(self, case: Case) -> int:
        """Send one request and wait until it was taken; its number."""
        number = len(self.cases)
        self.cases.append(case)
        self.answers[number] = []
        reply = b"in.%d." % number + (case.reply or b"x")
        if case.headers:
            sizes = b"%d %d" % (len(case.headers), len(case.headers) + len(case.body))
            line = b"HPUB %b %b %b\r\n" % (case.subject, reply, sizes)
        else:
            line = b"PUB %b %b %d\r\n" % (case.subject, reply, len(case.body))
        try:
            self._socket.sendall(line + case.headers + case.body + b"\r\nPING\r\n")
            self._until_pong()
            if is_answered(case):
                # nats-server answers these next to the connection, and drops some if they pile up.
                self._until_answered(number)
        except ConnectionError:
            self.lost.append(case.name)
            self.close()
            self._connect()
        return number

    def _until_answered(self, number: int) -> None:
        end = time.monotonic() + PATIENCE
        while not self.answers[number] and time.monotonic() < end:
            self._socket.sendall(b"PING\r\n")
            self._until_pong()
            time.sleep(0.001)

    def settle_delivery(self, count: int) -> None:
        """Wait until a pull has all its messages; they come under the subjects they have."""
        end = time.monotonic() + 20
        while len(self.answers.get(-1, [])) < count and time.monotonic() < end:
            self._socket.sendall(b"PING\r\n")
            self._until_pong()
            time.sleep(0.01)

    def note(self, name: str, said: str) -> None:
        """Add something that was found out otherwise to what is compared."""
        self.notes[name] = said

    def ask_all(self, cases: Iterable[Case]) -> None:
        for case in cases:
            self.ask(case)

    def settle(self, wait: float) -> None:
        """Wait for answers that take a while; waiting pulls never answer."""
        end = time.monotonic() + wait
        while time.monotonic() < end and not all(self.answers.values()):
            self._socket.sendall(b"PING\r\n")
            self._until_pong()
            time.sleep(0.05)

    def _until_pong(self) -> None:
        while True:
            words = self._input.readline().split()
            if not words:
                raise ConnectionResetError
            if words[0] == b"PONG":
                return
            if words[0] in {b"MSG", b"HMSG"}:
                data = self._input.read(int(words[-1]) + 2)[:-2]
                size = int(words[-2]) if words[0] == b"HMSG" else 0
                # A delivered message comes to the inbox with the subject it was stored with.
                sub = words[1]
                number = int(sub.split(b".")[1]) if sub.startswith(b"in.") else -1
                self.answers.setdefault(number, []).append((data[:size], data[size:]))
            elif words[0] == b"PING":
                self._socket.sendall(b"PONG\r\n")

    def outcomes(self) -> dict[str, str]:
        """What became of every request, in few words."""
        found: dict[str, str] = dict(self.notes)
        for number, case in enumerate(self.cases):
            said = LOST if case.name in self.lost else outcome(self.answers[number])
            found[case.name] = said
        return found

    def answer(self, subject: str, body: bytes = b"") -> tuple[bytes, bytes]:
        """Headers and payload of the first answer; a pulled message is one as well."""
        before = len(self.answers.get(-1, []))
        number = self.ask(Case(f"{subject} {len(self.cases)}", subject.encode(), body))
        end = time.monotonic() + 10
        while time.monotonic() < end:
            pulled = self.answers.get(-1, [])
            if self.answers[number] or len(pulled) > before:
                return (self.answers[number] or pulled[before:])[0]
            self._socket.sendall(b"PING\r\n")
            self._until_pong()
        raise TimeoutError(subject)

    def json(self, subject: str, body: bytes = b"") -> dict[str, Any]:
        """The answer to a request that is in order."""
        number = self.ask(Case(f"{subject} {len(self.cases)}", subject.encode(), body))
        end = time.monotonic() + 10
        while not self.answers[number] and time.monotonic() < end:
            self._socket.sendall(b"PING\r\n")
            self._until_pong()
        found: dict[str, Any] = json.loads(self.answers[number][0][1])
        return found


def is_answered(case: Case) -> bool:
    """Whether a request gets its answer in any case: pulls may wait, acknowledgements as well."""
    return not case.subject.startswith((b"$JS.API.CONSUMER.MSG.NEXT.", b"$JS.ACK.")) and (
        not case.reply
    )


def outcome(answers: list[tuple[bytes, bytes]]) -> str:
    """An answer in few words: a status, an error code, or what kind of success it was."""
    if not answers:
        return SILENCE
    headers, payload = answers[0]
    status = re.match(rb"NATS/1\.0 (\d+)", headers)
    if status:
        return f"status {int(status[1])}"
    if headers:
        return "message"
    try:
        body = json.loads(payload)
    except ValueError:
        return "message"
    if not isinstance(body, dict):
        return "message"
    if "error" in body:
        return f"{body['error'].get('code')}/{body['error'].get('err_code')}"
    return "ok"
