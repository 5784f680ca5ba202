"""Fast ingest (ADR-50): a stream of messages with one ack for many, paced by the server."""

# Every call has a timeout argument (design.md, "The client").

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Literal, Self

import msgspec

from jetspark.api.batch import BatchFlowAck, FlowAck, FlowError, FlowGap, decode_flow
from jetspark.api.message import PubAck
from jetspark.client.frames import to_bytes
from jetspark.client.header_input import HeaderInput
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.fast_dialect import (
    APPEND,
    EOB,
    PING,
    START,
    Dialect,
    Gap,
    HeaderDialect,
    ReplyDialect,
)
from jetspark.client.jetstream.fast_window import FastWindow
from jetspark.client.jetstream.publish import Expect, publish_headers
from jetspark.client.message import Message
from jetspark.client.subscription import PENDING_BYTES_MAX, PENDING_MSGS_MAX, Subscription
from jetspark.errors import (
    ApiError,
    BatchIncomplete,
    BufferFull,
    Error,
    NoResponders,
    NotSupported,
    ProtocolViolation,
    RequestTimeout,
    api_error,
    status_error,
)
from jetspark.errors.codes import ErrCode
from jetspark.headers.status import NO_RESPONDERS

FLOW: Final = 500  # messages per ack that are asked for; released servers grant no more
MAX_OUTSTANDING_ACKS: Final = 2  # as orbit.go
PINGS: Final = 2  # before silence is an error
LATE_ACK: Final = 1.0  # seconds for the last ack of a batch that the server calls unknown

GapCallback = Callable[[int, int], None]
RefusalCallback = Callable[[int, ApiError], None]


