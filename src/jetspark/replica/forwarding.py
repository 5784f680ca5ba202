"""Forwarded reads: a replica's copy is not new enough (ADR-53's follower).

They use a reply subject of the replica, so that an answer can be waited for, and a leader that
does not answer does not leave the client waiting: the read is refused with 412 like any read that
times out. A leader that supports ``min_last_seq`` gets the request unchanged, with
``Nats-Forwarded``. With one that does not (nats-server), STREAM.INFO shows when the sequence is
reached, and MSG.GET, which only the stream's leader answers, gets the message.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from jetspark.api.base import Timestamp, encode_request
from jetspark.api.message import MSG_GET, MsgGetRequest, MsgGetResponse, StoredMessage
from jetspark.api.stream import STREAM_INFO, StreamInfoRequest
from jetspark.client.inbox import ReplySink
from jetspark.client.jetstream.api import DEFAULT_PREFIX, ApiClient
from jetspark.client.jetstream.direct_get import without_min_last_seq
from jetspark.client.jetstream.pages import parse_count
from jetspark.client.jetstream.stored import own_lines
from jetspark.engine.advisories import INTERNAL
from jetspark.engine.direct.gate import HeldReads
from jetspark.engine.direct.gets import stale_refusal
from jetspark.engine.stream.stream import Stream
from jetspark.engine.target import DIRECT_GET, Target
from jetspark.errors import ApiError, Error
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.frame import Frame
from jetspark.headers.block import append_lines, find_value
from jetspark.headers.names import (
    FORWARDED,
    MIN_LAST_SEQUENCE,
    SEQUENCE,
    STREAM,
    SUBJECT,
    TIME_STAMP,
)
from jetspark.headers.status import (
    MESSAGE_NOT_FOUND_TEXT,
    NO_RESPONDERS,
    NOT_FOUND,
    parse_status,
    status_block,
)
from jetspark.replica.bridge import Bridge
from jetspark.replica.copied_stream import CopiedStream
from jetspark.server.routing.client import ConnectedClient
from jetspark.server.routing.router import Router

log: logging.Logger = logging.getLogger("jetspark.replica")

# A leader answers an unmet read after its own timeout; its answer may take this much longer.
GRACE_SECONDS: Final = 0.5
POLL_FIRST: Final = 0.005
POLL_MAX: Final = 0.1


@dataclass(slots=True)
class Read:
    """A read of a client that the copy cannot answer yet."""

    client: ConnectedClient
    copied: CopiedStream
    stream: Stream
    request: MsgGetRequest
    subject: bytes
    reply: bytes
    headers: bytes
    body: bytes
    target: Target

    @property
    def direct(self) -> bool:
        """Whether it is a direct get, not MSG.GET."""
        return self.target.kind == DIRECT_GET

    @property
    def single(self) -> bool:
        """Whether one message is the whole answer."""
        return not self.request.batch and not self.request.multi_last


class ForwardedReads:
    """The forwarded reads. ``wait`` is how long an unmet read waits, in s.

    As many may be in progress as may wait in any server (decisions.md).
    """

    def __init__(self, router: Router, bridge: Bridge, wait: float, held: HeldReads) -> None:
        self._held = held
        self._router = router
        self._bridge = bridge
        self.wait = wait
        self._api = ApiClient(bridge.core, DEFAULT_PREFIX, wait)
        self._tasks: set[asyncio.Task[None]] = set()
        self.count: int = 0

    def start(self, read: Read) -> None:
        """Forward a read to the leader."""
        self.count += 1
        if not self._held.take(read.client):
            self.refuse(read)
            return
        info = self._bridge.core.server_info.jetspark
        if not read.request.min_last_seq or (info is not None and info.min_last_seq):
            self._pass_on(read)
        elif read.single:
            task = asyncio.get_running_loop().create_task(self._ask_without_field(read))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            # Such a leader's followers and mirrors answer these too, and do not report their
            # progress; the copy catches up on its own, or the client gets an error.
            self.end(read)
            self.answer_here(read)

    def end(self, read: Read) -> None:
        """Remove a read that has ended."""
        self._held.give_back(read.client)

    def answer_here(self, read: Read) -> None:
        """Let the copy answer, if it catches up in time."""
        requester = read.client.session or INTERNAL  # the client may have disconnected meanwhile
        self._router.engine.request(read.target, read.reply, read.headers, read.body, requester)

    def deliver(self, read: Read, headers: bytes, payload: bytes) -> None:
        """Deliver a message of the answer to the client."""
        self._router.send(read.reply, read.reply, b"", headers, payload)
        self._bridge.wake_at_chunk_end()

    def refuse(self, read: Read) -> None:
        """Answer from the copy if that is possible now, else refuse: the leader did not answer."""
        # Without ``min_last_seq`` any copy may answer (ADR-31), if there is no better one.
        if read.stream.dropped and read.direct:
            self._router.outbox.reply_status(read.reply, status_block(NO_RESPONDERS, b""))
        elif read.stream.dropped or read.request.min_last_seq <= read.stream.log.index.last_seq:
            self.answer_here(read)
        else:
            outbox = self._router.outbox
            stale_refusal(read.stream, read.request, read.reply, outbox, direct=read.direct)
        self._bridge.flush_clients()

    def close(self) -> None:
        """Stop forwarding."""
        for task in self._tasks:
            task.cancel()

    def _pass_on(self, read: Read) -> None:
        headers = append_lines(read.headers, b"%b: 1\r\n" % FORWARDED)
        sink = ForwardedRead(self, read)
        try:
            self._bridge.request_for(
                read.client, sink, read.subject, headers, read.body, self.wait + GRACE_SECONDS
            )
        except Error:
            self.end(read)
            self.answer_here(read)

    # Leaders without support for the field -----------------------------------------------------

    async def _ask_without_field(self, read: Read) -> None:
        answered = False
        try:
            async with asyncio.timeout(self.wait + GRACE_SECONDS):
                last = await self._reached(read)
                if last:
                    await self._ask_message(read, last)
                    answered = True
        except (TimeoutError, Error):
            pass
        finally:
            self.end(read)
        if answered:
            self._bridge.flush_clients()
        else:
            self.refuse(read)

    async def _reached(self, read: Read) -> int:
        """Wait until the leader has the sequence; return its last one, 0 if it took too long."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.wait
        pause = POLL_FIRST
        verb = f"STREAM.INFO.{read.copied.name}"
        while True:
            info = await self._api.call(verb, StreamInfoRequest(), STREAM_INFO)
            if info.state.last_seq >= read.request.min_last_seq:
                return info.state.last_seq
            if loop.time() + pause >= deadline:
                return 0
            await asyncio.sleep(pause)
            pause = min(pause * 2, POLL_MAX)

    async def _ask_message(self, read: Read, last: int) -> None:
        name = read.copied.name
        request = without_min_last_seq(read.request)
        body = encode_request(request)
        message: StoredMessage | None = None
        error = b""
        try:
            answer = await self._api.call(f"STREAM.MSG.GET.{name}", request, MSG_GET)
            message = answer.message
        except ApiError as refused:
            if refused.err_code != ErrCode.MESSAGE_NOT_FOUND:
                log.warning("The leader refused %r of stream %s: %s", body, name, refused)
                raise
            error = error_body(ErrCode.MESSAGE_NOT_FOUND)
        if read.direct:
            headers, payload = direct_answer(name, message, last, bare=read.request.no_hdr)
        else:
            headers, payload = b"", message_answer(message, error, last, read.request.no_hdr)
        self._router.send(read.reply, read.reply, b"", headers, payload)


