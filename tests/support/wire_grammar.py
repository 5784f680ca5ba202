"""Byte scripts from a grammar of operations, some of them damaged, for `wire.py` to play.

A script is made from a tape of random bytes, each of which is a choice; the first choice is the
simplest, so hypothesis shrinks scripts by shrinking tapes, and a campaign of a hundred thousand
needs no more than random bytes. Several connections take turns. The last turn of each is damaged
now and then: bytes changed, left out, doubled or put in. Whatever a script does, its answer is
settled: no queue group has two members, and nothing that `known_differences.py` calls unsettled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from tests.interop.wire.scripts import connect
from tests.support.known_differences import UNSETTLED
from tests.support.wire import Script, Turn

TAPE_MIN: Final = 100
TAPE_MAX: Final = 400

_T = TypeVar("_T")

CONFIGS: Final = ("plain", "plain", "plain", "small", "users", "anonymous", "tokens")
USERS: Final = ("free", "free", "listed", "denied", "service", "once")
LITERALS: Final = ("a", "a", "a.b", "a.b.c", "ok.x", "in.x", "_INBOX.x")
PATTERNS: Final = (*LITERALS, ">", ">", "a.*", "a.>", "*")
WORDS: Final = (
    "a",
    "b",
    "c",
    "*",
    ">",
    "",
    "f*o",
    "a>",
    "é",
    "_INBOX",
    "ok",
    "in",
    "x" * 40,
    "$SYS",
)
RESERVED: Final = ("_R_.x", "_GR_.x", "$JS.ACK.x", "$NRG.x", "$JS.API.x", "$GR.x")
BLANKS: Final = (b" ", b" ", b" ", b"  ", b"\t", b" \t ")
ENDS: Final = (b"\r\n", b"\r\n", b"\r\n", b"\n", b" \r\n")
SIDS: Final = (b"1", b"2", b"3", b"sid")
COUNTS: Final = (b"", b"1", b"2", b"0", b"3", b"-1", b"x", b"007")
PAYLOADS: Final = (b"", b"hello", b"PING\r\n", b"\r\n", b"PUB a 1\r\nx\r\n", b"x" * 600)
HEADERS: Final = (
    b"NATS/1.0\r\nK: v\r\n\r\n",
    b"NATS/1.0\r\n\r\n",
    b"NATS/1.0 503\r\n\r\n",
    b"not a header",
    b"",
)
INSERTS: Final = (
    b"",
    b" ",
    b"\t",
    b"\n",
    b"\r\n",
    b"0",
    b"9",
    b"\x00",
    b"PING",
    b"\xff",
    b".",
    b">",
)


class Tape:
    """Random bytes as choices. A tape that ran out always chooses the first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._pos = 0

    def below(self, count: int) -> int:
        """Choose a number from 0 to ``count - 1``; ``count`` is at most 65536."""
        if self._pos >= len(self._data):
            return 0
        value = self._data[self._pos]
        self._pos += 1
        if count > 256 and self._pos < len(self._data):
            value += 256 * self._data[self._pos]
            self._pos += 1
        return value % count

    def pick(self, items: Sequence[_T]) -> _T:
        """Choose one of several."""
        return items[self.below(len(items))]

    def one_in(self, count: int) -> bool:
        """Say yes once in ``count`` times, never when the tape ran out."""
        return self.below(count) == count - 1


