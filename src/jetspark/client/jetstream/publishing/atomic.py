"""Atomic batches (ADR-50): all messages are stored, consecutively, or none.

Messages are kept here until the batch is committed, so that an exception leaves nothing on the
server, the limits are checked before anything is sent, and a pause of the caller does not exceed
the server's timeout of ten seconds.
"""

from collections.abc import Sequence
from itertools import repeat
from types import TracebackType
from typing import Final, Self

from jetspark.api.message import PubAck
from jetspark.client.arguments import instance, whole
from jetspark.client.core import ClientCore
from jetspark.client.frames import to_bytes
from jetspark.client.header_input import HeaderInput
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.publishing.publisher import Expect, publish_headers, read_ack
from jetspark.client.message import Message
from jetspark.client.requests import SingleReply
from jetspark.client.timeouts import Timeout, TimeToLive
from jetspark.errors import (
    AlreadyEnded,
    ApiError,
    BatchIncomplete,
    BatchTooLarge,
    BufferFull,
    InvalidState,
    NotSupported,
    PayloadTooLarge,
    RequestTimeout,
)
from jetspark.errors.codes import ErrCode
from jetspark.headers.block import append_lines

BATCH_MESSAGES_MAX: Final = 1000  # ADR-50, server behaviour
FRAMES_SIZE: Final = 256 * 1024  # bytes encoded before they are passed to the connection
MARKS_SIZE: Final = 112  # maximum size of the headers that a batch adds to a message
_VERSION_LINE: Final = b"NATS/1.0\r\n"