class FastPublisher:
    """A fast batch. Made by ``JetStream.fast_publisher``; ``async with`` commits at a clean exit.

    Messages are stored as they come, in order; it is not all or nothing. ``acked`` says how many
    are known to be stored, ``ack`` is the final answer.
    """

    def __init__(
        self,
        api: ApiClient,
        *,
        flow: int,
        flow_bytes: int,
        max_outstanding_acks: int,
        gap: Gap,
        on_gap: GapCallback | None,
        on_refused: RefusalCallback | None,
        dialect: Literal["reply", "headers"],
        ack_timeout: float,
    ) -> None:
        if flow < 1 or flow_bytes < 0 or max_outstanding_acks < 1:
            raise ValueError(
                f"flow={flow}, flow_bytes={flow_bytes}, max_outstanding_acks="
                f"{max_outstanding_acks}: expected at least 1 (flow_bytes 0: count messages)"
            )
        if flow_bytes and dialect == "reply":
            raise ValueError('flow_bytes needs dialect="headers": released servers count messages')
        self._core = api.core
        self._timeout = ack_timeout
        self._gap: Gap = gap
        self._on_gap = on_gap
        self._on_refused = on_refused
        self._id = api.nuid.next()
        inbox = api.new_inbox()
        text = f"{flow_bytes}B" if flow_bytes else str(flow)
        self._dialect: Dialect = (
            ReplyDialect(inbox, self._id, flow, gap)
            if dialect == "reply"
            else HeaderDialect(inbox, self._id, text, gap)
        )
        self._window = FastWindow(flow, flow_bytes, max_outstanding_acks)
        self._subscription: Subscription | None = None
        self._subject = b""
        self._ack: PubAck | None = None
        self._failure: Error | None = None
        self._unknown: Error | None = None
        self._closing = False

    @property
    def sent(self) -> int:
        """Messages sent."""
        return self._window.sent

    @property
    def acked(self) -> int:
        """Messages known to be settled: stored, or told of as a gap or refusal."""
        return self._ack.count if self._ack is not None else self._window.acked

    @property
    def is_closed(self) -> bool:
        """Whether it was committed, or has failed."""
        return self._closing or self._failure is not None

    @property
    def ack(self) -> PubAck:
        """The final answer; ValueError before the commit."""
        if self._ack is None:
            raise ValueError("the batch was not committed: there is no ack")
        return self._ack

    async def publish(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        headers: HeaderInput = None,
        msg_id: str = "",
        expect: Expect | None = None,
        ttl: float | Literal["never"] | None = None,
    ) -> int:
        """Send a message as soon as the server allows more; returns its sequence in the batch.

        Raises what ended the batch: BatchIncomplete when messages were lost, ApiError when one
        was refused, BatchNotEnabled, NotSupported, RequestTimeout.
        """
        if expect is not None and expect.last_msg_id:
            raise ValueError("Expect.last_msg_id does not work in a batch (ADR-50)")
        block = publish_headers(headers, msg_id, expect, ttl)
        await self._send(self._core.literal(subject), block, to_bytes(payload))
        return self._window.sent

    async def extend(
        self,
        subjects: Sequence[str],
        payloads: Sequence[bytes],
        headers: Sequence[bytes] | None = None,
        msg_ids: Sequence[str] | None = None,
    ) -> None:
        """Send columns of messages: ``headers`` are whole blocks, empty for none.

        The same as ``publish`` for each row, without its price.
        """
        rows = len(subjects)
        for name, column in (("payloads", payloads), ("headers", headers), ("msg_ids", msg_ids)):
            if column is not None and len(column) != rows:
                raise ValueError(f"extend: {rows} subjects and {len(column)} {name}")
        literal, at = self._core.literal, 0
        while at < rows:
            room = await self._room()
            for row in range(at, min(at + room, rows)):
                block = headers[row] if headers is not None else b""
                if msg_ids is not None and msg_ids[row]:
                    block = _with_id(block, msg_ids[row])
                if not self._post(literal(subjects[row]), block, payloads[row]):
                    await self._core.flush(timeout=self._timeout)
                    break
                at = row + 1
            if self._window.sent == 1:
                await self._started()

    async def commit(self) -> PubAck:
        """End the batch and wait until all of it is stored; ``async with`` does it by itself."""
        if self._ack is not None or self._closing:
            raise ValueError("the batch has ended: make a new one")
        if not self.sent:
            raise ValueError("nothing was sent: there is nothing to commit")
        self._check()
        self._closing = True
        try:
            reply, block = self._dialect.mark(self.sent + 1, EOB, b"")
            self._core.send_message(self._subject, reply, block, b"")
            while (ack := self._final()) is None:
                await self._hear()
        finally:
            await self._leave()
        if self._gap == "fail" and ack.count < self.sent:
            raise self._incomplete(ack)
        return ack

    def _final(self) -> PubAck | None:
        return self._ack

    async def _send(self, subject: bytes, block: bytes, payload: bytes) -> None:
        while True:
            await self._room()
            if self._post(subject, block, payload):
                break
            await self._core.flush(timeout=self._timeout)
        if self._window.sent == 1:
            await self._started()

    def _post(self, subject: bytes, block: bytes, payload: bytes) -> bool:
        """Send one message; False when the connection's buffer is full."""
        window = self._window
        first = not window.sent
        reply, marked = self._dialect.mark(window.sent + 1, START if first else APPEND, block)
        try:
            self._core.send_message(subject, reply, marked, payload)
        except BufferFull:
            return False
        window.send(len(marked) + len(payload))
        self._subject = subject
        return True

    async def _room(self) -> int:
        """Wait until more may be sent; one message before the first answer."""
        self._check()
        if self._subscription is None:
            self._open()
            return 1
        while self._subscription.pending_msgs or not self._window.room() or self._unknown:
            await self._hear()
            self._check()
        return self._window.room()

    async def _started(self) -> None:
        """ADR-50: wait for the first reply, which tells whether there is a batch at all."""
        await self._hear()
        self._check()

    def _open(self) -> None:
        self._subscription = self._core.add_subscription(
            self._dialect.inbox,
            "",
            pending_msgs=PENDING_MSGS_MAX,
            pending_bytes=PENDING_BYTES_MAX,
            callback=None,
        )
        self._core.up_listeners.add(self._on_up)

    async def _leave(self) -> None:
        self._core.up_listeners.discard(self._on_up)
        if self._subscription is not None:
            await self._subscription.unsubscribe()

    async def _hear(self) -> None:
        """Wait for answers and take them; silence is asked about, then an error."""
        assert self._subscription is not None
        for tried in range(PINGS + 1):
            patience = min(self._timeout, LATE_ACK) if self._unknown else self._timeout
            try:
                async with asyncio.timeout(patience):
                    for message in await self._subscription.next_chunk(256):
                        self._take(message)
            except TimeoutError:
                if self._unknown is not None:
                    raise self._unknown from None
                if not self._dialect.can_ping or tried == PINGS:
                    break
                reply, block = self._dialect.mark(self.sent, PING, b"")
                self._core.send_message(self._subject, reply, block, b"")
            else:
                self._check()
                return
        raise RequestTimeout(
            f"fast batch: no answer within {self._timeout} s; {self.acked} of {self.sent} "
            "messages are known to be stored"
        )

    def _take(self, message: Message) -> None:
        if self._ack is not None:
            return  # the batch has ended: what else is said is about messages behind its end
        if not message.data:
            code = message.status
            self._fail(
                NoResponders(self._subject.decode())
                if code == NO_RESPONDERS
                else status_error(code, "")
            )
            return
        try:
            answer = decode_flow(message.data)
        except msgspec.MsgspecError as error:
            self._fail(ProtocolViolation(f"what answered the fast batch is no stream: {error}"))
            return
        match answer:
            case FlowAck():
                self._window.on_ack(answer.seq, answer.msgs)
            case BatchFlowAck():
                if answer.last_seq:
                    self._lost(answer.last_seq + 1, answer.seq)
                self._window.on_ack(answer.seq, answer.messages, answer.bytes)
            case FlowGap():
                self._lost(answer.last_seq, answer.seq)
            case FlowError():
                self._refused(answer)
            case PubAck():
                self._on_pub_ack(answer)

    def _on_pub_ack(self, ack: PubAck) -> None:
        if ack.error is not None:
            error = api_error(ack.error.code, ack.error.err_code, ack.error.description)
            if ack.error.err_code == ErrCode.FAST_ID_UNKNOWN and self._window.sent > 1:
                # The batch has ended; its last ack says where, and may still wait for the disk.
                self._unknown = error
            else:
                self._fail(error)
        elif not ack.batch:
            self._fail(
                NotSupported(
                    f"stream {ack.stream!r} is on a server that does not know fast batches of "
                    f"this dialect: it stored the first message as sequence {ack.seq}"
                )
            )
        elif self._closing:
            self._ack = ack
        else:
            self._fail(self._incomplete(ack))

    def _lost(self, expected: int, got: int) -> None:
        if self._gap == "ok" and self._on_gap is not None:
            self._on_gap(expected, got)

    def _refused(self, answer: FlowError) -> None:
        error = api_error(answer.error.code, answer.error.err_code, answer.error.description)
        if self._gap == "fail":
            error.add_note(f"message {answer.seq} of the batch was refused")
            self._fail(error)
        elif self._on_refused is not None:
            self._on_refused(answer.seq, error)
        else:
            self._core.report(error)

    def _incomplete(self, ack: PubAck) -> BatchIncomplete:
        return BatchIncomplete(
            400,
            ErrCode.ATOMIC_INCOMPLETE,
            f"the server ended the batch after {ack.count} of {self.sent} messages (last sequence "
            f"{ack.seq}): messages were lost on the way; send the rest again, with message ids",
        )

    def _on_up(self) -> None:
        """The connection was replaced: what was on its way may be lost."""
        if self._gap == "ok":
            return
        self._fail(
            BatchIncomplete(
                400,
                ErrCode.ATOMIC_INCOMPLETE,
                f"the connection was lost in a fast batch: {self.acked} of {self.sent} messages "
                "are known to be stored; send the rest again, with message ids",
            )
        )
        if self._subscription is not None:
            self._subscription.end(None)

    def _fail(self, error: Error) -> None:
        if self._failure is None:
            self._failure = error

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self.sent and self._ack is None:
            await self.commit()
        else:
            await self._leave()


def _with_id(block: bytes, msg_id: str) -> bytes:
    return publish_headers(None, msg_id, None, None) if not block else _append_id(block, msg_id)


def _append_id(block: bytes, msg_id: str) -> bytes:
    own = publish_headers(None, msg_id, None, None)
    return block[:-2] + own[10:]
