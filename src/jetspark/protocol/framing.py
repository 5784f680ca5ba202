"""Shared by both parsers: one pass over each chunk, and buffering of truncated frames.

A chunk is scanned once with integer offsets (hot-path.md, Rules). A frame that is incomplete at
the end of a chunk is held in one of five states, and its bytes are not scanned again:

- WORD: an operation, perhaps blanks after it; at most eight bytes, put before the next chunk;
- LINE: a control line whose arguments have started; only new bytes are searched for its end;
- PAYLOAD: a complete control line and part of the payload, with the number of missing bytes;
- SKIP: the rest of a PING, PONG or +OK line, whose content is ignored and not kept;
- ASSEMBLING: a complete large frame that is assembled elsewhere, and the bytes after it.

Whatever the peer sends, at most one control line and one payload are held, within the limits.
"""

from typing import Final

from librt.strings import read_i64_le
from mypy_extensions import i64

from jetspark.frame import Frame
from jetspark.protocol.arguments import BLANK, CR, LF, TAB, skip_blanks
from jetspark.protocol.limits import ASSEMBLE_MIN, HEAD_MAX, LOT_MAX, PIECES_MAX

# States between two chunks.
READY: Final = 0
WORD: Final = 1
LINE: Final = 2
PAYLOAD: Final = 3
SKIP: Final = 4
ASSEMBLING: Final = 5

# Returned instead of a position: the rest of the chunk is held, or the parser is closed.
STOP: Final = -1

# For a test of seven bytes at once: a byte is above a blank if and only if its own high bit is set
# or becomes set by adding this to its low seven bits. The eighth byte that is read stays out of
# it, so that nothing overflows.
_LOW_BITS: Final = 0x7F7F7F7F7F7F7F
_ABOVE_BLANK: Final = 0x5F5F5F5F5F5F5F
_HIGH_BITS: Final = 0x80808080808080


class Pieces:
    """The parts of a frame that arrived in several chunks, joined once it is complete.

    ``size`` is the number of bytes held.
    """

    def __init__(self) -> None:
        self.size: i64 = 0
        self._lots: list[bytes] = []
        self._tail: list[bytes] = []
        self._tail_size: i64 = 0

    def add(self, piece: bytes) -> None:
        """Append the next part."""
        self.size += len(piece)
        self._tail_size += len(piece)
        self._tail.append(piece)
        if len(self._tail) >= PIECES_MAX:
            if self._tail_size <= LOT_MAX:
                self._lots.append(b"".join(self._tail))
            else:
                self._lots.extend(self._tail)
            self._tail = []
            self._tail_size = 0

    def take(self) -> bytes:
        """Return everything as one piece and forget it."""
        return b"".join(self.take_all())

    def take_all(self) -> list[bytes]:
        """Return everything in pieces and forget it."""
        pieces = self._lots
        pieces.extend(self._tail)
        self._lots = []
        self._tail = []
        self._tail_size = 0
        self.size = 0
        return pieces