class AtomicBatch:
    """Messages that are stored together, from ``JetStream.atomic_batch``.

    ``async with`` commits at a clean exit and discards everything on an exception; ``ack`` is the
    answer: ``ack.seq`` is the sequence of the last message, ``ack.count`` the number of messages,
    so the first one has ``ack.seq - ack.count + 1``.
    """

    def __init__(
        self,
        api: ApiClient,
        *,
        max_messages: int = BATCH_MESSAGES_MAX,
        eob: bool = False,
        timeout: Timeout | None = None,
    ) -> None:
        whole(max_messages, "max_messages", least=1)
        self._api = api
        self._core = api.core
        self._max = max_messages
        self._eob = eob
        self._timeout = api.seconds(timeout)
        self._messages: list[tuple[bytes, bytes, bytes]] = []
        self._msg_ids: set[str] = set()
        self._ack: PubAck | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def ack(self) -> PubAck:
        """The answer to the commit; InvalidState before it."""
        if self._ack is None:
            raise InvalidState("the batch was not committed, so there is no ack")
        return self._ack

    def add(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeaderInput = None,
        msg_id: str = "",
        expect: Expect | None = None,
        ttl: TimeToLive | None = None,
    ) -> None:
        """Add a message; nothing is sent before the commit.

        ``expect`` is checked against the stream before the batch; ``last_seq`` is allowed on the
        first message only. Raises BatchTooLarge above the server's limit, and ValueError for a
        message id that is already in the batch.
        """
        if expect is not None:
            instance(expect, Expect, "expect")
        if expect is not None and expect.last_msg_id:
            raise ValueError("Expect.last_msg_id is not supported in a batch (ADR-50): omit it")
        if expect is not None and expect.last_seq is not None and self._messages:
            raise ValueError("Expect.last_seq is allowed on a batch's first message only (ADR-50)")
        if msg_id and msg_id in self._msg_ids:
            raise ValueError(f"msg_id {msg_id!r} is already in the batch")
        plain = headers is None and not msg_id and expect is None and ttl is None
        block = b"" if plain else publish_headers(headers, msg_id, expect, ttl)
        self._add_block(subject, block, data)
        if msg_id:
            self._msg_ids.add(msg_id)

    def extend(
        self,
        subjects: Sequence[str],
        data: Sequence[bytes],
        headers: Sequence[bytes] | None = None,
    ) -> None:
        """Add columns of messages: ``headers`` are whole blocks, empty for none.

        Raises BatchTooLarge, and adds nothing, if they do not all fit.
        """
        rows = len(subjects)
        for name, column in (("data", data), ("headers", headers)):
            if column is not None and len(column) != rows:
                raise ValueError(f"extend: {rows} subjects, but {name} has {len(column)} rows")
        self._check_open(rows)
        blocks = headers if headers is not None else repeat(b"", rows)
        targets = map(self._core.literal, subjects)
        added = list(zip(targets, blocks, map(to_bytes, data), strict=True))
        self._check_size(
            max((len(block) + len(payload) for _, block, payload in added), default=0)
        )
        self._messages += added

    def _add_block(self, subject: str, block: bytes, payload: bytes) -> None:
        self._check_open(1)
        if type(payload) is not bytes:
            payload = to_bytes(payload)
        self._check_size(len(block) + len(payload))
        self._messages.append((self._core.literal(subject), block, payload))

    def _check_open(self, more: int) -> None:
        if self._closed:
            raise AlreadyEnded("the batch was committed or aborted: create a new one")
        if len(self._messages) + more > self._max:
            raise BatchTooLarge(
                400,
                ErrCode.ATOMIC_TOO_LARGE,
                f"a batch has at most {self._max} messages: commit this one and start another",
            )

    def _check_size(self, size: int) -> None:
        if size + MARKS_SIZE > self._core.max_payload:
            raise PayloadTooLarge(size + MARKS_SIZE, self._core.max_payload)

    def abort(self) -> None:
        """Discard everything; nothing was sent."""
        self._closed = True
        self._messages.clear()

    async def commit(self) -> PubAck:
        """Send the batch and wait until it is stored.

        Raises the server's error: WrongLastSequence and similar errors, BatchNotEnabled,
        BatchDuplicate, ...; then nothing was stored. After RequestTimeout that is unknown.
        """
        if self._closed:
            raise AlreadyEnded("the batch was committed or aborted: create a new one")
        if not self._messages:
            raise InvalidState("an empty batch cannot be committed: add messages, or abort()")
        self._closed = True
        lines = b"Nats-Batch-Id: %b\r\nNats-Batch-Sequence: " % self._api.nuid.next().encode()
        messages = self._messages
        first = self._first(lines) if self._eob or len(messages) > 1 else None
        try:
            if first is not None and not self._api.accepts_batches(messages[0][0]):
                # Send the other messages only if the server accepts the batch.
                _refuse(messages[0][0], await first.answer())
            await self._send_middle(lines)
            ack = await self._end(lines)
        except (ApiError, NotSupported) as error:
            if first is not None and first.has_answer:
                # The answer to the first message has the reason; that to the last one does not.
                _refuse(messages[0][0], await first.answer())
            if isinstance(error, BatchIncomplete):
                error.add_note("one stream must store all subjects of a batch; check the subjects")
            raise
        finally:
            if first is not None and not first.has_answer:
                self._core.drop_request(first.reply)
        self._api.note_batch(messages[0][0])
        self._ack = ack
        self._api.high_water.note(ack.stream, ack.seq)
        self._messages = []
        return ack

    def _first(self, lines: bytes) -> "_First":
        """Send the first message, whose answer is empty, or the reason why there is no batch."""
        subject, block, payload = self._messages[0]
        first = _First(self._core, self._timeout)
        block = append_lines(block, lines + b"1\r\n")
        self._core.send_request(first.reply, subject, block, payload, self._timeout)
        return first

    async def _send_middle(self, lines: bytes) -> None:
        """Send the messages between the first and the end, without answers."""
        last = len(self._messages) if self._eob else len(self._messages) - 1
        head = len(_VERSION_LINE) + len(lines) + 4  # plus the ends of line and block
        frames: list[bytes] = []
        total = 0
        for number in range(2, last + 1):
            subject, block, payload = self._messages[number - 1]
            digits = b"%d" % number
            if block:
                marked = append_lines(block, b"%b%b\r\n" % (lines, digits))
                size = len(marked)
                frames.append(
                    b"HPUB %b %d %d\r\n%b%b\r\n"
                    % (subject, size, size + len(payload), marked, payload)
                )
            else:
                size = head + len(digits)
                frames.append(
                    b"HPUB %b %d %d\r\nNATS/1.0\r\n%b%b\r\n\r\n%b\r\n"
                    % (subject, size, size + len(payload), lines, digits, payload)
                )
            total += size + len(payload)
            if total > FRAMES_SIZE:
                await self._send(frames)
                frames, total = [], 0
        if frames:
            await self._send(frames)

    async def _end(self, lines: bytes) -> PubAck:
        """Commit with the last message, or with an end marker."""
        subject, block, payload = self._messages[-1]
        number, commit = len(self._messages), b"1"
        if self._eob:
            number, commit, block, payload = number + 1, b"eob", b"", b""
        own = b"%b%d\r\nNats-Batch-Commit: %b\r\n" % (lines, number, commit)
        reply = await self._core.ask(subject, append_lines(block, own), payload, self._timeout)
        ack = read_ack(subject.decode(), reply.header_block, reply.data)
        if not ack.batch:
            raise NotSupported(
                "this server does not support atomic batches (nats-server 2.12 or later does): it "
                "stored the messages one by one"
            )
        return ack

    async def _send(self, frames: list[bytes]) -> None:
        while True:
            try:
                self._core.send_messages(frames)
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

    def __repr__(self) -> str:
        return f"AtomicBatch({len(self)} messages)"


class _First:
    """The first message of a batch, which is answered whatever happens to the rest."""

    def __init__(self, core: ClientCore, seconds: float) -> None:
        self.reply: Final = SingleReply(core.loop, core)
        self._seconds = seconds

    @property
    def has_answer(self) -> bool:
        """Whether it was answered; also retrieves the error if it was not."""
        future = self.reply.future
        return future.done() and not future.cancelled() and future.exception() is None

    async def answer(self) -> Message:
        """Wait for the answer; RequestTimeout if none arrives."""
        try:
            return await self.reply.future
        except TimeoutError:
            raise RequestTimeout(
                f"no reply to the first message of a batch on {self.reply.subject.decode()!r} "
                f"within {self._seconds} s"
            ) from None


def _refuse(subject: bytes, reply: Message) -> None:
    """Raise the error in the answer to the first message, if any."""
    if reply.data or reply.status:
        ack = read_ack(subject.decode(), reply.header_block, reply.data)
        raise NotSupported(
            f"stream {ack.stream!r} is on a server without support for atomic batches: it stored "
            f"the first message as sequence {ack.seq}, and no more were sent"
        )
