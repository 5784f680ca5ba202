"""Incremental parser for the client-to-server direction; ``framing`` has its states.

The grammar is that of nats-server's parser.go and client.go, observed on the released server, with
three deliberate differences, all where its behaviour depends on how the bytes were split into
chunks or where it allows a line end in a subject:

- a CR without LF does not shorten the line;
- a CR or LF in the arguments of PUB and HPUB is a malformed argument: closed silently;
- HMSG is an unknown operation (there, an empty one is a publish to an empty subject).
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from jetspark.frame import Frame
from jetspark.protocol.arguments import (
    CR,
    CUT,
    LF,
    MATCHED,
    match_word,
    parse_size,
    skip_blanks,
    split_arguments,
)
from jetspark.protocol.framing import STOP, WORD, FrameParser
from jetspark.protocol.handshake import info_problem

# Texts of -ERR (wire.md, Core protocol). Malformed arguments have none: the connection is closed
# without one.
UNKNOWN_OPERATION: Final = b"Unknown Protocol Operation"
PAYLOAD_VIOLATION: Final = b"Maximum Payload Violation"
CONTROL_LINE_VIOLATION: Final = b"maximum control line exceeded"
AUTHORIZATION_VIOLATION: Final = b"Authorization Violation"
SILENT: Final = b""

# Operations without a payload, as the index of their word.
_CONNECT: Final = 0
_SUB: Final = 1
_UNSUB: Final = 2
_PING: Final = 3
_PONG: Final = 4
_OK: Final = 5
_ERR: Final = 6
_INFO: Final = 7
_PUB: Final = 8
_HPUB: Final = 9
_WORDS: Final = (
    b"CONNECT",
    b"SUB",
    b"UNSUB",
    b"PING",
    b"PONG",
    b"+OK",
    b"-ERR",
    b"INFO",
    b"PUB",
    b"HPUB",
)


# The recording handler of the tests is interpreted.
@mypyc_attr(allow_interpreted_subclasses=True)
class ServerOps:
    """Handlers for a client's operations; every method does nothing by default."""

    def on_connect(self, body: bytes) -> None:
        """CONNECT, with the JSON text after it."""

    def on_pub(self, frame: Frame) -> None:
        """PUB or HPUB; the frame is refilled after the call."""

    def on_large(self, pieces: list[bytes]) -> bool:
        """A large PUB or HPUB is complete: return whether its payload is assembled elsewhere.

        If so, the parser's ``joined`` must be called afterwards.
        """
        return len(pieces) == 0

    def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None:
        """SUB; ``queue`` is empty for a plain subscription."""

    def on_unsub(self, sid: bytes, max_msgs: i64) -> None:
        """UNSUB; ``max_msgs`` 0 means immediately."""

    def on_ping(self) -> None:
        """PING."""

    def on_pong(self) -> None:
        """PONG."""

    def on_violation(self, text: bytes, close: bool) -> None:
        """The client violated the protocol: send ``-ERR`` unless ``text`` is empty."""