class FrameParser:
    """The parser states between chunks; a subclass per direction adds the operations.

    ``max_payload`` (-1: no limit) and ``max_control_line`` may be changed at any time (``limit``).
    A handler stops the parser with ``close``; an exception of a handler closes it, and propagates.
    """

    def __init__(self, max_control_line: i64, max_payload: i64) -> None:
        self.closed: bool = False
        self.max_control_line: i64 = max_control_line
        self.max_payload: i64 = max_payload
        self._state: i64 = READY
        self._word: bytes = b""
        self._pieces: Pieces = Pieces()
        # ASSEMBLING: the bytes after the frame.
        self._rest: list[bytes] = []
        # LINE: bytes of arguments held. PAYLOAD: bytes missing. SKIP: the operation.
        self._count: i64 = 0
        # The arguments that _scan found last: how many, whether a CR or LF is among them, and
        # where each begins and ends.
        self._args: i64 = 0
        self._odd: bool = False
        self._b1: i64 = 0
        self._e1: i64 = 0
        self._b2: i64 = 0
        self._e2: i64 = 0
        self._b3: i64 = 0
        self._e3: i64 = 0
        self._b4: i64 = 0
        self._e4: i64 = 0
        self._b5: i64 = 0
        self._e5: i64 = 0
        # What handlers get. PAYLOAD: where its parts are in the frame that is not complete.
        self._frame: Frame = Frame()

    def limit(self, max_control_line: i64, max_payload: i64) -> None:
        """Apply these limits from the next frame on."""
        self.max_control_line = max_control_line
        self.max_payload = max_payload

    def close(self) -> None:
        """Ignore all further bytes, also the rest of the chunk that is being parsed."""
        self.closed = True

    def feed(self, data: bytes) -> None:
        """Parse the next bytes, in any pieces; once ``closed`` is set they are ignored."""
        if self.closed:
            return
        try:
            if self._state == READY:
                self._walk(data, 0)
            else:
                self._resume(data)
            # An idle connection keeps no chunk alive.
            self._frame.data = b""
        except BaseException:
            # The rest of the chunk is lost, and payload must never be parsed as operations.
            self.closed = True
            raise

    def joined(self, whole: bytes) -> None:
        """Handle what was assembled (``_join_elsewhere``), and the bytes after it."""
        if self.closed:
            return
        frame = self._frame
        if len(self._word) > 0:
            frame.data = self._word
            frame.body = whole
        else:
            frame.data = whole
        self._word = b""
        self._state = READY
        rest = self._rest
        self._rest = []
        try:
            self._finish_payload()
        except BaseException:
            self.closed = True
            raise
        finally:
            frame.data = b""
            frame.body = b""
        for data in rest:
            self.feed(data)

    def held(self) -> i64:
        """Return how many bytes of a frame that is not complete are kept."""
        return self._pieces.size

    def drop(self) -> None:
        """Close, and keep nothing: no more input will come."""
        self.closed = True
        self._pieces = Pieces()
        self._rest = []

    def is_between_frames(self) -> bool:
        """Return whether the next byte begins a frame."""
        return self._state == READY

    # For subclasses.

    def _walk(self, data: bytes, start: i64) -> None:
        """Handle every frame of ``data`` from ``start`` on; hold a truncated one."""
        raise NotImplementedError

    def _finish_skip(self, op: i64) -> None:
        """Handle an operation without arguments whose line has ended."""
        raise NotImplementedError

    def _finish_payload(self) -> None:
        """Handle a frame that arrived in pieces."""
        raise NotImplementedError

    def _join_elsewhere(self, pieces: list[bytes]) -> bool:
        """Assemble the pieces of a large frame elsewhere; False: assemble them here.

        If True, ``joined`` must be called afterwards.
        """
        return len(pieces) == 0

    def _fail_line(self) -> i64:
        """Report a control line beyond the limit and return STOP."""
        raise NotImplementedError

    def _fail_end(self) -> i64:
        """Report a payload that is not followed by CRLF and return STOP."""
        raise NotImplementedError

    # Shared by subclasses.

    def _scan(self, data: bytes, start: i64, after: i64, end: i64) -> i64:
        """Find the arguments of an operation with a payload; return the position after its line.

        ``data[after]`` is a blank or tab.
        As in nats-server, the first byte of the arguments and a CR without LF belong to them,
        whatever they are; ``_odd`` reports such a CR or LF.
        """
        first = after + 1
        if first == end or data[first] in (BLANK, TAB):
            first = skip_blanks(data, first, end)
            if first == end:
                return self._hold_word(data, start, after, end)
        i = first
        begin = first
        args: i64 = 0
        char: i64 = data[i]
        self._odd = char in (CR, LF)
        while True:
            i += 1
            # Seven bytes at a time while none of them ends an argument.
            while i + 8 <= end:
                seven = read_i64_le(data, i)
                if (((seven & _LOW_BITS) + _ABOVE_BLANK) | seven) & _HIGH_BITS != _HIGH_BITS:
                    break
                i += 7
            while i < end:
                char = data[i]
                if char <= BLANK and char in (BLANK, TAB, LF, CR):
                    if char != CR or i + 1 == end or data[i + 1] == LF:
                        break
                    self._odd = True
                i += 1
            args += 1
            self._set_argument(args, begin, i)
            while i < end and char in (BLANK, TAB):
                i += 1
                if i < end:
                    char = data[i]
            if i == end or (char == CR and i + 1 == end):
                return self._hold_line(data, start, after, first)
            if char == LF or (char == CR and data[i + 1] == LF):
                break
            if char == CR:
                self._odd = True
            begin = i
        self._args = args
        if i - first > self.max_control_line:
            return self._fail_line()
        return i + 1 if char == LF else i + 2

    def _set_argument(self, number: i64, begin: i64, end: i64) -> None:
        """Record the position of an argument; the sixth and later ones only count."""
        if number == 1:
            self._b1 = begin
            self._e1 = end
        elif number == 2:
            self._b2 = begin
            self._e2 = end
        elif number == 3:
            self._b3 = begin
            self._e3 = end
        elif number == 4:
            self._b4 = begin
            self._e4 = end
        elif number == 5:
            self._b5 = begin
            self._e5 = end

    def _skip(self, data: bytes, after: i64, op: i64) -> i64:
        """Handle an operation without arguments; the rest of its line is ignored."""
        found: i64 = data.find(b"\n", after)
        if found < 0:
            self._state = SKIP
            self._count = op
            return STOP
        self._finish_skip(op)
        return found + 1

    def _hold_word(self, data: bytes, start: i64, after: i64, end: i64) -> i64:
        """Hold an operation whose arguments have not started; blanks are collapsed into one."""
        self._word = data[start:after] if after == end else data[start:after] + b" "
        self._state = WORD
        return STOP

    def _hold_line(self, data: bytes, start: i64, after: i64, first: i64) -> i64:
        """Hold a line whose arguments start at ``first`` and whose end has not arrived."""
        self._state = LINE
        self._count = 0
        self._word = data[start:after] + b" "
        self._hold_more(data[first:])
        return STOP

    def _hold_more(self, data: bytes) -> None:
        """Hold more of a line whose end has still not arrived."""
        self._count += len(data)
        # A CR at the end may belong to the line end and is not counted yet.
        count = self._count - 1 if data[len(data) - 1] == CR else self._count
        if count > self.max_control_line:
            self._fail_line()
            return
        self._pieces.add(data)

    def _hold_payload(self, data: bytes, start: i64) -> i64:
        """Hold a frame that starts at ``start`` and whose payload extends beyond the chunk."""
        end: i64 = len(data)
        frame = self._frame
        if frame.pe < end and data[frame.pe] != CR:
            return self._fail_end()
        self._pieces.add(data[start:])
        self._count = frame.pe + 2 - end
        self._state = PAYLOAD
        frame.ss -= start
        frame.se -= start
        if frame.re > frame.rs:
            frame.rs -= start
            frame.re -= start
        frame.hs -= start
        frame.ps -= start
        frame.pe -= start
        return STOP

    def _resume(self, data: bytes) -> None:
        """Complete the frame that the last chunk truncated, then scan the rest."""
        pos: i64 = 0
        if not data:
            return
        if self._state == ASSEMBLING:
            self._rest.append(data)
            return
        if self._state == WORD:
            self._state = READY
            self._walk(self._word + data, 0)
            return
        if self._state == SKIP:
            pos = data.find(b"\n") + 1
            if pos == 0:
                return
            self._state = READY
            self._finish_skip(self._count)
        elif self._state == LINE:
            pos = data.find(b"\n") + 1
            if pos == 0:
                self._hold_more(data)
                return
            self._pieces.add(data[:pos])
            self._state = READY
            self._walk(self._word + self._pieces.take(), 0)
        if self._state == PAYLOAD and not self.closed:
            pos = self._resume_payload(data, pos)
        if self._state == READY:
            self._walk(data, pos)

    def _resume_payload(self, data: bytes, start: i64) -> i64:
        """Complete a truncated frame with ``data[start:]``; return the position after it."""
        end: i64 = len(data)
        after = start + self._count
        if after > end:
            self._pieces.add(data[start:])
            self._count = after - end
            if self._count == 1 and end > start and data[end - 1] != CR:
                self._fail_end()
            return end
        self._pieces.add(data[start:after])
        if self._pieces.size >= ASSEMBLE_MIN:
            # A CR at the end of the previous chunk was checked there.
            if data[after - 1] != LF or (self._count > 1 and data[after - 2] != CR):
                self._fail_end()
                return after
            pieces = self._pieces.take_all()
            if self._begin_assembling(pieces):
                if after < end:
                    self._rest.append(data[after:])
                return end
            whole = b"".join(pieces)
        else:
            whole = self._pieces.take()
        self._state = READY
        frame = self._frame
        if whole[frame.pe] != CR or whole[frame.pe + 1] != LF:
            self._fail_end()
        else:
            frame.data = whole
            self._finish_payload()
        return after

    def _begin_assembling(self, pieces: list[bytes]) -> bool:
        """Let a frame be assembled elsewhere, if the subclass supports that.

        Only its payload if everything before it is short, otherwise all of it.
        """
        frame = self._frame
        ps = frame.ps
        if ps > HEAD_MAX or frame.pe - ps < ASSEMBLE_MIN - HEAD_MAX:
            if not self._join_elsewhere(pieces):
                return False
            self._word = b""
            self._state = ASSEMBLING
            return True
        head = pieces[0]
        used = 1
        while len(head) < ps:
            head += pieces[used]
            used += 1
        body = [head[ps:], *pieces[used:]]
        left: i64 = 2  # the line end
        while left > len(body[-1]):
            left -= len(body.pop())
        body[-1] = body[-1][: len(body[-1]) - left]
        if not self._join_elsewhere(body):
            return False
        self._word = head[:ps]
        self._state = ASSEMBLING
        return True
