"""STREAM.MSG.GET: a message as JSON (wire.md, Streams), with read-after-write (ADR-53)."""

from binascii import b2a_base64
from functools import partial
from typing import Final

from jetspark.api.base import Timestamp
from jetspark.api.message import MSG_GET, MsgGetRequest, MsgGetResponse, StoredMessage
from jetspark.engine.long_work import LongEncoding
from jetspark.engine.refusal import Refusal
from jetspark.engine.stream.stream import Stream
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.errors.storage import CorruptRecord, ReadFailed
from jetspark.store.format.record import FIXED, body_end, headers_end, record_time, subject_end
from jetspark.store.log.pattern_search import LastSearch, NextSearch
from jetspark.store.threads import let_others_run

# A body of this size is encoded in the background, in pieces of a multiple of three bytes.
LONG_BODY: Final = 2 * 1024 * 1024
PIECE: Final = 3 * 256 * 1024
# What a large body is replaced by; an answer has its encoding once, because no text has quotes.
_PLACEHOLDER: Final = bytes(3)
_ENCODED: Final = b'"data":"AAAA"'


def check_selection(request: MsgGetRequest) -> None:
    """Refuse a request that does not select one message."""
    timed = request.start_time is not None
    last = bool(request.last_by_subj)
    if (
        request.batch > 0
        or request.max_bytes > 0
        or not (request.seq or last or request.next_by_subj or timed)
        or (request.seq and last)
        or (request.seq and timed)
        or (timed and last)
        or (last and request.next_by_subj)
    ):
        raise Refusal(ErrCode.BAD_REQUEST)


def selected(stream: Stream, request: MsgGetRequest) -> int:
    """Return the sequence that a request selects; 0 or more than the last if none.

    UNKNOWN if ``searches`` must search for it.
    """
    index = stream.log.index
    if request.last_by_subj:
        return int(index.quick_last(request.last_by_subj.encode()))
    first = first_of(stream, request)
    if request.next_by_subj:
        return int(index.quick_next(first, request.next_by_subj.encode()))
    return first


def first_of(stream: Stream, request: MsgGetRequest) -> int:
    """Return where the search of a request starts."""
    first = request.seq
    if request.start_time is not None:
        first = int(stream.log.reader.first_at(request.start_time))
    return max(first, 1) if request.next_by_subj else first


def searches(
    stream: Stream, request: MsgGetRequest
) -> tuple[LastSearch | None, NextSearch | None]:
    """Return the search, in steps, for the message that a request selects."""
    index = stream.log.index
    if request.last_by_subj:
        return LastSearch(index, request.last_by_subj.encode()), None
    first = first_of(stream, request)
    return None, NextSearch(index, first, request.next_by_subj.encode())


class Answer:
    """The reply of a STREAM.MSG.GET, once its stream is new enough."""

    def __init__(self, stream: Stream, request: MsgGetRequest) -> None:
        self._stream = stream
        self._request = request
        self._encoding: LongEncoding | None = None

    def selected(self) -> int | bytes:
        """Return the sequence as ``selected`` does; the reply if that cannot be read."""
        try:
            return selected(self._stream, self._request)
        except (CorruptRecord, ReadFailed) as problem:
            return self._failed(problem.public)

    def described(self, seq: int) -> bytes:
        """Return the reply with the message of a sequence.

        Raises LongRead or LongEncoding, and is called again when that was done.
        """
        stream, request = self._stream, self._request
        encoding = self._encoding
        if encoding is not None and encoding.problem:
            return self._failed(encoding.problem)
        if encoding is not None:
            if not encoding.result:
                raise encoding
            return encoding.result
        try:
            data, at = stream.log.reader.locate_in_turn(seq) if seq > 0 else (b"", 0)
        except (CorruptRecord, ReadFailed) as problem:
            return self._failed(problem.public)
        if not data:
            return refused(stream, request, error_body(ErrCode.MESSAGE_NOT_FOUND))
        middle = subject_end(data, at)
        end = headers_end(data, at)
        stop = body_end(data, at)
        message = StoredMessage(
            subject=data[at + FIXED : middle].decode("utf-8", "replace"),
            seq=seq,
            hdrs=b"" if request.no_hdr else data[middle:end],
            data=data[end:stop] if stop - end < LONG_BODY else _PLACEHOLDER,
            time=Timestamp(record_time(data, at)),
        )
        proof = int(stream.log.index.last_seq) if request.min_last_seq else 0
        reply = MSG_GET.ok(MsgGetResponse(message=message, min_last_seq=proof))
        if stop - end < LONG_BODY:
            return reply
        self._encoding = LongEncoding(partial(_with_body, reply, data, int(end), int(stop)))
        raise self._encoding

    def _failed(self, problem: str) -> bytes:
        error = error_body(ErrCode.STREAM_GENERAL, err=problem)
        return refused(self._stream, self._request, error)


def _with_body(reply: bytes, data: bytes, start: int, stop: int) -> bytes:
    """Return a reply with a large body instead of the placeholder; in a thread."""
    before, _, after = reply.partition(_ENCODED)
    pieces = [before, b'"data":"']
    view = memoryview(data)
    for at in range(start, stop, PIECE):
        pieces.append(b2a_base64(view[at : min(at + PIECE, stop)], newline=False))
        let_others_run()
    pieces += [b'"', after]
    return b"".join(pieces)


def refused(stream: Stream, request: MsgGetRequest, error: bytes) -> bytes:
    """Return an error reply; it has the proof too, if the request asked for one."""
    reply = MSG_GET.error(error)
    if not request.min_last_seq:
        return reply
    return b'%s,"min_last_seq":%d}' % (reply[:-1], stream.log.index.last_seq)
