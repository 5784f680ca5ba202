"""Publishing to streams: one by one, or with a bounded window of outstanding acks.

A publish is a request; its ack arrives through the mux inbox. ``publish_async`` has no task and no
timer per message: the ack is an object in the window, resolved by the receive path.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import msgspec

from jetspark.api.base import ApiErrorBody
from jetspark.api.message import PubAck, decode_pub_ack
from jetspark.client.arguments import instance, whole
from jetspark.client.header_input import HeaderInput, header_block
from jetspark.client.inbox import ReplySink
from jetspark.client.jetstream.api import PUBLISH_RETRY_WAIT, ApiClient
from jetspark.client.models.durations import SECOND_NS, to_wire_ns
from jetspark.client.timeouts import TimeToLive
from jetspark.client.unreadable import UNREADABLE
from jetspark.errors import (
    ApiError,
    BufferFull,
    Error,
    InvalidState,
    NoResponders,
    ProtocolViolation,
    RequestTimeout,
    api_error,
    status_error,
)
from jetspark.frame import Frame
from jetspark.headers.block import append_lines, find_value
from jetspark.headers.status import NO_RESPONDERS, parse_status
from jetspark.units import format_duration

# Called to find out why a message had no responders, with the remaining seconds.
Untaken = Callable[[float], Awaitable[None]]

FAILURES_KEPT_MAX: Final = 1000  # unread failures kept for publish_async_complete


class Expect(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions of a publish; the server refuses it if they do not hold.

    ``last_subject_seq`` is compared on ``last_subject`` if given (wildcards allowed), else on the
    subject of the message; 0 means that the subject has no message.
    """

    stream: str = ""
    last_seq: int | None = None
    last_subject_seq: int | None = None
    last_subject: str = ""
    last_msg_id: str = ""


def publish_headers(
    headers: HeaderInput,
    msg_id: str,
    expect: Expect | None,
    ttl: TimeToLive | None,
) -> bytes:
    """The header block of a publish: the user's headers, then those of the arguments."""
    block = header_block(headers) if headers is not None else b""
    if not msg_id and expect is None and ttl is None:
        return block
    pairs: list[tuple[str, str]] = []
    if msg_id:
        pairs.append(("Nats-Msg-Id", msg_id))
    if expect is not None:
        pairs.extend(_expectations(expect))
    if ttl is not None:
        pairs.append(("Nats-TTL", _ttl_text(ttl)))
    if block:
        pairs = [pair for pair in pairs if not _is_given(block, *pair)]
    own = header_block(pairs)
    # Both blocks have a version line and an empty line; the lines between are appended.
    return append_lines(block, own[10:-2]) if own else block


def _is_given(block: bytes, name: str, value: str) -> bool:
    """Whether the user's headers have the same value; the server reads only the first line."""
    given = find_value(block, name.encode())
    if given is None:
        return False
    if given != value.encode():
        raise ValueError(
            f"header {name!r} is {given.decode('utf-8', 'replace')!r} in headers= and {value!r} "
            "in another argument: give one of them"
        )
    return True


def _expectations(expect: Expect) -> list[tuple[str, str]]:
    instance(expect, Expect, "expect")
    pairs = []
    if expect.stream:
        pairs.append(("Nats-Expected-Stream", expect.stream))
    if expect.last_seq is not None:
        pairs.append(("Nats-Expected-Last-Sequence", _sequence("last_seq", expect.last_seq)))
    if expect.last_subject_seq is not None:
        sequence = _sequence("last_subject_seq", expect.last_subject_seq)
        pairs.append(("Nats-Expected-Last-Subject-Sequence", sequence))
    if expect.last_subject:
        if expect.last_subject_seq is None:
            # The server refuses this pair with 10193; refuse it before anything is sent.
            raise ValueError("Expect.last_subject requires last_subject_seq, to compare with")
        pairs.append(("Nats-Expected-Last-Subject-Sequence-Subject", expect.last_subject))
    if expect.last_msg_id:
        pairs.append(("Nats-Expected-Last-Msg-Id", expect.last_msg_id))
    return pairs


def _sequence(name: str, value: object) -> str:
    """Check a sequence: a server treats an invalid one as a wrong one, without an error."""
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"Expect.{name}={value!r}: expected a sequence, 0 or more")
    return str(value)


def _ttl_text(ttl: TimeToLive) -> str:
    if isinstance(ttl, str):
        if ttl != "never":
            raise ValueError(f"ttl={ttl!r}: expected seconds, a timedelta or 'never'")
        return ttl
    if isinstance(ttl, bool) or not isinstance(ttl, int | float | timedelta):
        raise TypeError(f"ttl={ttl!r}: expected seconds as a number, a timedelta, or 'never'")
    ns = to_wire_ns(ttl, "ttl")
    if ns < SECOND_NS:
        raise ValueError(f"ttl={ttl}: expected at least 1 second")
    return format_duration(ns)


