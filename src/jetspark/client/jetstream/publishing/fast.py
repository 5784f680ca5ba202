"""Fast ingest (ADR-50): a flow of messages with one ack for many, controlled by the server."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import repeat
from types import TracebackType
from typing import Final, Literal, Self

from jetspark.api.message import PubAck
from jetspark.client.arguments import function, whole
from jetspark.client.header_input import HeaderInput
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.publishing.fast_answers import (
    FastAnswers,
    GapCallback,
    RefusalCallback,
)
from jetspark.client.jetstream.publishing.fast_dialect import (
    APPEND,
    EOB,
    PING,
    START,
    Dialect,
    Gap,
    make_dialect,
)
from jetspark.client.jetstream.publishing.fast_window import FastWindow
from jetspark.client.jetstream.publishing.publisher import Expect, publish_headers
from jetspark.client.subscription import SubscriptionCore
from jetspark.client.timeouts import TimeToLive
from jetspark.errors import (
    AlreadyEnded,
    BufferFull,
    ConnectionClosed,
    Error,
    InvalidState,
    RequestTimeout,
)

FLOW: Final = 500  # requested messages per ack; the maximum of released servers
MAX_OUTSTANDING_ACKS: Final = 2  # as in orbit.go
PINGS: Final = 2  # unanswered pings before RequestTimeout
COMMITS: Final = 5  # attempts to commit before RequestTimeout
LATE_ACK: Final = 1.0  # seconds for the last ack of a batch that the server reports as unknown
LEADER_PAUSE: Final = 0.05  # seconds between attempts to reach a new leader, doubling
LEADER_PAUSE_MAX: Final = 1.0


class FastPublisher:
    """A fast batch, from ``JetStream.fast_publisher``; ``async with`` commits at a clean exit.

    Messages are stored as they arrive, in order; it is not all or nothing. ``acked`` counts the
    messages that are settled: stored, or (with ``gap`` "ok") reported as missing. ``ack`` is the
    final answer.

    If the connection is replaced or the stream changes its leader, the server is asked what it has
    of the batch. If nothing was lost, or ``gap`` is "ok", the batch continues; otherwise
    BatchIncomplete is raised. Then, if ``is_exact``, the first ``acked`` messages are stored and
    no others: send the rest in a new batch. Otherwise the server's last answer was lost, more of
    them may be stored, and messages sent again need message ids. (The header dialect cannot ask.)
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
        whole(flow, "flow", least=1)
        whole(flow_bytes, "flow_bytes")
        whole(max_outstanding_acks, "max_outstanding_acks", least=1)
        if on_gap is not None:
            function(on_gap, "on_gap", "the expected and the received sequence")
        if on_refused is not None:
            function(on_refused, "on_refused", "a sequence and an error")
        self._core = api.core
        self._high_water = api.high_water
        self._timeout = ack_timeout
        self._gap: Gap = gap
        self._id = api.nuid.next()
        self._dialect: Dialect = make_dialect(
            dialect, api.new_inbox(), self._id, flow, flow_bytes, gap
        )
        self._window = FastWindow(flow, flow_bytes, max_outstanding_acks)
        self._answers = FastAnswers(
            self._window,
            gap,
            can_ping=self._dialect.can_ping,
            on_gap=on_gap,
            on_refused=on_refused,
            report=api.core.report,
        )
        self._subscription: SubscriptionCore | None = None
        self._subject = b""
        # Of tasks that publish concurrently, one reads the answers and the others wait for it.
        self._turn = asyncio.Lock()
        # ADR-50: whether the first reply has arrived, which tells whether the batch was accepted.
        self._is_started = False
        # Whether the server was asked what it has: the batch, or its end, may be lost.
        self._asked = False

    @property
    def sent(self) -> int:
        """Messages sent."""
        return self._window.sent

    @property
    def acked(self) -> int:
        """Messages known to be settled: stored, or reported as a gap or refusal."""
        return self._answers.ack.count if self._answers.ack is not None else self._window.acked

    @property
    def is_exact(self) -> bool:
        """Whether the server reported where the batch ended: then ``acked`` is all it stored."""
        return self._answers.exact

    @property
    def is_closed(self) -> bool:
        """Whether it was committed, or has failed."""
        return self._answers.closing or self._answers.failure is not None

    @property
    def ack(self) -> PubAck:
        """The final answer; InvalidState before the commit."""
        if self._answers.ack is None:
            raise InvalidState("the fast batch was not committed, so there is no ack")
        return self._answers.ack

    async def publish(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeaderInput = None,
        msg_id: str = "",
        expect: Expect | None = None,
        ttl: TimeToLive | None = None,
    ) -> int:
        """Send a message as soon as the server allows it; returns its sequence in the batch.

        Raises the error that ended the batch: BatchIncomplete if messages were lost, ApiError if
        one was refused, BatchNotEnabled, NotSupported, RequestTimeout.
        """
        if expect is not None and expect.last_msg_id:
            raise ValueError("Expect.last_msg_id is not supported in a batch (ADR-50): omit it")
        block = publish_headers(headers, msg_id, expect, ttl)
        target = self._core.literal(subject)
        sent = self._post(target, block, data) if self._ready() else 0
        return sent or await self._send(target, block, data)

    async def extend(
        self,
        subjects: Sequence[str],
        data: Sequence[bytes],
        headers: Sequence[bytes] | None = None,
        msg_ids: Sequence[str] | None = None,
    ) -> None:
        """Send columns of messages: ``headers`` are whole blocks, empty for none.

        The same as ``publish`` for each row, but faster.
        """
        rows = len(subjects)
        for name, column in (("data", data), ("headers", headers), ("msg_ids", msg_ids)):
            if column is not None and len(column) != rows:
                raise ValueError(f"extend: {rows} subjects, but {name} has {len(column)} rows")
        at = 0
        while at < rows:
            room = await self._room()
            stop = min(at + room, rows)
            if room == 1:
                # The first message, or the flow is in bytes.
                block = _row_block(headers, msg_ids, at)
                if self._post(self._core.literal(subjects[at]), block, data[at]):
                    at = stop
                    await self._started()
                else:
                    await self._core.flush(timeout=self._timeout)
                continue
            targets = list(map(self._core.literal, subjects[at:stop]))
            blocks = _row_blocks(headers, msg_ids, at, stop)
            frames = self._dialect.frames(
                self.sent + 1, targets, blocks, data[at:stop], self._core.max_payload
            )
            try:
                self._core.send_messages(frames)
            except BufferFull:
                await self._core.flush(timeout=self._timeout)
                continue
            self._window.send_many(len(frames))
            self._subject = targets[len(frames) - 1]
            at += len(frames)

    async def commit(self) -> PubAck:
        """End the batch and wait until all of it is stored; ``async with`` calls it."""
        answers = self._answers
        if answers.closing:
            raise AlreadyEnded("the fast batch has ended: create a new one")
        if not self.sent:
            raise InvalidState("nothing was sent, so there is nothing to commit")
        answers.check()
        answers.close()
        try:
            async with self._turn:
                for _ in range(COMMITS):
                    if (ack := await self._end()) is not None:
                        return ack
        finally:
            if answers.ack is not None:
                self._high_water.note(answers.ack.stream, answers.ack.seq)
            await self._leave()
        raise RequestTimeout(f"fast batch: the commit was not answered in {COMMITS} attempts")

    async def _end(self) -> PubAck | None:
        """Send the end; None if it was lost in transit."""
        answers = self._answers
        answers.check()
        self._asked = False
        try:
            self._send_control(EOB, self.sent + 1)
        except BufferFull:
            await self._core.flush(timeout=self._timeout)
            self._send_control(EOB, self.sent + 1)
        while not self._asked:
            if (ack := answers.final()) is not None:
                return ack
            await self._receive()
        # Another answer has arrived since: then the end was lost.
        await self._find_leader()
        return answers.final()

    def _ready(self) -> bool:
        """Whether a message can be sent without waiting."""
        return (
            self._is_started
            and self._subscription is not None
            and not self._subscription.pending_msgs
            and self._answers.quiet
            and self._window.room() > 0
        )

    async def _send(self, subject: bytes, block: bytes, payload: bytes) -> int:
        while True:
            await self._room()
            if sent := self._post(subject, block, payload):
                break
            await self._core.flush(timeout=self._timeout)
        await self._started()
        return sent

    def _post(self, subject: bytes, block: bytes, payload: bytes) -> int:
        """Send one message; returns its sequence, or 0 if the connection's buffer is full."""
        window = self._window
        first = not window.sent
        reply, marked = self._dialect.mark(window.sent + 1, START if first else APPEND, block)
        try:
            self._core.send_message(subject, reply, marked, payload)
        except BufferFull:
            return 0
        self._subject = subject
        return window.send(len(marked) + len(payload))

    async def _room(self) -> int:
        """Wait until more may be sent; one message before the first answer."""
        answers, window = self._answers, self._window
        async with self._turn:
            while True:
                answers.check()
                if answers.closing:
                    raise AlreadyEnded("the fast batch has ended: create a new one")
                subscription = self._subscription or self._open()
                if not window.sent:
                    return 1
                if subscription.pending_msgs or answers.unknown or not self._is_started:
                    await self._receive()
                elif answers.leaderless:
                    await self._find_leader()
                elif room := window.room():
                    return room
                else:
                    await self._receive()

    async def _started(self) -> None:
        """ADR-50: wait for the first reply."""
        if not self._is_started:
            async with self._turn:
                while not self._is_started:
                    await self._receive()

    def _open(self) -> SubscriptionCore:
        self._subscription = self._core.add_subscription(self._dialect.inbox)
        self._core.up_listeners.add(self._on_up)
        return self._subscription

    async def _leave(self) -> None:
        self._core.up_listeners.discard(self._on_up)
        if self._subscription is not None:
            await self._subscription.unsubscribe()

    def _send_control(self, operation: int, seq: int) -> None:
        """Send a control message: a ping, or the end."""
        reply, block = self._dialect.mark(seq, operation, b"")
        self._core.send_message(self._subject, reply, block, b"")

    def _ask(self) -> None:
        """Ask the server what it has; if something is missing, that is a gap."""
        self._asked = True
        self._send_control(PING, self.sent)

    async def _receive(self) -> None:
        """Wait for answers and process them; raises the error that ended the batch."""
        try:
            await self._listen()
        except Error as error:
            await self._give_up(error)
            raise

    async def _give_up(self, error: Error) -> None:
        self._answers.fail(error)
        await self._leave()

    async def _listen(self) -> None:
        """Ping after a timeout; after several, raise RequestTimeout."""
        assert self._subscription is not None
        answers = self._answers
        for tried in range(PINGS + 1):
            patience = min(self._timeout, LATE_ACK) if answers.unknown else self._timeout
            try:
                async with asyncio.timeout(patience):
                    chunk = await self._subscription.next_chunk(256)
            except TimeoutError:
                if answers.unknown is not None:
                    raise answers.unknown from None
                if not self._dialect.can_ping or tried == PINGS:
                    break
                self._ask()
            else:
                for message in chunk:
                    answers.take(message, self._subject.decode())
                answers.check()
                if not chunk:
                    raise ConnectionClosed("the connection was closed during a fast batch")
                self._is_started = True
                if answers.leaderless:
                    self._asked = True
                return
        raise RequestTimeout(
            f"fast batch: no answer within {self._timeout} s; {self.acked} of {self.sent} "
            "messages are known to be stored"
        )

    async def _find_leader(self) -> None:
        """No responders for the last message: ask until the stream has a leader again."""
        loop, pause = self._core.loop, LEADER_PAUSE
        deadline = loop.time() + self._timeout * (PINGS + 1)
        while self._answers.leaderless and self._answers.unknown is None:
            if loop.time() >= deadline:
                error = RequestTimeout(
                    f"fast batch: no responders on {self._subject.decode()!r} for "
                    f"{self._timeout * (PINGS + 1):.1f} s; at least {self.acked} of {self.sent} "
                    "messages are stored"
                )
                await self._give_up(error)
                raise error
            await asyncio.sleep(pause)
            pause = min(2 * pause, LEADER_PAUSE_MAX)
            self._answers.try_leader()
            self._ask()
            await self._receive()

    def _on_up(self) -> None:
        """The connection was replaced: messages in flight may be lost."""
        if not self.sent:
            return
        if self._dialect.can_ping:
            self._answers.on_cut()
            with suppress(BufferFull):  # a missing answer is handled later
                self._ask()
        elif self._gap == "fail":
            self._answers.fail(self._answers.incomplete("the connection was lost in a fast batch"))
            self._core.up_listeners.discard(self._on_up)
            if self._subscription is not None:
                self._subscription.end(None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None and self.sent and not self._answers.closing:
            await self.commit()
        else:
            self._answers.close()
            await self._leave()

    def __repr__(self) -> str:
        return f"FastPublisher(sent={self.sent}, acked={self.acked})"


def _row_block(headers: Sequence[bytes] | None, msg_ids: Sequence[str] | None, row: int) -> bytes:
    """The header block of a row."""
    block = headers[row] if headers is not None else b""
    if msg_ids is None or not msg_ids[row]:
        return block
    own = publish_headers(None, msg_ids[row], None, None)
    return block[:-2] + own[10:] if block else own


def _row_blocks(
    headers: Sequence[bytes] | None, msg_ids: Sequence[str] | None, at: int, stop: int
) -> Sequence[bytes]:
    """The header blocks of rows."""
    if msg_ids is not None:
        return [_row_block(headers, msg_ids, row) for row in range(at, stop)]
    return list(repeat(b"", stop - at)) if headers is None else headers[at:stop]