class Maker:
    """The operations of one script."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._config = tape.pick(CONFIGS)

    def script(self) -> Script:
        """Make a script."""
        tape = self._tape
        names = "abc"[: 1 + tape.below(3)]
        turns = [
            Turn(name, self._connect())
            for name in names
            if self._config == "users" or not tape.one_in(4)
        ]
        for _ in range(tape.below(6)):
            name = tape.pick(names)
            data, pings = self._operations(name)
            turns.append(Turn(name, data, pings=pings))
        for name in names:
            data, _ = self._operations(name)
            if tape.below(4):
                data = self._damaged(data)
            turns.append(Turn(name, data, last=True, single=len(data) < 80 and tape.one_in(2)))
        return Script("generated", tuple(turns), self._config)

    def _operations(self, connection: str) -> tuple[bytes, int]:
        """Make some operations; the number is how many PONGs they cause."""
        data = b""
        pings = 0
        for _ in range(1 + self._tape.below(6)):
            kind = self._tape.below(20)
            if kind < 8:
                data += self._publish()
            elif kind < 14:
                data += self._subscribe(connection)
            elif kind < 16:
                data += self._line(b"UNSUB", self._tape.pick(SIDS), self._tape.pick(COUNTS))
            elif kind == 16:
                data += self._word(b"PING") + b"\r\n"
                pings += 1
            elif kind < 19:
                data += self._tape.pick((b"PONG\r\n", b"+OK\r\n", b"INFO {}\r\n"))
            else:
                data += self._connect()
        return data, pings

    def _subject(self, common: Sequence[str] = LITERALS) -> bytes:
        kind = self._tape.below(10)
        if kind < 7:
            return self._tape.pick(common).encode()
        if kind == 9:
            return self._tape.pick(RESERVED).encode()
        words = [self._tape.pick(WORDS) for _ in range(1 + self._tape.below(4))]
        return ".".join(words).encode()

    def _word(self, word: bytes) -> bytes:
        return self._tape.pick((word, word, word, word.lower(), word.capitalize()))

    def _line(self, word: bytes, *arguments: bytes) -> bytes:
        line = self._word(word)
        for argument in arguments:
            if argument:
                line += self._tape.pick(BLANKS) + argument
        return line + self._tape.pick(ENDS)

    def _subscribe(self, connection: str) -> bytes:
        """SUB. A queue has one member: its name is made of connection and sid."""
        sid = self._tape.pick(SIDS)
        queue = b"q%b%b" % (connection.encode(), sid) if self._tape.one_in(4) else b""
        return self._line(b"SUB", self._subject(PATTERNS), queue, sid)

    def _publish(self) -> bytes:
        subject, payload = self._subject(), self._tape.pick(PAYLOADS)
        reply = self._subject() if self._tape.one_in(2) else b""
        if self._tape.below(3):
            size = b"%d" % len(payload)
            return self._line(b"PUB", subject, reply, size) + payload + b"\r\n"
        headers = self._tape.pick(HEADERS)
        sizes = (b"%d" % len(headers), b"%d" % (len(headers) + len(payload)))
        return self._line(b"HPUB", subject, reply, *sizes) + headers + payload + b"\r\n"

    def _connect(self) -> bytes:
        """CONNECT, as a user where there are users."""
        tape = self._tape
        fields: dict[str, Any] = {"protocol": 2 if tape.one_in(30) else tape.pick((1, 1, 0))}
        for name in ("verbose", "pedantic", "echo"):
            fields[name] = tape.pick((False, True, None))
        if tape.one_in(3):
            fields["headers"] = tape.pick((False, True, None))
            fields["no_responders"] = bool(fields["headers"]) or tape.one_in(5)
        if self._config == "users":
            fields |= {"user": tape.pick(USERS), "pass": "pw"}
        return connect(**fields)

    def _damaged(self, data: bytes) -> bytes:
        tape = self._tape
        for _ in range(1 + tape.below(3)):
            begin = tape.below(len(data) + 1)
            end = min(len(data), begin + tape.pick((0, 1, 1, 2, 5)))
            kind = tape.below(3)
            piece = tape.pick(INSERTS)
            if kind == 1:
                piece = data[begin:end] * 2
            elif kind == 2:
                piece = bytes([tape.below(256)])
            data = data[:begin] + piece + data[end:]
        return data[: tape.below(len(data) + 1)] if tape.one_in(6) else data


def script_of(tape: bytes) -> Script:
    """Make the script that a tape stands for."""
    return Maker(Tape(tape)).script()


def is_settled(script: Script) -> bool:
    """Say whether the answer to a script does not depend on what the list of differences names."""
    return not any(re.search(UNSETTLED, turn.data) for turn in script.turns)
