"""The inside of a client: one connection, its subscriptions, its requests.

``Client`` is the public face; JetStream and the other features build on what is here. Everything
pending fails with ConnectionClosed the moment the connection is lost.
"""

# Every call has a timeout argument (design.md, "The client").

import asyncio
import logging
import threading
from typing import Final, Self

import msgspec

from jetspark.client.connection import Connection
from jetspark.client.header_input import HeaderInput, header_block
from jetspark.client.inbox import Mux, ReplySink
from jetspark.client.message import Message
from jetspark.client.options import ClientOptions, connect_options
from jetspark.client.receive import Receiver
from jetspark.client.requests import Deadlines, SingleReply
from jetspark.client.server_errors import connect_failure, denied_subject, error_of_line
from jetspark.client.server_pool import ServerAddress, ServerPool
from jetspark.client.subscription import Callback, Subscription
from jetspark.errors import (
    BadSubject,
    ConnectionClosed,
    Error,
    NotSupported,
    PayloadTooLarge,
    RequestTimeout,
)
from jetspark.ids import Nuid, new_inbox
from jetspark.protocol.encoder import (
    encode_connect,
    encode_hpub,
    encode_pub,
    encode_sub,
    encode_unsub,
)
from jetspark.protocol.handshake import ServerInfo
from jetspark.subjects.tokens import is_valid_literal

# Checked subjects are remembered with their bytes: most programs publish to few of them.
SUBJECT_CACHE_MAX: Final = 4096

logger = logging.getLogger("jetspark.client")


class ClientStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of a client since it was made."""

    in_msgs: int
    in_bytes: int
    out_msgs: int
    out_bytes: int
    subscriptions: int
    requests_pending: int
    write_pending_bytes: int


class ClientCore:
    """Connection, subscriptions and requests of one client."""

    def __init__(self, options: ClientOptions) -> None:
        self.options: Final = options
        self._pool = ServerPool(options.servers)
        self._receiver = Receiver()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._nuid = Nuid()
        self._connection: Connection | None = None
        self._info = ServerInfo()
        self._max_payload = 0
        self._closed: Exception | None = ConnectionClosed("the client is not connected yet")
        self._subjects: dict[str, bytes] = {}
        self._subscriptions: dict[int, Subscription] = {}
        self._sid = 0
        self._mux = Mux(b"%b." % new_inbox(self._nuid, options.inbox_prefix).encode())
        self._mux_sid = 0
        self._deadlines = Deadlines(self._loop, self._mux)
        self._messages_out = 0
        self._bytes_out = 0

    async def open(self) -> Self:
        """Connect to the first server of the pool that accepts."""
        for address in self._pool.candidates():
            connection = Connection(address, self.options, self._receiver, self)
            try:
                info = await connection.open()
            except Error as error:
                self._pool.refused(address, error)
                continue
            self._connection = connection
            self._closed = None
            self.on_info(info)
            return self
        raise connect_failure(self._pool)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop this client lives on."""
        return self._loop

    @property
    def server_info(self) -> ServerInfo:
        """What the server last said about itself."""
        return self._info

    @property
    def is_closed(self) -> bool:
        """Whether the client was closed or lost its connection."""
        return self._closed is not None

    def seconds(self, timeout: float | None) -> float:
        """The timeout of a call: its own, or the default of this client."""
        return self.options.timeout if timeout is None else timeout

    def stats(self) -> ClientStats:
        """Counters of messages and bytes, and what is pending now."""
        connection = self._connection
        return ClientStats(
            in_msgs=self._receiver.messages,
            in_bytes=self._receiver.bytes,
            out_msgs=self._messages_out,
            out_bytes=connection.outgoing.bytes_out if connection else self._bytes_out,
            subscriptions=len(self._subscriptions),
            requests_pending=len(self._mux.pending),
            write_pending_bytes=connection.outgoing.size if connection else 0,
        )

    # Sending.

    def publish(
        self, subject: str, payload: bytes = b"", *, reply: str = "", headers: HeaderInput = None
    ) -> None:
        """Queue a message. Callable from any thread."""
        self.send_message(
            self._subjects.get(subject) or self.literal(subject),
            self.literal(reply) if reply else b"",
            header_block(headers) if headers is not None else b"",
            payload,
        )

    def send_message(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Queue a message whose subjects were checked. Callable from any thread."""
        if type(payload) is not bytes:
            payload = to_bytes(payload)
        connection = self._connection
        if self._closed is not None or connection is None:
            raise self._closed_error()
        size = len(headers) + len(payload)
        if size > self._max_payload:
            raise PayloadTooLarge(size, self._max_payload)
        if headers:
            if not self._info.headers:
                raise NotSupported("this server has headers switched off: publish without them")
            frame = encode_hpub(subject, reply, headers, payload)
        else:
            frame = encode_pub(subject, reply, payload)
        self._messages_out += 1
        if threading.get_ident() == self._thread:
            connection.outgoing.send(frame)
        else:
            connection.outgoing.send_from_thread(frame)

    def literal(self, subject: str) -> bytes:
        """The bytes of a subject that can be published to; BadSubject when it cannot."""
        known = self._subjects.get(subject)
        if known is not None:
            return known
        encoded = subject.encode("utf-8", "surrogateescape")
        if not is_valid_literal(encoded):
            raise BadSubject(
                subject,
                "expected tokens separated by single dots, without blanks and without the "
                "wildcards * and >",
            )
        if len(self._subjects) >= SUBJECT_CACHE_MAX:
            self._subjects.clear()
        self._subjects[subject] = encoded
        return encoded

    # Requests.

    async def ask(self, subject: bytes, headers: bytes, payload: bytes, seconds: float) -> Message:
        """Publish and wait for one reply, which may be a status; RequestTimeout if none comes."""
        sink = SingleReply(self._loop, self)
        self.send_request(sink, subject, headers, payload, seconds)
        try:
            return await sink.future
        except TimeoutError:
            raise RequestTimeout(
                f"no reply on {subject.decode('utf-8', 'replace')!r} within {seconds} s"
            ) from None
        finally:
            if sink.future.cancelled():
                self._mux.discard(sink)

    def send_request(
        self, sink: ReplySink, subject: bytes, headers: bytes, payload: bytes, seconds: float
    ) -> None:
        """Publish with a reply subject of the mux inbox; ``sink`` takes the replies."""
        if not self._mux_sid:
            self._mux_sid = self._next_sid()
            self._receiver.sinks[self._mux_sid] = self._mux
            self.send_frame(encode_sub(self._mux.prefix + b"*", b"", self._mux_sid))
        sink.subject = subject
        sink.deadline = self._loop.time() + seconds
        reply = self._mux.add(sink)
        try:
            self.send_message(subject, reply, headers, payload)
        except Exception:
            self._mux.discard(sink)
            raise
        self._deadlines.watch(sink.deadline)

    def drop_request(self, sink: ReplySink) -> None:
        """Take no more replies for ``sink``."""
        self._mux.discard(sink)

    # Subscriptions.

    def add_subscription(
        self,
        subject: str,
        queue: str,
        *,
        pending_msgs: int,
        pending_bytes: int,
        callback: Callback | None,
    ) -> Subscription:
        """Register a subscription and tell the server."""
        if self._closed is not None:
            raise self._closed_error()
        sid = self._next_sid()
        subscription = Subscription(
            self,
            self._receiver,
            sid,
            subject,
            queue,
            pending_msgs=pending_msgs,
            pending_bytes=pending_bytes,
            callback=callback,
            timeout=self.options.timeout,
        )
        self._receiver.sinks[sid] = subscription.sink
        self._subscriptions[sid] = subscription
        encoded = subject.encode("utf-8", "surrogateescape")
        self.send_frame(encode_sub(encoded, queue.encode("utf-8", "surrogateescape"), sid))
        return subscription

    def send_unsubscribe(self, sid: int, max_msgs: int) -> None:
        """Tell the server to stop, at once (0) or after ``max_msgs`` deliveries."""
        if self._closed is None:
            self.send_frame(encode_unsub(sid, max_msgs))

    def forget_subscription(self, sid: int) -> None:
        """Take no further messages of this subscription."""
        self._receiver.sinks.pop(sid, None)
        self._subscriptions.pop(sid, None)

    # Flushing and closing.

    async def flush(self, *, timeout: float | None = None) -> None:
        """Wait until the server has seen everything sent so far (a PING and its PONG)."""
        seconds = self.seconds(timeout)
        connection = self._connection
        if connection is None:
            raise self._closed_error()
        try:
            async with asyncio.timeout(seconds):
                await connection.ping()
        except TimeoutError:
            raise RequestTimeout(
                f"flush: no PONG from {connection.address.label} within {seconds} s"
            ) from None

    async def drain(self, *, timeout: float | None = None) -> None:
        """Stop all subscriptions, let what has arrived be processed, flush, and close."""
        seconds = self.seconds(timeout)
        try:
            async with asyncio.timeout(seconds):
                drains = [sub.drain(timeout=seconds) for sub in self._subscriptions.values()]
                await asyncio.gather(*drains)
                await self.flush(timeout=seconds)
        except TimeoutError:
            raise RequestTimeout(f"drain was not done within {seconds} s; closed") from None
        finally:
            await self.close()

    async def close(self) -> None:
        """Write what is queued and close; pending calls fail, subscriptions end."""
        connection = self._connection
        if connection is None:
            return
        self._shut(ConnectionClosed("the client was closed: call connect() again"), None)
        await connection.close()

    # What the connection reports.

    def connect_line(self, info: ServerInfo, address: ServerAddress) -> bytes:
        """The CONNECT line that answers ``info``."""
        return encode_connect(connect_options(self.options, info, address))

    def on_info(self, info: ServerInfo) -> None:
        """Take a first or later INFO."""
        self._info = info
        self._max_payload = info.max_payload

    def on_server_error(self, text: str) -> None:
        """An ``-ERR`` after which the connection lives: fail what it is about, tell the user."""
        error = error_of_line(text)
        denied = denied_subject(text)
        if denied is not None:
            kind, subject = denied
            if kind == "subscription":
                for subscription in list(self._subscriptions.values()):
                    if subscription.subject == subject:
                        subscription.end(error)
            else:
                encoded = subject.encode("utf-8", "surrogateescape")
                for sink in list(self._mux.pending.values()):
                    if sink.subject == encoded:
                        self._mux.discard(sink)
                        sink.fail(error)
        self.report(error)

    def on_lost(self, error: Exception) -> None:
        """The connection is gone: everything pending fails now."""
        self._shut(error, error)

    def report(self, error: Exception) -> None:
        """Tell the error callback, or the log when there is none."""
        callback = self.options.error_callback
        if callback is None:
            logger.warning("%s: %s", type(error).__name__, error)
            return
        try:
            callback(error)
        except Exception:
            logger.exception("the error callback failed on %r", error)

    # Private parts.

    def send_frame(self, frame: bytes) -> None:
        """Queue a finished protocol frame."""
        if self._closed is not None or self._connection is None:
            raise self._closed_error()
        self._connection.outgoing.send_control(frame)

    def _next_sid(self) -> int:
        self._sid += 1
        return self._sid

    def _closed_error(self) -> Exception:
        reason = self._closed
        return ConnectionClosed(str(reason)) if reason is not None else ConnectionClosed("closed")

    def _shut(self, error: Exception, reason: Exception | None) -> None:
        """Fail what is pending with ``error``; ``reason`` None means that we were asked to."""
        if self._closed is not None and self._connection is None:
            return
        self._closed = error
        if self._connection is not None:
            self._bytes_out = self._connection.outgoing.bytes_out
            self._connection = None
        self._deadlines.close()
        for sink in self._mux.take_all():
            sink.fail(error)
        for subscription in list(self._subscriptions.values()):
            subscription.end(reason)
        callback = self.options.closed_callback
        if callback is not None:
            try:
                callback(reason)
            except Exception:
                logger.exception("the closed callback failed")


def to_bytes(payload: object) -> bytes:
    """Accept what is bytes-like; anything else is a TypeError that says what to do."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    hint = "; encode text first: payload.encode()" if isinstance(payload, str) else ""
    raise TypeError(f"payload must be bytes, not {type(payload).__name__}{hint}")