def read_ack(subject: str, headers: bytes, payload: bytes) -> PubAck:
    """Decode the answer to a publish; raises a refusal as its exception."""
    if headers and not payload:
        code, text = parse_status(headers)
        if code == NO_RESPONDERS:
            error = NoResponders(subject)
            error.add_note("no stream stores this subject, or JetStream is not enabled")
            raise error
        raise status_error(code, text.decode("utf-8", "replace"))
    try:
        ack = decode_pub_ack(payload)
    except UNREADABLE as error:
        raise ProtocolViolation(
            f"invalid acknowledgement of the publish to {subject!r}: {payload[:80]!r}"
        ) from error
    if ack.error is not None:
        raise refusal(ack.error, subject, ack.stream)
    return ack


def refusal(error: ApiErrorBody, subject: str, stream: str = "") -> ApiError:
    """The error of a refused publish, with the stream that refused it, if known."""
    by = f" by stream {stream!r}" if stream else ""
    about = f"publish to {subject!r} was refused{by}"
    return api_error(error.code, error.err_code, error.description, about)


def no_ack(subject: str) -> RequestTimeout:
    """The error of a publish without an answer."""
    return RequestTimeout(
        f"no ack for the publish to {subject!r} in time; whether it was stored is unknown "
        "(publish again with the same msg_id)"
    )


async def publish_acked(
    api: ApiClient,
    subject: str,
    headers: bytes,
    payload: bytes,
    seconds: float,
    untaken: Untaken | None = None,
) -> PubAck:
    """Publish and wait for the ack. Repeated without responders: it cannot have been stored.

    Before NoResponders is raised, ``untaken`` may raise a more specific error, within the
    remaining seconds.
    """
    core, loop = api.core, api.core.loop
    target = core.literal(subject)
    deadline = loop.time() + seconds
    tries = api.publish_retries
    while True:
        try:
            reply = await core.ask(target, headers, payload, seconds)
        except RequestTimeout:
            raise no_ack(subject) from None
        try:
            return read_ack(subject, reply.header_block, reply.data)
        except NoResponders:
            seconds = deadline - loop.time() - PUBLISH_RETRY_WAIT
            if not tries or seconds <= 0:
                if untaken is not None:
                    await untaken(deadline - loop.time())
                raise
        tries -= 1
        await asyncio.sleep(PUBLISH_RETRY_WAIT)


NO_MESSAGE: Final = (b"", b"")  # after the end of a publish its bytes are not kept


class PendingAck(ReplySink):
    """The ack of one publish, resolved by the receive path."""

    def __init__(
        self, window: "PublishWindow", subject: str, headers: bytes, payload: bytes, retries: int
    ) -> None:
        super().__init__()
        self._window = window
        self._publish_subject = subject
        self._message = (headers, payload)
        self._retries = retries
        self._headers = b""
        self._payload = b""
        self._error: Exception | None = None
        self.is_done: bool = False
        self._seen = False
        # Created when a caller waits: most acks are only counted.
        self._waiters: list[asyncio.Future[None]] | None = None

    def result(self) -> PubAck:
        """The ack; raises the error, or InvalidState before it is done."""
        if not self.is_done:
            raise InvalidState("the ack has not arrived yet: await it")
        self._seen = True
        if self._error is not None:
            raise self._error
        return read_ack(self._publish_subject, self._headers, self._payload)

    def exception(self) -> Exception | None:
        """The error, or None."""
        try:
            self.result()
        except Error as error:
            return error
        return None

    async def wait(self) -> PubAck:
        """Wait for the ack; the timeout was set by the publish."""
        while not self.is_done:
            waiter: asyncio.Future[None] = self._window.loop.create_future()
            if self._waiters is None:
                self._waiters = []
            self._waiters.append(waiter)
            await waiter
        return self.result()

    @property
    def failed_unseen(self) -> bool:
        """Whether it failed and the failure was not read."""
        return self.is_done and not self._seen and self._failed

    @property
    def _failed(self) -> bool:
        if self._error is not None:
            return True
        if self._payload.startswith(b'{"stream":"'):  # an ack starts like this, not a refusal
            return False
        try:
            read_ack(self._publish_subject, self._headers, self._payload)
        except Error:
            return True
        return False

    def on_reply(self, frame: Frame) -> bool:
        """Keep the answer as received; it is decoded on access."""
        self._headers = frame.headers()
        self._payload = frame.payload()
        if self._retries and not self._payload and parse_status(self._headers)[0] == NO_RESPONDERS:
            # No responders, so it is not stored: repeat while there is time.
            self._retries -= 1
            if self._window.repeat_later(self, *self._message):
                return True
        self._finish()
        return True

    def fail(self, error: Exception) -> None:
        """No ack arrived."""
        if isinstance(error, TimeoutError):
            self._error = no_ack(self._publish_subject)
        else:
            self._error = error
        self._finish()

    def _finish(self) -> None:
        self.is_done = True
        self._message = NO_MESSAGE
        if self._waiters is not None:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters = None
        self._window.landed(self, failed=self._failed)


