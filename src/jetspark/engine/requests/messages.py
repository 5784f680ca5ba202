"""STREAM.MSG.GET, STREAM.MSG.DELETE and STREAM.PURGE."""

import msgspec

from jetspark.api.base import Success
from jetspark.api.message import MSG_DELETE, MsgDeleteRequest, MsgGetRequest
from jetspark.api.stream import STREAM_PURGE, PurgeRequest, PurgeResponse
from jetspark.engine.direct.message_get import check_selection
from jetspark.engine.engine import Engine
from jetspark.engine.purges import LongPurge
from jetspark.engine.refusal import Refusal
from jetspark.engine.requests.request import READ_ONLY, Request
from jetspark.engine.stream.stream import Stream
from jetspark.engine.stream.values import SEQUENCE_MAX
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.errors.storage import StoreReadOnly
from jetspark.store.log.deletion import ROWS_PER_STEP, KeepSearch, is_everything
from jetspark.store.log.subject_purge import rare_entries
from jetspark.subjects.tokens import is_literal


def get(engine: Engine, request: Request) -> bytes | None:
    """Read one message; the request waits if it needs a newer stream (ADR-53)."""
    if request.is_empty():
        raise Refusal(ErrCode.BAD_REQUEST)
    wanted = request.decoded_in_turns(engine, MsgGetRequest)
    check_selection(wanted)
    stream = request.stream(engine)
    return engine.direct.message_get(
        stream, wanted, request.reply, request.now, request.outbox, request.requester
    )


def delete(engine: Engine, request: Request) -> bytes | None:
    """Remove one message, durably."""
    if request.is_empty():
        raise Refusal(ErrCode.BAD_REQUEST)
    wanted = request.decoded_in_turns(engine, MsgDeleteRequest)
    stream = request.stream(engine)
    if stream.config.sealed:
        raise Refusal(ErrCode.STREAM_SEALED)
    if stream.config.deny_delete:
        raise Refusal(ErrCode.MESSAGE_DELETE_FAILED, err="message delete not permitted")
    if wanted.seq > int(stream.log.index.last_seq):
        request.need_staged(engine, stream)
    try:
        found = stream.log.staged.delete(wanted.seq)
    except StoreReadOnly:
        raise Refusal(ErrCode.MESSAGE_DELETE_FAILED, err=READ_ONLY) from None
    if found:
        engine.mark_dirty(stream)
        answer = MSG_DELETE.ok(Success(success=True))
    else:
        # It may be missing because of a staged delete: then this waits for that.
        answer = MSG_DELETE.error(_missing(stream, wanted.seq))
    request.hold(stream, answer, MSG_DELETE)
    return None


def _missing(stream: Stream, seq: int) -> bytes:
    """Return why the message does not exist, with the texts of the released server."""
    if stream.log.segments.in_memory:
        return error_body(ErrCode.SEQUENCE_NOT_FOUND, seq=seq)
    if seq < max(stream.log.index.first_seq, 1):
        return error_body(ErrCode.MESSAGE_DELETE_FAILED, err="no message found")
    if seq > stream.log.staged.seq:
        return error_body(ErrCode.MESSAGE_DELETE_FAILED, err="stream store EOF")
    return error_body(ErrCode.SEQUENCE_NOT_FOUND, seq=seq)


