"""Direct gets and STREAM.MSG.GET of an engine: answered, held, or in progress (ADR-31, ADR-53)."""

from contextlib import suppress
from functools import partial

from jetspark.api.message import MsgGetRequest
from jetspark.engine.direct import message_get
from jetspark.engine.direct.gate import Gate, HeldReads
from jetspark.engine.direct.multi import MultiRead
from jetspark.engine.direct.read import (
    UNREADABLE_TEXT,
    BatchRead,
    DirectReader,
    OneRead,
    Run,
)
from jetspark.engine.direct.request import LEVEL_TOO_LOW, needs_newer, parse_request
from jetspark.engine.failures import INTERNAL_TEXT, Failures
from jetspark.engine.limits import DIRECT_GET_BYTES_MAX
from jetspark.engine.long_work import LongEncoding, LongWork, Work
from jetspark.engine.outbox import Budget, Outbox
from jetspark.engine.ports import EnginePorts
from jetspark.engine.stream.stream import Stream
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.errors.storage import CorruptRecord, ReadFailed
from jetspark.headers.names import MIN_LAST_SEQUENCE
from jetspark.headers.status import (
    MIN_LAST_SEQUENCE_TEXT,
    NO_RESPONDERS,
    NO_RESULTS_TEXT,
    NOT_FOUND,
    PRECONDITION_FAILED,
    SERVER_ERROR,
    status_block,
)
from jetspark.store.log.long_read import LongRead
from jetspark.store.log.pattern_search import UNKNOWN
from jetspark.units import LATEST


