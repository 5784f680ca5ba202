"""Incremental parser for the server-to-client direction; ``framing`` has its states.

It reads any NATS server and is tolerant where servers are: operations in any case, blanks and tabs
between arguments, INFO at any time and with blanks around its body, anything after PING, PONG and
+OK up to the end of their line, a stray CR or LF that a publisher put into a subject.
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
    parse_number,
    parse_size,
    skip_blanks,
)
from jetspark.protocol.framing import STOP, WORD, FrameParser
from jetspark.protocol.limits import SID_DIGITS_MAX

# Operations, as the index of their word.
_PING: Final = 0
_PONG: Final = 1
_OK: Final = 2
_ERR: Final = 3
_INFO: Final = 4
_MSG: Final = 5
_HMSG: Final = 6
_WORDS: Final = (b"PING", b"PONG", b"+OK", b"-ERR", b"INFO", b"MSG", b"HMSG")

# Number of offending bytes that a violation quotes.
_QUOTED: Final = 64


# The recording handler of the tests is interpreted.
@mypyc_attr(allow_interpreted_subclasses=True)
class ClientOps:
    """Handlers for a server's operations; every method does nothing by default."""

    def on_info(self, body: bytes) -> None:
        """INFO, with the JSON text after it."""

    def on_msg(self, frame: Frame) -> None:
        """MSG or HMSG; the frame is refilled after the call."""

    def on_ping(self) -> None:
        """PING."""

    def on_pong(self) -> None:
        """PONG."""

    def on_ok(self) -> None:
        """+OK."""

    def on_err(self, text: bytes) -> None:
        """-ERR, with the text without its quotes."""

    def on_violation(self, text: bytes) -> None:
        """The server violated the protocol; nothing more is read from it."""


class ClientParser(FrameParser):
    """Turns chunks of bytes into calls of a ``ClientOps``."""

    def __init__(self, handler: ClientOps, max_control_line: i64, max_payload: i64) -> None:
        super().__init__(max_control_line, max_payload)
        self._handler: ClientOps = handler

    def _walk(self, data: bytes, start: i64) -> None:
        end: i64 = len(data)
        pos: i64 = start
        self._frame.data = data
        while pos < end and not self.closed:
            char: i64 = data[pos] | 32
            # MSG and HMSG, the hot ones, by their letters; all other operations by their word.
            if (
                char == 109
                and pos + 3 < end
                and data[pos + 1] | 32 == 115
                and data[pos + 2] | 32 == 103
            ):
                pos = self._message(data, pos, pos + 3, end)
            elif (
                char == 104
                and pos + 4 < end
                and data[pos + 1] | 32 == 109
                and data[pos + 2] | 32 == 115
                and data[pos + 3] | 32 == 103
            ):
                pos = self._message(data, pos, pos + 4, end)
            else:
                pos = self._other(data, pos, end)
            if pos < 0:
                return

    def _message(self, data: bytes, start: i64, after: i64, end: i64) -> i64:
        """Handle MSG or HMSG; return the position after the frame, or STOP."""
        if data[after] not in (32, 9):
            return self._fail(b"unknown operation", data, start, end)
        hs = self._scan(data, start, after, end)
        if hs < 0:
            return STOP
        # HMSG has one more argument, the size of its headers.
        extra: i64 = after - start - 3
        args = self._args - extra
        frame = self._frame
        frame.rs = 0
        frame.re = 0
        header_size: i64 = 0
        size: i64 = -1
        if args == 4:
            frame.rs = self._b3
            frame.re = self._e3
            if extra == 0:
                size = parse_size(data, self._b4, self._e4)
            else:
                header_size = parse_size(data, self._b4, self._e4)
                size = parse_size(data, self._b5, self._e5)
        elif args == 3 and extra == 0:
            size = parse_size(data, self._b3, self._e3)
        elif args == 3:
            header_size = parse_size(data, self._b3, self._e3)
            size = parse_size(data, self._b4, self._e4)
        sid: i64 = -1
        if size >= 0:
            sid = parse_number(data, self._b2, self._e2, SID_DIGITS_MAX)
        if sid < 0 or header_size < 0 or size < header_size:
            return self._fail(b"malformed arguments", data, start, hs)
        if size > self.max_payload and self.max_payload >= 0:
            return self._fail(b"payload larger than the limit", data, start, hs)
        pe = hs + size
        frame.sid = sid
        frame.ss = self._b1
        frame.se = self._e1
        frame.hs = hs
        frame.ps = hs + header_size
        frame.pe = pe
        if pe + 2 > end:
            return self._hold_payload(data, start)
        if data[pe] != CR or data[pe + 1] != LF:
            return self._fail_end()
        self._handler.on_msg(frame)
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
                if op in (_MSG, _HMSG):
                    # Reached only if the chunk ends with the word.
                    return self._hold_word(data, start, after, end)
                return self._line(data, start, after, end, op)
            if match == CUT:
                cut = True
        if not cut:
            return self._fail(b"unknown operation", data, start, end)
        self._word = data[start:]
        self._state = WORD
        return STOP

    def _line(self, data: bytes, start: i64, after: i64, end: i64, op: i64) -> i64:
        """Handle INFO or -ERR; return the position after it, or STOP."""
        first = skip_blanks(data, after, end)
        if first == end:
            return self._hold_word(data, start, after, end)
        found: i64 = data.find(b"\n", first)
        if found < 0:
            return self._hold_line(data, start, after, first)
        stop = found - 1 if data[found - 1] == CR else found
        if stop - first > self.max_control_line:
            return self._fail_line()
        body = data[first:stop].rstrip(b" \t")
        if op == _INFO:
            self._handler.on_info(body)
        elif len(body) >= 2 and body.startswith(b"'") and body.endswith(b"'"):
            self._handler.on_err(body[1:-1])
        else:
            self._handler.on_err(body)
        return found + 1

    def _finish_skip(self, op: i64) -> None:
        if op == _PING:
            self._handler.on_ping()
        elif op == _PONG:
            self._handler.on_pong()
        else:
            self._handler.on_ok()

    def _finish_payload(self) -> None:
        self._handler.on_msg(self._frame)

    def _fail_line(self) -> i64:
        return self._violate(b"control line longer than %d bytes" % int(self.max_control_line))

    def _fail_end(self) -> i64:
        return self._violate(b"payload is not followed by CRLF")

    def _fail(self, what: bytes, data: bytes, start: i64, end: i64) -> i64:
        """Report a violation and quote the start of the offending bytes."""
        quoted = data[start : min(end, start + _QUOTED)]
        return self._violate(what + b": " + repr(quoted).encode())

    def _violate(self, text: bytes) -> i64:
        self.closed = True
        self._pieces.take()
        self._handler.on_violation(text)
        return STOP