class ServerParser(FrameParser):
    """Turns chunks of bytes into calls of a ``ServerOps``.

    ``headers`` follows CONNECT: nats-server refuses HPUB before it. While ``awaiting_connect`` is
    set, anything but CONNECT is an authorization violation, at its first byte.
    """

    def __init__(
        self, handler: ServerOps, max_control_line: i64, max_payload: i64, headers: bool
    ) -> None:
        super().__init__(max_control_line, max_payload)
        self.headers: bool = headers
        self.awaiting_connect: bool = False
        self._handler: ServerOps = handler

    def allow_headers(self, headers: bool) -> None:
        """Accept HPUB, or refuse it, as CONNECT said."""
        self.headers = headers

    def require_connect(self, required: bool) -> None:
        """Refuse anything but CONNECT from now on; or stop refusing it."""
        self.awaiting_connect = required

    def _walk(self, data: bytes, start: i64) -> None:
        end: i64 = len(data)
        pos: i64 = start
        self._frame.data = data
        while pos < end and not self.closed:
            char: i64 = data[pos] | 32
            if self.awaiting_connect and char != 99:
                self._violate(AUTHORIZATION_VIOLATION)
                return
            # PUB and HPUB, the hot ones, by their letters; all other operations by their word.
            if (
                char == 112
                and pos + 3 < end
                and data[pos + 1] | 32 == 117
                and data[pos + 2] | 32 == 98
            ):
                pos = self._publish(data, pos, end)
            elif (
                char == 104
                and pos + 4 < end
                and data[pos + 1] | 32 == 112
                and data[pos + 2] | 32 == 117
                and data[pos + 3] | 32 == 98
            ):
                pos = self._publish_with_headers(data, pos, end)
            else:
                pos = self._other(data, pos, end)
            if pos < 0:
                return

    def _publish(self, data: bytes, start: i64, end: i64) -> i64:
        """Handle PUB; return the position after the frame, or STOP."""
        if data[start + 3] not in (32, 9):
            return self._violate(UNKNOWN_OPERATION)
        hs = self._scan(data, start, start + 3, end)
        if hs < 0:
            return STOP
        frame = self._frame
        frame.rs = 0
        frame.re = 0
        size: i64 = -1
        if self._odd:
            return self._violate(SILENT)
        if self._args == 2:
            size = parse_size(data, self._b2, self._e2)
        elif self._args == 3:
            frame.rs = self._b2
            frame.re = self._e2
            size = parse_size(data, self._b3, self._e3)
        if size < 0:
            return self._violate(SILENT)
        if size > self.max_payload and self.max_payload >= 0:
            return self._violate(PAYLOAD_VIOLATION)
        pe = hs + size
        frame.ss = self._b1
        frame.se = self._e1
        frame.hs = hs
        frame.ps = hs
        frame.pe = pe
        if pe + 2 > end:
            return self._hold_payload(data, start)
        if data[pe] != CR or data[pe + 1] != LF:
            return self._fail_end()
        self._handler.on_pub(frame)
        return pe + 2

    def _publish_with_headers(self, data: bytes, start: i64, end: i64) -> i64:
        """Handle HPUB; return the position after the frame, or STOP."""
        if data[start + 4] not in (32, 9):
            return self._violate(UNKNOWN_OPERATION)
        hs = self._scan(data, start, start + 4, end)
        if hs < 0:
            return STOP
        frame = self._frame
        frame.rs = 0
        frame.re = 0
        header_size: i64 = -1
        size: i64 = -1
        if self._args == 3:
            header_size = parse_size(data, self._b2, self._e2)
            size = parse_size(data, self._b3, self._e3)
        elif self._args == 4:
            frame.rs = self._b2
            frame.re = self._e2
            header_size = parse_size(data, self._b3, self._e3)
            size = parse_size(data, self._b4, self._e4)
        if header_size < 0 or size < header_size or self._odd or not self.headers:
            return self._violate(SILENT)
        if size > self.max_payload and self.max_payload >= 0:
            return self._violate(PAYLOAD_VIOLATION)
        pe = hs + size
        frame.ss = self._b1
        frame.se = self._e1
        frame.hs = hs
        frame.ps = hs + header_size
        frame.pe = pe
        if pe + 2 > end:
            return self._hold_payload(data, start)
        if data[pe] != CR or data[pe + 1] != LF:
            return self._fail_end()
        self._handler.on_pub(frame)
        return pe + 2

    def _other(self, data: bytes, start: i64, end: i64) -> i64:
        """Handle an operation without a payload, or one whose word is truncated or unknown."""
        cut = False
        for op, word in enumerate(_WORDS):
            match = match_word(data, start, end, word)
            if match == MATCHED:
                after = start + len(word)
                if op in (_PING, _PONG, _OK):
                    return self._skip(data, after, op)
                if op in (_PUB, _HPUB):
                    # Reached only if the chunk ends with the word.
                    return self._hold_word(data, start, after, end)
                return self._line(data, start, after, end, op)
            if match == CUT:
                cut = True
        if not cut:
            return self._violate(UNKNOWN_OPERATION)
        self._word = data[start:]
        self._state = WORD
        return STOP

    def _line(self, data: bytes, start: i64, after: i64, end: i64, op: i64) -> i64:
        """Handle a one-line operation; return the position after it, or STOP."""
        first = skip_blanks(data, after, end)
        if first == end:
            return self._hold_word(data, start, after, end)
        if first == after and op not in (_CONNECT, _INFO):
            return self._violate(UNKNOWN_OPERATION)
        # The first byte of the arguments belongs to them even if it is LF, as in nats-server.
        found: i64 = data.find(b"\n", first + 1)
        if found < 0:
            return self._hold_line(data, start, after, first)
        stop = found - 1 if data[found - 1] == CR else found
        if stop - first > self.max_control_line:
            return self._fail_line()
        fine = True
        if op == _CONNECT:
            self._handler.on_connect(data[first:stop])
        elif op == _SUB:
            fine = self._subscribe(split_arguments(data, first, stop))
        elif op == _UNSUB:
            fine = self._unsubscribe(split_arguments(data, first, stop))
        elif op == _INFO:
            # nats-server parses a client's INFO, closes if it is invalid, else ignores it.
            fine = not info_problem(data[first:stop])
        else:
            # -ERR: nats-server closes when a client reports an error.
            fine = False
        if not fine:
            return self._violate(SILENT)
        return found + 1

    def _subscribe(self, words: list[bytes]) -> bool:
        if len(words) == 2:
            self._handler.on_sub(words[0], b"", words[1])
            return True
        if len(words) == 3:
            self._handler.on_sub(words[0], words[1], words[2])
            return True
        return False

    def _unsubscribe(self, words: list[bytes]) -> bool:
        if len(words) == 1:
            self._handler.on_unsub(words[0], 0)
            return True
        if len(words) == 2:
            # An unreadable count means immediately, as in nats-server.
            count = parse_size(words[1], 0, len(words[1]))
            self._handler.on_unsub(words[0], max(count, 0))
            return True
        return False

    def _finish_skip(self, op: i64) -> None:
        if op == _PING:
            self._handler.on_ping()
        elif op == _PONG:
            self._handler.on_pong()

    def _finish_payload(self) -> None:
        self._handler.on_pub(self._frame)

    def _join_elsewhere(self, pieces: list[bytes]) -> bool:
        return self._handler.on_large(pieces)

    def _fail_line(self) -> i64:
        return self._violate(CONTROL_LINE_VIOLATION)

    def _fail_end(self) -> i64:
        return self._violate(UNKNOWN_OPERATION)

    def _violate(self, text: bytes) -> i64:
        """Report a violation; every violation detected by a parser closes the connection."""
        self.closed = True
        self._pieces.take()
        self._handler.on_violation(text, True)
        return STOP
