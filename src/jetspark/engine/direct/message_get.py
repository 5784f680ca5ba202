"""STREAM.MSG.GET: a message as JSON (wire.md, Streams), with read-after-write (ADR-53)."""

from jetspark.api.base import Timestamp
from jetspark.api.message import MSG_GET, MsgGetRequest, MsgGetResponse, StoredMessage
from jetspark.engine.refusal import Refusal
from jetspark.engine.stream.stream import Stream
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.errors.storage import CorruptRecord, ReadFailed
from jetspark.store.format.record import FIXED, body_end, headers_end, record_time, subject_end
from jetspark.store.log.pattern_search import UNKNOWN, LastSearch, NextSearch


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


def answer(stream: Stream, request: MsgGetRequest) -> bytes | None:
    """Return the reply of STREAM.MSG.GET, once its stream is new enough; None: search for it."""
    try:
        seq = selected(stream, request)
    except (CorruptRecord, ReadFailed) as problem:
        error = error_body(ErrCode.STREAM_GENERAL, err=problem.public)
        return refused(stream, request, error)
    return None if seq == UNKNOWN else described(stream, request, seq)


def described(stream: Stream, request: MsgGetRequest, seq: int) -> bytes:
    """Return the reply with the message of a sequence."""
    try:
        data, at = stream.log.reader.locate(seq) if seq > 0 else (b"", 0)
    except (CorruptRecord, ReadFailed) as problem:
        error = error_body(ErrCode.STREAM_GENERAL, err=problem.public)
        return refused(stream, request, error)
    if not data:
        return refused(stream, request, error_body(ErrCode.MESSAGE_NOT_FOUND))
    middle = subject_end(data, at)
    end = headers_end(data, at)
    message = StoredMessage(
        subject=data[at + FIXED : middle].decode("utf-8", "replace"),
        seq=seq,
        hdrs=b"" if request.no_hdr else data[middle:end],
        data=data[end : body_end(data, at)],
        time=Timestamp(record_time(data, at)),
    )
    proof = int(stream.log.index.last_seq) if request.min_last_seq else 0
    return MSG_GET.ok(MsgGetResponse(message=message, min_last_seq=proof))


def refused(stream: Stream, request: MsgGetRequest, error: bytes) -> bytes:
    """Return an error reply; it has the proof too, if the request asked for one."""
    reply = MSG_GET.error(error)
    if not request.min_last_seq:
        return reply
    return b'%s,"min_last_seq":%d}' % (reply[:-1], stream.log.index.last_seq)
