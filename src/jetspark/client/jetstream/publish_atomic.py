"""Atomic batches (ADR-50): all messages are stored, next to each other, or none is.

Messages are kept here until the batch is committed, so that an exception leaves nothing behind
on the server, the limits are known before anything is sent, and no pause of the caller runs into
the server's ten seconds of patience.
"""

# Every call has a timeout argument (design.md, "The client").

from collections import Counter
from types import TracebackType
from typing import Final, Literal, Self

from jetspark.api.message import PubAck
from jetspark.client.frames import to_bytes
from jetspark.client.header_input import HeaderInput
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.publish import Expect, publish_headers, read_ack
from jetspark.errors import BatchTooLarge, BufferFull, NotSupported
from jetspark.errors.codes import ErrCode
from jetspark.headers.block import append_lines

BATCH_MESSAGES_MAX: Final = 1000  # ADR-50, server behaviour


class AtomicBatch:
    """Messages that are stored together. Made by ``JetStream.atomic_batch``.

    ``async with`` commits at a clean exit and forgets everything on an exception; ``ack`` is the
    answer: ``ack.seq`` is the sequence of the last message, ``ack.count`` how many there are, so
    the first one has ``ack.seq - ack.count + 1``.
    """

    def __init__(
        self,
        api: ApiClient,
        *,
        max_messages: int = BATCH_MESSAGES_MAX,
        eob: bool = False,
        timeout: float | None = None,
    ) -> None:
        self._api = api
        self._core = api.core
        self._max = max_messages
        self._eob = eob
        self._timeout = api.seconds(timeout)
        self._messages: list[tuple[str, bytes, bytes]] = []
        self._msg_ids: Counter[str] = Counter()
        self._ack: PubAck | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def ack(self) -> PubAck:
        """The answer to the commit; ValueError before it."""
        if self._ack is None:
            raise ValueError("the batch was not committed: there is no ack")
        return self._ack

    def add(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        headers: HeaderInput = None,
        msg_id: str = "",
        expect: Expect | None = None,
        ttl: float | Literal["never"] | None = None,
    ) -> None:
        """Add a message; nothing is sent before the commit.

        ``expect`` is checked against the stream as it is before the batch; ``last_seq`` belongs
        to the first message only. Raises BatchTooLarge beyond the server's limit, and ValueError
        for a message id that the batch already has.
        """
        if expect is not None and expect.last_msg_id:
            raise ValueError("Expect.last_msg_id does not work in a batch (ADR-50)")
        if expect is not None and expect.last_seq is not None and self._messages:
            raise ValueError("Expect.last_seq belongs to the first message of a batch (ADR-50)")
        if msg_id and self._msg_ids[msg_id]:
            raise ValueError(f"msg_id {msg_id!r} is in the batch already")
        self.add_block(subject, publish_headers(headers, msg_id, expect, ttl), payload)
        self._msg_ids[msg_id] += 1

    def add_block(self, subject: str, block: bytes, payload: bytes) -> None:
        """Add a message whose headers are a finished block."""
        if self._closed:
            raise ValueError("the batch was committed or aborted: make a new one")
        if len(self._messages) >= self._max:
            raise BatchTooLarge(
                400,
                ErrCode.ATOMIC_TOO_LARGE,
                f"a batch has at most {self._max} messages: commit this one and start another",
            )
        self._core.literal(subject)
        self._messages.append((subject, block, to_bytes(payload)))

    def abort(self) -> None:
        """Forget everything; nothing was sent."""
        self._closed = True
        self._messages.clear()

    async def commit(self) -> PubAck:
        """Send the batch and wait until it is stored.

        Raises what the server says against it: WrongLastSequence and its kin, BatchNotEnabled,
        BatchDuplicate, ...; then nothing was stored. RequestTimeout leaves that open.
        """
        if self._closed:
            raise ValueError("the batch was committed or aborted: make a new one")
        if not self._messages:
            raise ValueError("an empty batch cannot be committed: add messages, or abort()")
        self._closed = True
        batch_id = self._api.nuid.next()
        messages, last = self._messages, len(self._messages)
        for number, (subject, block, payload) in enumerate(messages, 1):
            if number == last and not self._eob:
                break
            lines = _lines(batch_id, number)
            await self._send(subject, append_lines(block, lines), payload, first=number == 1)
        subject, block, payload = messages[-1]
        lines = _lines(batch_id, last, b"1")
        if self._eob:
            block, payload, lines = b"", b"", _lines(batch_id, last + 1, b"eob")
        reply = await self._core.ask(
            self._core.literal(subject), append_lines(block, lines), payload, self._timeout
        )
        ack = read_ack(subject, reply.header_block, reply.data)
        if not ack.batch:
            raise NotSupported(
                "this server does not know atomic batches (nats-server 2.12 or later does): it "
                "stored the messages one by one"
            )
        self._ack = ack
        self._messages = []
        return ack

    async def _send(self, subject: str, block: bytes, payload: bytes, *, first: bool) -> None:
        target = self._core.literal(subject)
        if first:
            # Its answer is empty, or says why there can be no batch (not enabled, too many).
            reply = await self._core.ask(target, block, payload, self._timeout)
            if reply.data or reply.status:
                ack = read_ack(subject, reply.header_block, reply.data)
                raise NotSupported(
                    f"stream {ack.stream!r} is on a server that does not know atomic batches: it "
                    f"stored the first message as sequence {ack.seq}, and no more were sent"
                )
            return
        while True:
            try:
                self._core.send_message(target, b"", block, payload)
            except BufferFull:
                await self._core.flush(timeout=self._timeout)
            else:
                return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None or (self._closed and self._ack is None):
            self.abort()
        elif self._messages and not self._closed:
            await self.commit()


def _lines(batch_id: str, number: int, commit: bytes = b"") -> bytes:
    lines = b"Nats-Batch-Id: %s\r\nNats-Batch-Sequence: %d\r\n" % (batch_id.encode(), number)
    return lines + b"Nats-Batch-Commit: %s\r\n" % commit if commit else lines
