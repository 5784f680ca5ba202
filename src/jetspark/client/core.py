"""The core of a client: its subscriptions, its requests, and the link to the servers.

``Client`` is the public API; JetStream and the other features build on this module. A lost
connection is replaced: subscriptions continue, publishes wait in a bounded buffer, requests keep
waiting until their own deadline. When the link closes permanently, everything pending fails with
ConnectionClosed at once.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, NoReturn, Self, TypeVar

from jetspark.client.callbacks.events import Events
from jetspark.client.callbacks.pool import OrderedBy
from jetspark.client.callbacks.tasks import CallbackTasks, is_inside_callback
from jetspark.client.connection.link import Link, LinkOwner
from jetspark.client.connection.server_errors import denied_subject, error_of_line
from jetspark.client.connection.status import ConnectionStatus
from jetspark.client.draining import drain_all, drain_in_background
from jetspark.client.frames import add_literal, sub_frame, to_bytes
from jetspark.client.header_input import HeaderInput, header_block
from jetspark.client.inbox import Mux, ReplySink
from jetspark.client.listeners import Listeners
from jetspark.client.message import Message
from jetspark.client.options import NO_PICKLE, ClientOptions
from jetspark.client.receive import Receiver
from jetspark.client.requests import Deadlines, SingleReply
from jetspark.client.stats import ClientStats
from jetspark.client.subscription import (
    PENDING_BYTES_MAX,
    PENDING_MSGS_MAX,
    Callback,
    SubscriptionCore,
)
from jetspark.client.timeouts import Timeout, call_seconds
from jetspark.errors import ConnectionClosed, NotSupported, PayloadTooLarge, RequestTimeout
from jetspark.ids import Nuid, new_inbox
from jetspark.protocol.encoder import encode_hpub, encode_pub, encode_sub, encode_unsub
from jetspark.protocol.handshake import ServerInfo

# Seconds for callbacks to finish what they have after ``close``; then they are cancelled.
CALLBACKS_TIMEOUT: Final = 2.0
NO_LIMIT: Final = 2**62  # for a server that announces a negative max_payload

T = TypeVar("T")


class ClientCore:
    """Link, subscriptions and requests of one client.

    ``owner`` receives the link's events instead and passes them on: a class that adds
    subscriptions of its own.
    """

    def __init__(self, options: ClientOptions, owner: LinkOwner | None = None) -> None:
        self.options: Final = options
        self._events = Events(options)
        self.receiver: Final = Receiver()
        self._link = Link(options, self.receiver, owner or self, self._events)
        self.outgoing: Final = self._link.outgoing
        self.loop: Final = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._nuid = Nuid()
        self._info = self._link.info
        self.max_payload: int = self._info.max_payload
        self._closed: ConnectionClosed | None = None
        # Done when the client is closed, or lost its connection permanently.
        self._end: asyncio.Future[None] = self.loop.create_future()
        self._subjects: dict[str, bytes] = {}
        self._subscriptions: dict[int, SubscriptionCore] = {}
        self._sid = 0
        self._mux = Mux(b"%b." % new_inbox(self._nuid, options.inbox_prefix).encode())
        self._mux_sid = 0
        self._deadlines = Deadlines(self.loop, self._mux)
        self._messages_out = 0
        self.callbacks: Final = CallbackTasks()
        self._draining: asyncio.Task[None] | None = None
        self.is_draining: bool = (
            False  # readers that create consumers again stop when theirs has ended
        )
        # Features that act when the connection changes (consumers send their requests again).
        self.down_listeners: Final = Listeners()
        self.up_listeners: Final = Listeners()

    async def open(self) -> Self:
        """Connect to the first server of the pool that accepts."""
        await self._link.open()
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(NO_PICKLE)

    @property
    def server_info(self) -> ServerInfo:
        """The last INFO of the server."""
        return self._info

    @property
    def is_closed(self) -> bool:
        """Whether the client was closed, or lost its connection permanently."""
        return self._closed is not None

    @property
    def status(self) -> ConnectionStatus:
        """The connection state of the client."""
        if self._closed is not None:
            return ConnectionStatus.CLOSED
        if self.is_draining:
            return ConnectionStatus.DRAINING
        if self._link.connection is not None:
            return ConnectionStatus.CONNECTED
        up_before = self._link.was_up
        return ConnectionStatus.RECONNECTING if up_before else ConnectionStatus.CONNECTING

    @property
    def last_error(self) -> Exception | None:
        """The last error passed to the error, disconnected or closed callback."""
        return self._events.last_error

    @property
    def link(self) -> Link:
        """The link to the servers."""
        return self._link

    @property
    def inbox_start(self) -> bytes:
        """The prefix of the reply subjects of requests."""
        return self._mux.prefix

    def seconds(self, timeout: Timeout | None) -> float:
        """The timeout of a call: its own, or this client's default."""
        return call_seconds(timeout, self.options.timeout)

    def new_inbox(self) -> str:
        """A unique reply subject."""
        return new_inbox(self._nuid, self.options.inbox_prefix)

    def stats(self) -> ClientStats:
        """Counters of messages and bytes, and what is pending."""
        return ClientStats(
            in_msgs=self.receiver.messages,
            in_bytes=self.receiver.bytes,
            out_msgs=self._messages_out + self.outgoing.messages_from_threads,
            out_bytes=self.outgoing.bytes_out,
            subscriptions=len(self._subscriptions),
            requests_pending=len(self._mux.pending),
            write_pending_bytes=self.outgoing.size,
            reconnects=self._link.reconnects,
        )

    # Sending.

    def publish(
        self, subject: str, payload: bytes = b"", *, reply: str = "", headers: HeaderInput = None
    ) -> None:
        """Queue a message. Callable from any thread."""
        try:
            known = self._subjects.get(subject)
        except TypeError:  # a list, for example
            known = None
        self.send_message(
            known or self.literal(subject),
            self.literal(reply) if reply else b"",
            header_block(headers) if headers is not None else b"",
            payload,
        )

    def send_message(
        self, subject: bytes, reply: bytes, headers: bytes, payload: bytes, at_once: bool = False
    ) -> None:
        """Queue a message whose subjects were checked. Callable from any thread."""
        if type(payload) is not bytes:
            payload = to_bytes(payload)
        if self._closed is not None:
            raise self.closed_error()
        size = len(headers) + len(payload)
        if size > self.max_payload:
            raise PayloadTooLarge(size, self.max_payload)
        if headers:
            if not self._info.headers:
                raise NotSupported("headers are disabled on this server: publish without them")
            frame = encode_hpub(subject, reply, headers, payload)
        else:
            frame = encode_pub(subject, reply, payload)
        if threading.get_ident() != self._thread:
            self.outgoing.send_from_thread(frame)
            return  # it counts them: threads must not write the counters here
        if at_once:
            self.outgoing.send_at_once(frame)
        else:
            self.outgoing.send(frame)
        self._messages_out += 1

    def send_messages(self, frames: list[bytes]) -> None:
        """Queue finished frames of messages, all or none. On the loop's thread only."""
        if self._closed is not None:
            raise self.closed_error()
        self.outgoing.send_many(frames)
        self._messages_out += len(frames)

    def literal(self, subject: str) -> bytes:
        """The bytes of a subject to publish to; BadSubject if it is invalid."""
        try:
            known = self._subjects.get(subject)
        except TypeError:
            known = None  # unhashable: add_literal raises the error
        return known or add_literal(self._subjects, subject)

    # Requests.

    async def ask(self, subject: bytes, headers: bytes, payload: bytes, seconds: float) -> Message:
        """Publish and wait for one reply, which may be a status; RequestTimeout if none comes."""
        if asyncio.get_running_loop() is not self.loop:
            self._link.check_loop()
        sink = SingleReply(self.loop, self)
        self.send_request(sink, subject, headers, payload, seconds)
        try:
            return await sink.future
        except TimeoutError:
            target = subject.decode("utf-8", "replace")
            passed = round(seconds, 3)  # the rest of a deadline has many digits
            raise RequestTimeout(f"no reply on {target!r} within {passed} s") from None
        finally:
            if sink.future.cancelled():
                self._mux.discard(sink)

    def send_request(
        self, sink: ReplySink, subject: bytes, headers: bytes, payload: bytes, seconds: float
    ) -> None:
        """Publish with a reply subject of the mux inbox; ``sink`` gets the replies."""
        alone = not self._mux.pending
        reply = self.expect_replies(sink, subject, seconds)
        try:
            self.send_message(subject, reply, headers, payload, alone)
        except Exception:
            self._mux.discard(sink)
            raise

    def expect_replies(self, sink: ReplySink, subject: bytes, seconds: float) -> bytes:
        """Create a reply subject of the mux inbox; ``sink`` gets the replies."""
        if not self._mux_sid:
            self._mux_sid = self.next_sid()
            self.receiver.add(self._mux_sid, self._mux)
            self.send_frame(encode_sub(self._mux.prefix + b"*", b"", self._mux_sid))
        sink.subject = subject
        sink.deadline = self.loop.time() + seconds
        self._deadlines.watch(sink.deadline)
        return self._mux.add(sink)

    def drop_request(self, sink: ReplySink) -> None:
        """Drop further replies for ``sink``."""
        self._mux.discard(sink)

    # Subscriptions.

    def add_subscription(
        self,
        subject: str,
        queue: str = "",
        *,
        pending_msgs: int = PENDING_MSGS_MAX,
        pending_bytes: int = PENDING_BYTES_MAX,
        callback: Callback | None = None,
        concurrency: int = 1,
        ordered_by: OrderedBy[Message] = None,
        awaits: Callable[[], bool] | None = None,
    ) -> SubscriptionCore:
        """Register a subscription and send SUB."""
        self._link.check_loop()
        if self._closed is not None:
            raise self.closed_error()
        sid = self.next_sid()
        subscription = SubscriptionCore(
            self,
            self.receiver,
            sid,
            subject,
            queue,
            pending_msgs=pending_msgs,
            pending_bytes=pending_bytes,
            callback=callback,
            timeout=self.options.timeout,
            concurrency=concurrency,
            ordered_by=ordered_by,
            awaits=awaits,
        )
        self.receiver.add(sid, subscription.sink)
        self._subscriptions[sid] = subscription
        if subscription.callback_task is not None:
            self.callbacks.add(subscription.callback_task, subscription.caller)
        self.send_frame(sub_frame(subject, queue, sid))
        return subscription

    def send_unsubscribe(self, sid: int, max_msgs: int) -> None:
        """Send UNSUB, effective at once (0) or after ``max_msgs`` deliveries."""
        if self._closed is None:
            self.send_frame(encode_unsub(sid, max_msgs))

    def next_sid(self) -> int:
        """An id for another subscription."""
        self._sid += 1
        return self._sid

    def forget_subscription(self, sid: int) -> None:
        """Drop further messages of this subscription."""
        self.receiver.remove(sid)
        self._subscriptions.pop(sid, None)

    # Flushing and closing.

    async def flush(self, *, timeout: Timeout | None = None) -> None:
        """Wait until the server has processed everything sent so far (a PING and its PONG)."""
        seconds = self.seconds(timeout)
        self._link.check_loop()
        if self._closed is not None:
            raise self.closed_error()
        try:
            async with asyncio.timeout(seconds):
                await self._link.ping()
        except ConnectionClosed:
            if self._closed is None:
                raise
            raise self.closed_error() from None
        except TimeoutError:
            connection = self._link.connection
            missing = f"PONG from {connection.address.label}" if connection else "connection"
            raise RequestTimeout(f"flush: no {missing} within {seconds} s") from None

    async def force_reconnect(self, *, timeout: Timeout | None = None) -> None:
        """Drop the connection and wait for a new one."""
        seconds = self.seconds(timeout)
        self._link.check_loop()
        if self._closed is not None:
            raise self.closed_error()
        try:
            async with asyncio.timeout(seconds):
                await self._link.force_reconnect()
        except TimeoutError:
            raise RequestTimeout(
                f"force_reconnect: no connection within {seconds} s; the client keeps trying"
            ) from None

    async def settle(self, *, timeout: float) -> None:
        """Wait until nothing that was sent to us before is in flight."""
        if self._link.connection is not None:
            # If the connection breaks, nothing is in flight either.
            with contextlib.suppress(ConnectionClosed):
                await self.flush(timeout=timeout)

    async def drain(self, *, timeout: Timeout | None = None) -> None:
        """End all subscriptions, process the messages that have arrived, flush, and close."""
        seconds = self.seconds(timeout)
        if self._closed is not None:
            raise self.closed_error()
        self._link.check_loop()
        if is_inside_callback():
            # A callback cannot wait for its own end: the rest follows when it is done.
            self._draining = drain_in_background(self, seconds)
            return
        self.is_draining = True
        try:
            await drain_all(self, list(self._subscriptions.values()), self.callbacks, seconds)
        except RequestTimeout:
            self.callbacks.cancel()  # their time is up
            raise
        finally:
            await self.close()

    async def close(self) -> None:
        """Write what is queued and close; pending calls fail, subscriptions end."""
        if self._closed is not None:
            return
        self._link.check_loop()
        self._shut(ConnectionClosed("the client was closed: call connect() again"), None)
        await self._link.close()
        await self.callbacks.finish(self._events.tasks, CALLBACKS_TIMEOUT)

    # Callbacks of the link.

    def resume_frames(self) -> list[bytes]:
        """SUB, and UNSUB with the remaining deliveries, of every subscription."""
        frames = []
        if self._mux_sid:
            frames.append(encode_sub(self._mux.prefix + b"*", b"", self._mux_sid))
        for sid, subscription in self._subscriptions.items():
            if subscription.is_draining:
                continue
            frames.append(sub_frame(subscription.subject, subscription.queue, sid))
            left = subscription.deliveries_left
            if left:
                frames.append(encode_unsub(sid, left))
        return frames

    def on_info(self, info: ServerInfo) -> None:
        """Process a first or later INFO."""
        self._info = info
        self.max_payload = info.max_payload if info.max_payload >= 0 else NO_LIMIT

    def on_down(self) -> None:
        """The connection was lost and is being replaced."""
        self.down_listeners.notify()

    def on_up(self, *, again: bool) -> None:
        """A connection was established."""
        if again:
            self.up_listeners.notify()

    def on_closed(self, error: Exception) -> None:
        """The connection is lost permanently: everything pending fails now."""
        if isinstance(error, ConnectionClosed):
            self._shut(error, error)
            return
        closed = ConnectionClosed(f"the connection was lost permanently: {error}")
        closed.__cause__ = error
        self._shut(closed, error)

    def on_server_error(self, text: str) -> None:
        """An ``-ERR`` that leaves the connection open: fail what it is about, report it."""
        error = error_of_line(text)
        denied = denied_subject(text)
        if denied is not None:
            kind, subject = denied
            encoded = subject.encode("utf-8", "surrogateescape")
            if kind == "subscription" and encoded == self._mux.prefix + b"*":
                self._lose_inbox(error)
            elif kind == "subscription":
                for subscription in list(self._subscriptions.values()):
                    if subscription.subject == subject:
                        subscription.end(error)
            else:
                for sink in list(self._mux.pending.values()):
                    if sink.subject == encoded:
                        self._mux.discard(sink)
                        sink.fail(error)
        self.report(error)

    def report(self, error: Exception) -> None:
        """Call the error callback, or log the error if there is none."""
        self._events.error(error)

    def note_deleted(self, what: str) -> None:
        """Log, once per client, that the library deleted a named consumer."""
        self._events.deleted(what)

    # Private parts.

    def send_frame(self, frame: bytes) -> None:
        """Queue a finished protocol frame."""
        if self._closed is not None:
            raise self.closed_error()
        self.outgoing.send_control(frame)

    def check_open(self) -> None:
        """Raise ConnectionClosed when the client is closed."""
        if self._closed is not None:
            raise self.closed_error()

    def closed_error(self) -> ConnectionClosed:
        """A new exception per caller that says why the client is closed."""
        error = ConnectionClosed(str(self._closed or "the client is draining"))
        if self._closed is not None:
            error.__cause__ = self._closed.__cause__
        return error

    async def or_closed(self, waiting: Coroutine[Any, Any, T]) -> T:
        """The result of ``waiting``; ConnectionClosed if the client closes first."""
        task = self.loop.create_task(waiting)
        either: list[asyncio.Future[Any]] = [task, self._end]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise self.closed_error()
            return task.result()
        finally:
            task.cancel()

    def _lose_inbox(self, error: Exception) -> None:
        """No reply can arrive: fail the requests now, and subscribe again with the next one."""
        error.add_note(
            f"requests need their reply subjects: allow {self.options.inbox_prefix}.> for this "
            "user, or connect with inbox_prefix= set to a prefix it may subscribe to"
        )
        self.receiver.remove(self._mux_sid)
        self._mux_sid = 0
        for sink in self._mux.take_all():
            sink.fail(error)

    def _shut(self, error: ConnectionClosed, reason: Exception | None) -> None:
        """Fail everything that waits; ``reason`` is None if the user closed the client."""
        if self._closed is not None:
            return
        self._closed = error
        self._deadlines.close()
        for sink in self._mux.take_all():
            sink.fail(self.closed_error())
        for subscription in list(self._subscriptions.values()):
            subscription.end(self.closed_error())
        self._end.set_result(None)
        self.down_listeners.clear()
        self.up_listeners.clear()
        self._events.closed(reason)