class AckFuture:
    """The ack of one publish: ``await`` it, or read it when it is ``done``.

    Created by ``JetStream.publish_async``.
    """

    __slots__ = ("_pending",)

    def __init__(self, pending: PendingAck) -> None:
        self._pending = pending

    def done(self) -> bool:
        """Whether the ack, or the error, has arrived."""
        return self._pending.is_done

    def result(self) -> PubAck:
        """The ack; raises the error, or InvalidState before it is done."""
        return self._pending.result()

    def exception(self) -> Exception | None:
        """The error, or None."""
        return self._pending.exception()

    async def wait(self) -> PubAck:
        """Wait for the ack; the timeout was set by the publish."""
        return await self._pending.wait()

    def __await__(self) -> Generator[Any, None, PubAck]:
        return self._pending.wait().__await__()

    def __repr__(self) -> str:
        return f"AckFuture({'done' if self.done() else 'pending'})"


class PublishWindow:
    """The publishes that wait for an ack, at most ``limit``."""

    def __init__(
        self, api: ApiClient, limit: int, on_ack: Callable[[PubAck], None] | None
    ) -> None:
        whole(limit, "publish_async_max", least=1)
        self._core = core = api.core
        self._retries = api.publish_retries
        self._limit = limit
        self._on_ack = on_ack
        self._failures: deque[PendingAck] = deque(maxlen=FAILURES_KEPT_MAX)
        self._room: deque[asyncio.Future[None]] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self.loop: Final = core.loop
        self.pending: int = 0

    async def publish(
        self, subject: str, headers: bytes, payload: bytes, wait: float
    ) -> PendingAck:
        """Send as soon as the window and the connection's buffer have room."""
        target = self._core.literal(subject)
        while True:
            while self.pending >= self._limit:
                await self._wait_for_room(wait)
            ack = PendingAck(self, subject, headers, payload, self._retries)
            try:
                self._core.send_request(ack, target, headers, payload, wait)
            except BufferFull:
                # Large messages fill the buffer before the window: an ack means that some left it.
                if not self.pending:
                    raise
                await self._wait_for_room(wait)
                continue
            self.pending += 1
            return ack

    def repeat_later(self, ack: PendingAck, headers: bytes, payload: bytes) -> bool:
        """Send it again shortly; False if its time will be over by then."""
        left = ack.deadline - self.loop.time() - PUBLISH_RETRY_WAIT
        if left <= 0:
            return False
        self.loop.call_later(PUBLISH_RETRY_WAIT, self._repeat, ack, headers, payload, left)
        return True

    def _repeat(self, ack: PendingAck, headers: bytes, payload: bytes, left: float) -> None:
        try:
            self._core.send_request(ack, ack.subject, headers, payload, left)
        except Error as error:
            ack.fail(error)

    async def complete(self, wait: float) -> None:
        """Wait until no ack is outstanding; raises the first failure that was not read."""
        try:
            async with asyncio.timeout(wait):
                while self.pending:
                    waiter: asyncio.Future[None] = self.loop.create_future()
                    self._idle.append(waiter)
                    await waiter
        except TimeoutError:
            raise RequestTimeout(
                f"publish_async_complete: {self.pending} acks did not arrive within {wait} s"
            ) from None
        failures = [ack for ack in self._failures if ack.failed_unseen]
        self._failures.clear()
        if not failures:
            return
        error = failures[0].exception()
        if error is not None:
            if len(failures) > 1:
                error.add_note(f"{len(failures)} publishes failed; this is the first")
            raise error

    def landed(self, ack: PendingAck, *, failed: bool) -> None:
        """An ack arrived, or will never arrive."""
        self.pending -= 1
        if failed:
            self._failures.append(ack)
        elif self._on_ack is not None:
            # Called by the receive path, which must not fail because of an undecodable ack.
            with suppress(Error):
                self._on_ack(ack.result())
        if self._room:
            self._offer_room()
        if self._idle and not self.pending:
            waiters, self._idle = self._idle, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def _offer_room(self) -> None:
        while self._room and self.pending < self._limit:
            waiter = self._room.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def _wait_for_room(self, wait: float) -> None:
        waiter: asyncio.Future[None] = self.loop.create_future()
        self._room.append(waiter)
        # Before the wait: those that time out at the same time no longer count then.
        waiting = self.pending
        try:
            async with asyncio.timeout(wait):
                await waiter
        except BaseException as error:
            # A slot offered to a cancelled caller goes to the next one.
            if waiter.done() and not waiter.cancelled():
                self._offer_room()
            if isinstance(error, TimeoutError):
                raise RequestTimeout(
                    f"publish_async: {waiting} publishes are waiting for an ack "
                    f"(publish_async_max={self._limit}) and none arrived within {wait} s"
                ) from None
            raise