class ForwardedRead(ReplySink):
    """Receives the leader's answer to one read."""

    def __init__(self, owner: ForwardedReads, read: Read) -> None:
        super().__init__()
        self._owner = owner
        self._read = read
        self._moved = False

    def on_reply(self, frame: Frame) -> bool:
        """Forward one message of the answer; True when it was the last."""
        self._moved = True
        headers, payload = frame.headers(), frame.payload()
        read = self._read
        self._owner.deliver(read, headers, payload)
        lines = own_lines(headers)
        if lines:
            seq = parse_count(find_value(lines, SEQUENCE))
            read.copied.show(seq)
        done = read.single or (not payload and parse_status(headers)[0] != 0)
        if done:
            self._owner.end(read)
        return done

    def renew(self, now: float) -> bool:
        """Extend the deadline of a long answer as long as it continues."""
        moved, self._moved = self._moved, False
        if moved:
            self.deadline: float = now + self._owner.wait + GRACE_SECONDS
        return moved

    def fail(self, error: Exception) -> None:  # noqa: ARG002 - whatever it was
        """Handle a missing or incomplete answer."""
        self._owner.end(self._read)
        self._owner.refuse(self._read)


def direct_answer(
    stream: str, message: StoredMessage | None, last: int, *, bare: bool
) -> tuple[bytes, bytes]:
    """Return headers and payload of a direct get from the answer of MSG.GET; with the proof."""
    proof = b"%b: %d\r\n" % (MIN_LAST_SEQUENCE, last)
    if message is None:
        return status_block(NOT_FOUND, MESSAGE_NOT_FOUND_TEXT, proof), b""
    if bare:
        return append_lines(b"", proof), message.data
    lines = b"%b: %b\r\n%b: %b\r\n%b: %d\r\n%b: %b\r\n" % (
        STREAM, stream.encode(), SUBJECT, message.subject.encode("utf-8", "surrogateescape"),
        SEQUENCE, message.seq, TIME_STAMP, str(Timestamp(message.time)).encode(),
    )  # fmt: skip
    return append_lines(message.hdrs, lines + proof), message.data


def message_answer(message: StoredMessage | None, error: bytes, last: int, bare: bool) -> bytes:
    """Return the answer of MSG.GET with the proof in it."""
    if message is None:
        return b'%s,"min_last_seq":%d}' % (MSG_GET.error(error)[:-1], last)
    if bare:
        message = StoredMessage(
            subject=message.subject, seq=message.seq, data=message.data, time=message.time
        )
    return MSG_GET.ok(MsgGetResponse(message=message, min_last_seq=last))