def purge(engine: Engine, request: Request) -> bytes | None:
    """Remove many messages, durably."""
    wanted = request.decoded_object(PurgeRequest, engine)
    if wanted.seq > 0 and wanted.keep > 0:
        raise Refusal(ErrCode.BAD_REQUEST)
    if wanted.seq > SEQUENCE_MAX and is_everything(wanted.filter.encode()):
        # It would leave the stream without sequences for later messages.
        text = f"sequence can not be larger than {SEQUENCE_MAX}"
        raise Refusal(ErrCode.PURGE_FAILED, err=text)
    stream = request.stream(engine)
    if stream.config.sealed:
        raise Refusal(ErrCode.STREAM_SEALED)
    if stream.config.deny_purge:
        raise Refusal(ErrCode.PURGE_FAILED, err="stream purge not permitted")
    if wanted.seq == 1:
        # Nothing is below it, and a stream that never had a message stays as it is.
        request.hold(stream, STREAM_PURGE.ok(PurgeResponse(success=True)), STREAM_PURGE)
        return None
    pattern = wanted.filter.encode()
    request.need_order(engine, stream, [pattern])
    if not is_everything(pattern) or wanted.seq or wanted.keep:
        request.need_staged(engine, stream)
    last = request.last_seq(stream)
    waited = last < int(stream.log.staged.seq)
    if waited and not wanted.keep:
        # Messages that arrived while it waited are newer than the purge.
        seq = min(wanted.seq or last + 1, last + 1)
        wanted = msgspec.structs.replace(wanted, seq=seq)
    is_long = _is_long(stream, wanted, pattern, engine.settings.purge_step)
    if not is_long and not (waited and wanted.keep):
        return _purge_at_once(engine, request, stream, wanted)
    pattern = b"" if is_everything(pattern) else pattern
    if wanted.keep:
        _purge_but_newest(engine, request, stream, wanted.keep, pattern)
    else:
        _purge_long(engine, request, stream, min(wanted.seq or last + 1, last + 1), pattern)
    return None


def _purge_at_once(
    engine: Engine, request: Request, stream: Stream, wanted: PurgeRequest
) -> bytes | None:
    try:
        purged = stream.log.staged.purge(wanted.seq, wanted.filter.encode(), wanted.keep)
        stream.replies.hold_purge(wanted.filter.encode())
    except StoreReadOnly:
        raise Refusal(ErrCode.PURGE_FAILED, err=READ_ONLY) from None
    engine.mark_dirty(stream)
    answer = STREAM_PURGE.ok(PurgeResponse(success=True, purged=int(purged)))
    request.hold(stream, answer, STREAM_PURGE)
    return None


def _purge_but_newest(
    engine: Engine, request: Request, stream: Stream, keep: int, pattern: bytes
) -> None:
    """Purge all except the newest messages of a pattern, as of the request."""
    log = stream.log
    last = request.last_seq(stream)
    rows = log.staged.left_rows_of(pattern)
    evicted = log.staged.evicted_by(rows, last)
    staged = [row[0] for row in rows if row[0] <= last and row[0] not in evicted]
    if len(staged) >= keep:
        _purge_long(engine, request, stream, staged[-keep], pattern)
        return
    # What is staged now was counted, and may be durable when the search starts.
    durable = min(last, int(log.index.last_seq))
    search = KeepSearch(log.index, pattern, keep - len(staged), durable, evicted)

    def step() -> bool:
        return search.step(log.staged.deletions, ROWS_PER_STEP)

    def found() -> None:
        if stream.dropped:
            raise Refusal(ErrCode.STREAM_NOT_FOUND)
        # With fewer than that, nothing is purged: nothing is below the first sequence.
        _purge_long(engine, request, stream, max(int(search.end), 1), pattern)

    if step():
        found()
    else:
        request.later(engine, step, STREAM_PURGE, found)


def _is_long(stream: Stream, wanted: PurgeRequest, pattern: bytes, step: int) -> bool:
    """Return whether a purge is too much for one turn."""
    log = stream.log
    index = log.index
    everything = is_everything(pattern)
    if everything and not (wanted.seq or wanted.keep):
        return False
    if everything and wanted.seq > int(log.staged.seq) + 1:
        return False  # it also moves the end of the stream
    end = min(wanted.seq or int(index.last_seq), int(index.last_seq))
    if end - int(index.first_seq) <= 2 * step:
        # What a slow disk has not written yet may be much more.
        staged = int(log.staged.seq - index.last_seq)
        return staged > 2 * step and not (wanted.keep or everything or is_literal(pattern))
    return everything or rare_entries(index, pattern) is None


def _purge_long(
    engine: Engine, request: Request, stream: Stream, end: int, pattern: bytes
) -> None:
    def done(purged: int) -> None:
        answer = STREAM_PURGE.ok(PurgeResponse(success=True, purged=purged))
        request.hold(stream, answer, STREAM_PURGE)

    def failed() -> None:
        error = error_body(ErrCode.PURGE_FAILED, err="the stream can no longer be written")
        request.outbox.reply(request.reply, STREAM_PURGE.error(error))

    engine.purges.start(LongPurge(stream, end, done, failed, pattern, engine.settings.purge_step))