class DirectGets:
    """The reads of one engine."""

    def __init__(
        self,
        ports: EnginePorts,
        min_last_seq_wait_ns: int,
        held: HeldReads,
        failures: Failures,
        long_work: LongWork,
    ) -> None:
        self._ports = ports
        self._failures = failures
        self._long_work = long_work
        self.work: list[Run] = []
        # Reads whose receivers' buffers are full.
        self.stalled: list[Run] = []
        self._reader = DirectReader()
        self.gate: Gate = Gate(min_last_seq_wait_ns, held)

    def change_wait(self, min_last_seq_wait_ns: int) -> None:
        """Change the timeout of held reads."""
        self.gate.change_wait(min_last_seq_wait_ns)

    def next_deadline(self) -> int | None:
        """Return when ``refuse_expired`` has something to do."""
        return self.gate.next_deadline()

    def get(
        self,
        stream: Stream,
        appended: bytes,
        body: bytes,
        reply: bytes,
        now: int,
        outbox: Outbox,
        headers: bytes = b"",
        requester: object = None,
    ) -> None:
        """Answer a direct get, now or when its stream is new enough."""
        if not reply:
            return
        if headers and needs_newer(headers):
            outbox.reply_status(reply, LEVEL_TOO_LOW)
            return
        if self._reader.quick(stream, appended, body, reply, outbox):
            return
        request = parse_request(body, appended.decode(errors="replace"))
        if isinstance(request, bytes):
            outbox.reply_status(reply, request)
        elif request.min_last_seq <= stream.log.index.last_seq:
            self._read(stream, request, reply, outbox)
        elif not self.gate.hold(stream, request, reply, now, direct=True, requester=requester):
            stale_refusal(stream, request, reply, outbox, direct=True)

    def message_get(
        self,
        stream: Stream,
        request: MsgGetRequest,
        reply: bytes,
        now: int,
        outbox: Outbox,
        requester: object = None,
    ) -> bytes | None:
        """Answer STREAM.MSG.GET; None if it has to wait for its stream."""
        if request.min_last_seq <= stream.log.index.last_seq:
            return self._answer(stream, request, reply)
        if not self.gate.hold(stream, request, reply, now, direct=False, requester=requester):
            stale_refusal(stream, request, reply, outbox, direct=False)
        return None

    def _answer(self, stream: Stream, request: MsgGetRequest, reply: bytes) -> bytes | None:
        """Return the answer of STREAM.MSG.GET; None if it takes several turns."""
        answer = message_get.Answer(stream, request)
        seq = answer.selected()
        if isinstance(seq, bytes):
            return seq
        if seq != UNKNOWN:
            with suppress(LongRead, LongEncoding):
                return answer.described(seq)
        outlet = self._ports.reply_outlet(reply)
        if outlet is not None:
            last = following = None
            if seq == UNKNOWN:
                last, following = message_get.searches(stream, request)
            one = OneRead(
                self._reader,
                stream,
                outlet,
                reply,
                b"",
                last,
                following,
                answer.described,
                message_get.refused(stream, request, error_body(ErrCode.STREAM_NOT_FOUND)),
                seq=seq,
            )
            self.work.append(one)
        return None

    def _read(self, stream: Stream, request: MsgGetRequest, reply: bytes, outbox: Outbox) -> None:
        proof = proof_line(stream) if request.min_last_seq else b""
        try:
            self._begin(stream, request, reply, proof, outbox)
        except ReadFailed:
            # A time had to be looked up in records that the disk fails to read.
            outbox.reply_status(reply, status_block(SERVER_ERROR, UNREADABLE_TEXT, proof))

    def _begin(
        self, stream: Stream, request: MsgGetRequest, reply: bytes, proof: bytes, outbox: Outbox
    ) -> None:
        if request.multi_last:
            self._read_multi(stream, request, reply, proof, outbox)
        elif request.batch == 0:
            seq = message_get.selected(stream, request)
            if seq == UNKNOWN or not self._reader.one(
                stream, seq, request.no_hdr, proof, reply, outbox
            ):
                self._read_one(stream, request, seq, reply, proof)
        elif (outlet := self._ports.reply_outlet(reply)) is not None:
            first = request.seq
            if request.start_time is not None:
                first = stream.log.reader.first_at(request.start_time)
            batch = BatchRead(
                self._reader,
                stream,
                outlet,
                reply,
                max(first, 1),
                request.next_by_subj.encode(),
                request.batch,
                page_bytes(request.max_bytes),
                proof,
                request.no_hdr,
            )
            self.work.append(batch)

    def _read_one(
        self, stream: Stream, request: MsgGetRequest, seq: int, reply: bytes, proof: bytes
    ) -> None:
        """Answer a read of one message when it was found, and read."""
        outlet = self._ports.reply_outlet(reply)
        if outlet is None:
            return
        last = following = None
        if seq == UNKNOWN:
            last, following = message_get.searches(stream, request)
        one = OneRead(
            self._reader,
            stream,
            outlet,
            reply,
            proof,
            last,
            following,
            no_headers=request.no_hdr,
            seq=seq,
        )
        self.work.append(one)

    def _read_multi(
        self, stream: Stream, request: MsgGetRequest, reply: bytes, proof: bytes, outbox: Outbox
    ) -> None:
        up_to = request.up_to_seq
        if request.up_to_time is not None:
            # Inclusive (ADR-31, decisions.md): up to the last one that is not newer.
            up_to = stream.log.reader.first_at(min(request.up_to_time + 1, LATEST)) - 1
            if up_to < max(stream.log.index.first_seq, 1):
                outbox.reply_status(reply, status_block(NOT_FOUND, NO_RESULTS_TEXT, proof))
                return
        outlet = self._ports.reply_outlet(reply)
        if outlet is not None:
            multi = MultiRead(
                self._reader,
                stream,
                outlet,
                reply,
                request.seq,
                [pattern.encode() for pattern in request.multi_last],
                up_to,
                request.batch,
                page_bytes(request.max_bytes),
                proof,
            )
            self.work.append(multi)

    def advance(self, budget: Budget) -> None:
        """Continue the reads in progress, within one turn's budget."""
        # Rotated, so that one large read does not block the others.
        turn, self.work = self.work, []
        for done, batch in enumerate(turn):
            if not budget.left():
                self.work = turn[done:] + self.work
                break
            try:
                if not batch.step(budget):
                    # While the receiver's buffer is full there is nothing to do for it.
                    (self.stalled if batch.outlet.full() else self.work).append(batch)
            except (LongRead, LongEncoding) as work:
                self._long_work.wait(work, partial(self._continue, batch), batch.is_wanted)
            except (CorruptRecord, ReadFailed):
                batch.status(SERVER_ERROR, UNREADABLE_TEXT, batch.proof)
            except Exception as error:  # noqa: BLE001 - one read, not those after it
                self._failures.note(f"a read of stream {batch.stream.config.name!r}", error)
                with suppress(Exception):  # the receiver may be what raises
                    batch.status(SERVER_ERROR, INTERNAL_TEXT, batch.proof)

    def _continue(self, run: Run, work: Work) -> None:
        """Continue a read for which something was done in the background, before all others."""
        if isinstance(work, LongRead):
            run.note_read(work)
        self.work.insert(0, run)

    def unstall(self) -> bool:
        """Continue reads whose receivers have room again; False if there are none."""
        runs, self.stalled = self.stalled, []
        for run in runs:
            (self.stalled if run.outlet.full() else self.work).append(run)
        return len(self.stalled) < len(runs)

    def answer_held(self, stream: Stream, outbox: Outbox) -> None:
        """Answer the reads that waited for what a stream has now."""
        for held in self.gate.released(stream):
            if held.direct:
                self._read(stream, held.request, held.reply, outbox)
            else:
                body = self._answer(stream, held.request, held.reply)
                if body is not None:
                    outbox.reply(held.reply, body)

    def refuse_expired(self, now: int, outbox: Outbox) -> None:
        """Refuse the reads whose timeout is over."""
        for held in self.gate.expired(now):
            stale_refusal(held.stream, held.request, held.reply, outbox, direct=held.direct)

    def refuse_dropped(self, stream: Stream, outbox: Outbox) -> None:
        """Answer the reads that wait for a deleted stream, as if they arrived now."""
        for held in self.gate.dropped(stream):
            if held.direct:
                outbox.reply_status(held.reply, status_block(NO_RESPONDERS, b""))
            else:
                error = error_body(ErrCode.STREAM_NOT_FOUND)
                outbox.reply(held.reply, message_get.refused(stream, held.request, error))


def stale_refusal(
    stream: Stream, request: MsgGetRequest, reply: bytes, outbox: Outbox, *, direct: bool
) -> None:
    """Refuse a read that requests more than its stream has (ADR-53)."""
    if direct:
        block = status_block(PRECONDITION_FAILED, MIN_LAST_SEQUENCE_TEXT, proof_line(stream))
        outbox.reply_status(reply, block)
    else:
        error = error_body(ErrCode.MIN_LAST_SEQUENCE)
        outbox.reply(reply, message_get.refused(stream, request, error))


def page_bytes(max_bytes: int) -> int:
    """Return how much a run may send; it ends after the message that reaches this."""
    return max(max_bytes, 1) if max_bytes else DIRECT_GET_BYTES_MAX


def proof_line(stream: Stream) -> bytes:
    """Return the header with the copy's last sequence (decisions.md, Read-after-write)."""
    return b"%b: %d\r\n" % (MIN_LAST_SEQUENCE, stream.log.index.last_seq)
