"""Fast ingest (ADR-50): a stream of messages with one ack for many, paced by the server."""

# Every call has a timeout argument (design.md, "The client").

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import repeat
from types import TracebackType
from typing import Final, Literal, Self

from jetspark.api.message import PubAck
from jetspark.client.header_input import HeaderInput
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.fast_answers import FastAnswers, GapCallback, RefusalCallback
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
from jetspark.client.subscription import PENDING_BYTES_MAX, PENDING_MSGS_MAX, Subscription
from jetspark.errors import BufferFull, Error, RequestTimeout

FLOW: Final = 500  # messages per ack that are asked for; released servers grant no more
MAX_OUTSTANDING_ACKS: Final = 2  # as orbit.go
PINGS: Final = 2  # before silence is an error
COMMITS: Final = 5  # before an end that does not arrive is an error
LATE_ACK: Final = 1.0  # seconds for the last ack of a batch that the server calls unknown
LEADER_PAUSE: Final = 0.05  # seconds before a new leader is asked for, doubled each time
LEADER_PAUSE_MAX: Final = 1.0


class FastPublisher:
    """A fast batch. Made by ``JetStream.fast_publisher``; ``async with`` commits at a clean exit.

    Messages are stored as they come, in order; it is not all or nothing. ``acked`` says how many
    are known to be stored, ``ack`` is the final answer.

    When the connection is replaced or the stream changes its leader, the server is asked what it
    has of the batch. If nothing was lost, or ``gap`` is "ok", the batch goes on; otherwise
    BatchIncomplete is raised. Then, if ``is_exact``, the first ``acked`` messages are stored and
    no others: send the rest in a new batch. Otherwise the server's last word was lost, more of
    them may be stored, and what is sent again needs message ids. (The header dialect cannot ask.)
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
        self._high_water = api.high_water
        self._timeout = ack_timeout
        self._gap: Gap = gap
        self._id = api.nuid.next()
        inbox = api.new_inbox()
        text = f"{flow_bytes}B" if flow_bytes else str(flow)
        self._dialect: Dialect = (
            ReplyDialect(inbox, self._id, flow, gap)
            if dialect == "reply"
            else HeaderDialect(inbox, self._id, text, gap)
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
        self._subscription: Subscription | None = None
        self._subject = b""
        # Whether the server was asked what it has: the batch, or its end, may be lost.
        self._asked = False

    @property
    def sent(self) -> int:
        """Messages sent."""
        return self._window.sent

    @property
    def acked(self) -> int:
        """Messages known to be settled: stored, or told of as a gap or refusal."""
        return self._answers.ack.count if self._answers.ack is not None else self._window.acked

    @property
    def is_exact(self) -> bool:
        """Whether the server has said where the batch ended: then ``acked`` is all it stored."""
        return self._answers.exact

    @property
    def is_closed(self) -> bool:
        """Whether it was committed, or has failed."""
        return self._answers.closing or self._answers.failure is not None

    @property
    def ack(self) -> PubAck:
        """The final answer; ValueError before the commit."""
        if self._answers.ack is None:
            raise ValueError("the batch was not committed: there is no ack")
        return self._answers.ack

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
        target = self._core.literal(subject)
        if not (self._ready() and self._post(target, block, payload)):
            await self._send(target, block, payload)
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
        at = 0
        while at < rows:
            room = await self._room()
            stop = min(at + room, rows)
            if room == 1:
                # The first message, or one that bytes are counted of.
                block = _block(headers, msg_ids, at)
                if self._post(self._core.literal(subjects[at]), block, payloads[at]):
                    at = stop
                    await self._started()
                else:
                    await self._core.flush(timeout=self._timeout)
                continue
            targets = list(map(self._core.literal, subjects[at:stop]))
            blocks = _blocks(headers, msg_ids, at, stop)
            frames = self._dialect.frames(
                self.sent + 1, targets, blocks, payloads[at:stop], self._core.max_payload
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
        """End the batch and wait until all of it is stored; ``async with`` does it by itself."""
        answers = self._answers
        if answers.closing:
            raise ValueError("the batch has ended: make a new one")
        if not self.sent:
            raise ValueError("nothing was sent: there is nothing to commit")
        answers.check()
        answers.closing = True
        try:
            for _ in range(COMMITS):
                self._asked = False
                self._say(EOB, self.sent + 1)
                while not self._asked:
                    if (ack := answers.final()) is not None:
                        return ack
                    await self._hear()
                # Something else than the end was heard of since: then it was lost.
                await self._find_leader()
                if (ack := answers.final()) is not None:
                    return ack
        finally:
            if answers.ack is not None:
                self._high_water.note(answers.ack.stream, answers.ack.seq)
            await self._leave()
        raise RequestTimeout(f"fast batch: its end did not arrive in {COMMITS} attempts")

    def _ready(self) -> bool:
        """Whether a message can be sent without waiting for anything."""
        return (
            self._subscription is not None
            and not self._subscription.pending_msgs
            and self._answers.quiet
            and self._window.room() > 0
        )

    async def _send(self, subject: bytes, block: bytes, payload: bytes) -> None:
        while True:
            await self._room()
            if self._post(subject, block, payload):
                break
            await self._core.flush(timeout=self._timeout)
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
        answers, window = self._answers, self._window
        answers.check()
        if self._subscription is None:
            self._open()
            return 1
        heard = self._subscription
        while heard.pending_msgs or not window.room() or answers.unknown or answers.leaderless:
            # That nobody takes anything is an answer too: the window must not wait for others.
            if answers.leaderless and not heard.pending_msgs and answers.unknown is None:
                await self._find_leader()
            else:
                await self._hear()
        return window.room()

    async def _started(self) -> None:
        """ADR-50: wait for the first reply, which tells whether there is a batch at all."""
        if self._window.sent == 1:
            await self._hear()

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

    def _say(self, operation: int, seq: int) -> None:
        """Send what is no message of the batch: a ping, or its end."""
        reply, block = self._dialect.mark(seq, operation, b"")
        self._core.send_message(self._subject, reply, block, b"")

    def _ask(self) -> None:
        """Have the server say what it has; if it lacks something, that is a gap."""
        self._asked = True
        self._say(PING, self.sent)

    async def _hear(self) -> None:
        """Wait for answers and take them; what ends the batch is raised."""
        try:
            await self._listen()
        except Error:
            await self._leave()
            raise

    async def _listen(self) -> None:
        """Silence is asked about, then an error."""
        assert self._subscription is not None
        answers = self._answers
        for tried in range(PINGS + 1):
            patience = min(self._timeout, LATE_ACK) if answers.unknown else self._timeout
            try:
                async with asyncio.timeout(patience):
                    for message in await self._subscription.next_chunk(256):
                        answers.take(message, self._subject.decode())
            except TimeoutError:
                if answers.unknown is not None:
                    raise answers.unknown from None
                if not self._dialect.can_ping or tried == PINGS:
                    break
                self._ask()
            else:
                answers.check()
                if answers.leaderless:
                    self._asked = True
                return
        raise RequestTimeout(
            f"fast batch: no answer within {self._timeout} s; {self.acked} of {self.sent} "
            "messages are known to be stored"
        )

    async def _find_leader(self) -> None:
        """Nobody took what was sent last: ask until somebody leads the stream again."""
        loop, pause = self._core.loop, LEADER_PAUSE
        deadline = loop.time() + self._timeout * (PINGS + 1)
        while self._answers.leaderless and self._answers.unknown is None:
            if loop.time() >= deadline:
                await self._leave()
                raise RequestTimeout(
                    f"fast batch: nobody takes {self._subject.decode()!r} since "
                    f"{self._timeout * (PINGS + 1):.1f} s; at least {self.acked} of {self.sent} "
                    "messages are stored"
                )
            await asyncio.sleep(pause)
            pause = min(2 * pause, LEADER_PAUSE_MAX)
            self._answers.leaderless = False
            self._ask()
            await self._hear()

    def _on_up(self) -> None:
        """The connection was replaced: what was on its way may be lost."""
        if not self.sent:
            return
        if self._dialect.can_ping:
            self._answers.on_cut()
            with suppress(BufferFull):  # silence is asked about later
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
            await self._leave()


def _block(headers: Sequence[bytes] | None, msg_ids: Sequence[str] | None, row: int) -> bytes:
    """The header block of a row."""
    block = headers[row] if headers is not None else b""
    if msg_ids is None or not msg_ids[row]:
        return block
    own = publish_headers(None, msg_ids[row], None, None)
    return block[:-2] + own[10:] if block else own


def _blocks(
    headers: Sequence[bytes] | None, msg_ids: Sequence[str] | None, at: int, stop: int
) -> Sequence[bytes]:
    """The header blocks of rows."""
    if msg_ids is not None:
        return [_block(headers, msg_ids, row) for row in range(at, stop)]
    return list(repeat(b"", stop - at)) if headers is None else headers[at:stop]
