"""The connection of a replica to its leader, with the subscriptions of the replica's clients.

Only the leader routes messages: what a client publishes goes there, and comes back to subscribers
here. So a client receives what it would receive at the leader, queue groups have one member each
wherever clients are connected, and nothing is delivered twice. Plain subscriptions of one subject
share one at the leader; members of a queue have their own, so that each counts. Input of clients
goes through a fair queue (fair_queue.py).
"""

import asyncio
import contextlib
import logging
import re
import time
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from jetspark.client.connection.connection import Connection
from jetspark.client.connection.server_errors import denied_subject
from jetspark.client.core import ClientCore
from jetspark.client.inbox import ReplySink
from jetspark.client.options import ClientOptions
from jetspark.client.receive import Sink
from jetspark.errors import BufferFull, Error, PayloadTooLarge
from jetspark.frame import Frame
from jetspark.headers.status import NO_RESPONDERS, status_block
from jetspark.protocol.encoder import (
    encode_err,
    encode_hpub,
    encode_pub,
    encode_sub,
    encode_unsub,
)
from jetspark.protocol.handshake import ServerInfo
from jetspark.protocol.parser import CONTROL_LINE_VIOLATION
from jetspark.replica.fair_queue import FairQueue, LinkState
from jetspark.replica.own_traffic import OwnTraffic
from jetspark.server.auth.permissions import Permissions
from jetspark.server.close_reason import CloseReason
from jetspark.server.routing.client import ConnectedClient
from jetspark.server.routing.receiver import Subscription
from jetspark.server.routing.router import Router
from jetspark.subjects.tokens import is_literal

log: logging.Logger = logging.getLogger("jetspark.replica")

# The leader has this long to confirm ended subscriptions.
PONG_SECONDS: Final = 1.0
# Messages of the leader are delivered for this much CPU time before clients have their turn.
TURN_NS: Final = 4_000_000
# The size of a read: its content is delivered in some milliseconds.
READ_BYTES: Final = 64 * 1024
# This many deliveries to clients fit in one turn of the loop; more of them are deferred.
DELIVERIES_PER_TURN: Final = 4096
DELIVERIES_AT_ONCE: Final = 512
# Requests that change a stream and are not answered yet; most are within milliseconds.
CHANGING_MAX: Final = 10_000
# How acknowledgements of publishes and answers of STREAM.INFO start: ours, and nats-server's.
_INFO_STARTS: Final = tuple(
    b'{"type":"io.nats.jetstream.api.v1.stream_%b_response"' % verb
    for verb in (b"info", b"create", b"update")
)
_INFO_NAME: Final = re.compile(rb'"config":{"name":"([^"]+)"')
_INFO_SEQUENCE: Final = re.compile(rb'"last_seq":(\d{1,19})')
_ACK_START: Final = b'{"stream":"'
# A refused expectation shows the sequence that the client did not know.
_REFUSED_START: Final = b'{"error":{"code":400,"err_code":10071,'
_REFUSED: Final = re.compile(rb'wrong last sequence: (\d{1,19})"},"stream":"([^"]+)"')
_SHOWING: Final = (_ACK_START, _REFUSED_START, *_INFO_STARTS)
_ACK_SEQUENCE: Final = re.compile(rb'"seq": ?(\d{1,19})')
_ACK_PART: Final = 200
_ACK_SUBJECT: Final = b"$JS.ACK."
_NO_RESPONDERS_START: Final = status_block(NO_RESPONDERS, b"")[:12]


class Bridge:
    """Forwards the traffic of many clients over one connection to the leader, that of ``core``.

    ``flush`` writes what was queued for clients; ``on_change`` is called when the connection is
    established, lost, or brings another INFO; ``on_shown`` with sequences that clients see;
    ``on_changed`` with streams whose change clients are about to see confirmed. A bridge for one
    client alone is created when needed, and ``shared`` is the one of all others: while that one
    reaches the leader, messages wait for their connection.
    """

    def __init__(
        self,
        options: ClientOptions,
        router: Router,
        flush: Callable[[], object],
        on_change: Callable[[], None],
        on_shown: Callable[[str, int], None],
        on_changed: Callable[[str], None],
        own: OwnTraffic,
        max_control_line: int,
        shared: "Bridge | None" = None,
    ) -> None:
        self._max_control_line = max_control_line
        self.on_shown = on_shown
        self._on_changed = on_changed
        # The subjects of answers to requests that change a stream, and the streams.
        self.changing: dict[bytes, str] = {}
        self.own: Final = own
        self._shared_bridge = shared
        self._subscribed: dict[Subscription, UpstreamSink] = {}
        self._shared: dict[bytes, UpstreamSink] = {}
        self._sinks: dict[int, UpstreamSink] = {}
        self._on_change = on_change
        self._router = router
        self._flush = flush
        self._pings: set[asyncio.Task[None]] = set()
        # Ended by their clients, and the permissions these had then: messages sent before that are
        # still to be sent, and their answers belong to these subscriptions.
        self.ended: dict[Subscription, Permissions | None] = {}
        self._leaving: list[tuple[UpstreamSink, Subscription]] = []
        self._ending = False
        self.connected: bool = False
        # Why the leader must not be used although it is connected: it is a replica of ours.
        self.blocked: str = ""
        # Messages that were lost silently for lack of a leader.
        self.lost: int = 0
        self._turn_began_ns = 0
        self._deliveries_left = DELIVERIES_PER_TURN
        # Messages of the leader that are delivered in later turns, in order.
        self._put_off: deque[Delivery | asyncio.Future[None]] = deque()
        # Connections that are not read meanwhile; an earlier one may be lost.
        self._resting: list[Connection | None] = []
        self.core: Final = ClientCore(options, self)
        self.core.link.pool.retry_refusals()
        self._loop = self.core.loop
        self.queue: Final = FairQueue(self, self._loop)
        self._waker = ChunkEnd(self)

    def expect_change(self, reply: bytes, stream: str) -> None:
        """Note a request that changes a stream, and where its answer will be sent."""
        if len(self.changing) >= CHANGING_MAX:
            self.changed(next(iter(self.changing)))
        self.changing[reply] = stream

    def changed(self, reply: bytes) -> None:
        """Note that the request with this reply subject is answered, if it changes a stream."""
        stream = self.changing.pop(reply, None)
        if stream is not None:
            self._on_changed(stream)

    def block(self, reason: str) -> None:
        """Do not use the leader although it is connected; with an empty reason: use it again."""
        self.blocked = reason

    def take_lost(self) -> int:
        """Return how many messages were lost silently since the last call."""
        lost, self.lost = self.lost, 0
        return lost

    @property
    def label(self) -> str:
        """``host:port`` of the connected server; empty without one."""
        connection = self.core.link.connection
        return connection.address.label if connection is not None else ""

    @property
    def up(self) -> bool:
        """Whether the leader can be reached."""
        return self.connected and not self.blocked

    # Subscriptions of clients ------------------------------------------------------------------

    def add(self, client: ConnectedClient, subscription: Subscription) -> None:
        """Add a subscription of a client."""
        self.queue.in_order(client, partial(self._add, client, subscription))

    def limit(self, client: ConnectedClient, subscription: Subscription) -> None:
        """Set the ``max_msgs`` of a subscription."""
        self.queue.in_order(client, partial(self._limit, subscription))

    def remove(self, client: ConnectedClient, subscription: Subscription) -> None:
        """Remove a subscription."""
        # A client that sends CONNECT before its turn is another user then.
        permissions = subscription.receiver.permissions
        self.ended[subscription] = permissions
        self.queue.in_order(client, partial(self._remove, client, subscription, permissions))

    def _add(self, client: ConnectedClient, subscription: Subscription) -> None:
        """Subscribe, unless the same is subscribed already."""
        sink = None if subscription.queue else self._shared.get(subscription.subject)
        if sink is None:
            sink = UpstreamSink(self, self._router, subscription, self.core.next_sid())
            if not self.takes(sink.frame()):
                # Our id for it is longer than the client's.
                client.close(CONTROL_LINE_VIOLATION, CloseReason.MAXIMUM_CONTROL_LINE)
                self._flush()
                return
            self._sinks[sink.sid] = sink
            self.core.receiver.add(sink.sid, sink)
            if not subscription.queue:
                self._shared[subscription.subject] = sink
            if not self.core.is_closed:
                self.core.send_frame(sink.frame())
        sink.join(subscription)
        self._subscribed[subscription] = sink

    def _limit(self, subscription: Subscription) -> None:
        """Limit a member of a queue: others get the rest."""
        sink = self._subscribed.get(subscription)
        if sink is not None and subscription.queue and not self.core.is_closed:
            left = int(subscription.max_msgs - subscription.delivered)
            self.core.send_frame(encode_unsub(sink.sid, sink.delivered + left))

    def _remove(
        self, client: ConnectedClient, subscription: Subscription, permissions: Permissions | None
    ) -> None:
        """End a subscription.

        What the leader sent before it was notified still belongs to it (a client that drains waits
        for it), unless it had all it wanted or its client disconnected.
        """
        self.ended.pop(subscription, None)
        sink = self._subscribed.pop(subscription, None)
        if sink is None:
            return
        sink.part(subscription)
        full = 0 < subscription.max_msgs <= subscription.delivered
        lingers = self.up and not full and not client.closing
        if not sink.members:
            del self._sinks[sink.sid]
            if not sink.queue:
                del self._shared[sink.subject]
            if not self.core.is_closed:
                self.core.send_frame(encode_unsub(sink.sid, 0))
            if not lingers and not sink.leaving:
                self.core.receiver.remove(sink.sid)
        if lingers:
            sink.leaving[subscription] = permissions
            self._leaving.append((sink, subscription))
            if len(self._leaving) == 1 and not self._ending:
                self._start(self._end_leaving())

    async def _end_leaving(self) -> None:
        """Forget ended subscriptions, once the leader has seen that."""
        self._ending = True
        while self._leaving:
            batch, self._leaving = self._leaving, []
            with contextlib.suppress(TimeoutError, Error):
                async with asyncio.timeout(PONG_SECONDS):
                    await self.core.link.ping()
            for sink, subscription in batch:
                sink.leaving.pop(subscription, None)
                if not sink.members and not sink.leaving:
                    self.core.receiver.remove(sink.sid)
        self._ending = False

    # Messages of clients -----------------------------------------------------------------------

    def link_state(self) -> LinkState:
        """Return the state of the path to the leader."""
        if self.up:
            return LinkState.OPEN
        shared = self._shared_bridge
        return LinkState.WAIT if shared is not None and shared.up else LinkState.NONE

    def carry(self, frames: list[bytes]) -> None:
        """Send what is due for clients."""
        self.core.outgoing.send_turn(frames)

    def ping_leader(self) -> asyncio.Future[None]:
        """Send PING to the leader, which is connected."""
        seen: asyncio.Future[None] = self._loop.create_future()
        try:
            assert self.core.link.connection is not None
            self.core.link.connection.send_ping().add_done_callback(partial(self._on_pong, seen))
        except Error:
            # It is being lost, which the queue is notified of soon.
            seen.cancel()
        return seen

    def _on_pong(self, seen: asyncio.Future[None], pong: asyncio.Future[None]) -> None:
        """Handle PONG, which may follow deferred messages."""
        if pong.cancelled() or pong.exception() is not None:
            seen.cancel()
        elif self._put_off:
            self._put_off.append(seen)
        else:
            seen.set_result(None)

    def refuse(self, client: ConnectedClient, frame: bytes) -> None:
        """Answer a request with no responders: the leader cannot be reached."""
        words = frame[: frame.index(b"\r\n")].split(b" ")
        sizes = 1 if words[0] == b"PUB" else 2
        reply = words[2] if len(words) == sizes + 3 else b""
        if reply.startswith(self.core.inbox_start):
            return  # a read has its own deadline
        if reply and client.no_responders and not client.closing:
            client.say_no_responders(words[1], reply)
        else:
            self.lost += 1

    def request_for(
        self,
        client: ConnectedClient,
        sink: ReplySink,
        subject: bytes,
        headers: bytes,
        payload: bytes,
        seconds: float,
    ) -> None:
        """Send a request to the leader for a client, in its turn; raises if it is invalid."""
        reply = self.core.expect_replies(sink, subject, seconds)
        frame = message_frame(subject, reply, headers, payload)
        if not self.takes(frame):
            self.core.drop_request(sink)
            raise PayloadTooLarge(len(frame), self.core.max_payload)
        self.queue.put(client, frame)

    def takes(self, frame: bytes) -> bool:
        """Return whether the leader accepts a frame that differs from what a client sent.

        One that is too long costs the connection, and so affects all clients.
        """
        end = frame.index(b"\r\n")
        return (
            end - frame.index(b" ") - 1 <= self._max_control_line
            and len(frame) - end - 4 <= self.core.max_payload
        )

    def pass_message(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> bool:
        """Send our own message; False if the leader cannot be reached."""
        if not self.up:
            return False
        with contextlib.suppress(BufferFull):
            self.core.outgoing.send(message_frame(subject, reply, headers, payload))
            return True
        return False

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._pings.add(task)
        task.add_done_callback(self._pings.discard)

    def wake_at_chunk_end(self) -> None:
        """Flush clients at the end of the chunk."""
        if not self._waker.listed:
            self._waker.listed = True
            self.core.receiver.wake_later(self._waker)

    def flush_clients(self) -> None:
        """Write what was queued for clients outside of a chunk."""
        self._flush()

    def end_chunk(self) -> None:
        """Write the output of a chunk, and let others have a turn.

        The loop would continue with the leader's messages, up to 32 times as much at once.
        """
        self._flush()
        now = time.thread_time_ns()
        if not self._turn_began_ns:
            self._turn_began_ns = now
            self._loop.call_soon(self._end_turn)
        if self._put_off or now - self._turn_began_ns > TURN_NS:
            if not self._resting:
                self._loop.call_soon(self._read_on)
            connection = self.core.link.connection
            self._resting.append(connection)
            if connection is not None:
                connection.pause_reading()

    def _end_turn(self) -> None:
        self._turn_began_ns = 0
        self._deliveries_left = DELIVERIES_PER_TURN

    def _read_on(self) -> None:
        """Deliver deferred messages, as many as fit in one turn; then resume reading."""
        until = time.thread_time_ns() + TURN_NS
        while self._put_off and time.thread_time_ns() < until:
            first = self._put_off[0]
            try:
                if isinstance(first, Delivery):
                    if not first.step():
                        continue
                elif not first.done():
                    first.set_result(None)
            except Exception:  # only this message
                log.exception("A message of the leader could not be delivered")
            self._put_off.popleft()
        self._flush()
        if self._put_off:
            self._loop.call_soon(self._read_on)
            return
        resting, self._resting = self._resting, []
        for connection in resting:
            if connection is not None:
                connection.resume_reading()

    def may_deliver(self, count: int) -> bool:
        """Return whether a message may go to this many clients now; else it must be deferred."""
        self._deliveries_left -= count
        return self._deliveries_left >= 0 and not self._put_off

    def put_off(self, delivery: "Delivery") -> None:
        """Deliver a message in a later turn, after others."""
        self._put_off.append(delivery)

    # Called by the link ------------------------------------------------------------------------

    def resume_frames(self) -> list[bytes]:
        """Return the SUBs of all subscriptions, for a new connection."""
        frames = self.core.resume_frames()
        for sink in self._sinks.values():
            frames.append(sink.subscribe_again())
            frames.extend(
                encode_unsub(sink.sid, int(member.max_msgs - member.delivered))
                for member in sink.members
                if sink.queue and member.max_msgs > member.delivered
            )
        return frames

    def on_info(self, info: ServerInfo) -> None:
        """Handle a first or later INFO."""
        self.core.on_info(info)
        self._on_change()

    def on_server_error(self, text: str) -> None:
        """Report a violation to the client that caused it, if known."""
        denied = denied_subject(text)
        if denied is not None and denied[0] == "subscription":
            subject = denied[1].encode("utf-8", "surrogateescape")
            for sink in self._sinks.values():
                if sink.subject == subject:
                    for member in sink.members:
                        member.receiver.queue(encode_err(text.encode()))
            self._flush()
        self.core.on_server_error(text)

    def on_up(self, *, again: bool) -> None:
        """Handle a new connection."""
        self.connected = True
        if self.core.link.connection is not None:
            self.core.link.connection.limit_reads(READ_BYTES)
        self.core.on_up(again=again)
        self._on_change()
        self.queue.work()

    def on_down(self) -> None:
        """Handle a lost connection."""
        self.connected = False
        self.core.on_down()
        self._on_change()
        self.queue.lost()

    def on_closed(self, error: Exception) -> None:
        """Handle the end of the connection."""
        self.core.on_closed(error)

    async def open(self) -> None:
        """Connect to the leader, or to the first server of its cluster that accepts."""
        await self.core.open()

    async def close(self) -> None:
        """Close the connection; waiting PINGs are not answered any more."""
        self.queue.close()
        for task in self._pings:
            task.cancel()
        self.connected = False
        await self.core.close()


class UpstreamSink(Sink):
    """A subscription at the leader, for one or more clients here."""

    def __init__(
        self, bridge: Bridge, router: Router, subscription: Subscription, sid: int
    ) -> None:
        self._bridge = bridge
        self._router = router
        self.sid = sid
        self.subject: bytes = subscription.subject
        self.queue: bytes = subscription.queue
        self._literal = is_literal(self.subject)
        self.delivered: int = 0
        self.members: dict[Subscription, None] = {}
        # A copy for iteration: the last message that a member wanted ends it.
        self.listed: list[Subscription] | None = None
        # Ended by their clients, with their permissions then; the leader may not know yet.
        self.leaving: dict[Subscription, Permissions | None] = {}

    def join(self, subscription: Subscription) -> None:
        """Add a client."""
        self.members[subscription] = None
        self.listed = None

    def part(self, subscription: Subscription) -> None:
        """Remove a client."""
        del self.members[subscription]
        self.listed = None

    def subscribe_again(self) -> bytes:
        """Return its SUB for a new connection, which counts deliveries from the start."""
        self.delivered = 0
        self.leaving.clear()
        return self.frame()

    def frame(self) -> bytes:
        """Return its SUB."""
        return encode_sub(self.subject, self.queue, self.sid)

    def deliver(self, frame: Frame) -> None:
        """Deliver a message of the leader to the clients."""
        self.delivered += 1
        subject, reply = frame.subject(), frame.reply()
        headers, payload = frame.headers(), frame.payload()
        if not self._literal and self._bridge.own.has(subject, reply):
            return
        if self._bridge.changing:
            self._bridge.changed(subject)
        if payload.startswith(_SHOWING):
            self._bridge.on_shown(*shown(payload))
        if not payload and headers.startswith(_NO_RESPONDERS_START):
            self._tell_requester(subject, headers)
        else:
            members = self.listed
            if members is None:
                members = self.listed = list(self.members)
            if self._bridge.may_deliver(len(members) + 1):
                given = self.give(members, subject, reply, headers, payload)
                if self.leaving or (self.queue and not given):
                    self.give_rest(subject, reply, headers, payload, given=given)
            else:
                delivery = Delivery(self, members, subject, reply, headers, payload)
                self._bridge.put_off(delivery)
        self._bridge.wake_at_chunk_end()

    def give(
        self,
        members: list[Subscription],
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> bool:
        """Deliver a message to some members; True if one of them got it."""
        router = self._router
        give = router.give
        given = False
        sent_elsewhere = not self._literal and reply.startswith(_ACK_SUBJECT)
        for member in members:
            if sent_elsewhere and not may_see_deliveries(member):
                continue
            if not member.closed:
                given = give(member, None, subject, reply, headers, payload) or given
            elif self._may_have_rest(member, self._bridge.ended):
                given = router.give_to(member, subject, reply, headers, payload) or given
        return given

    def give_rest(
        self, subject: bytes, reply: bytes, headers: bytes, payload: bytes, *, given: bool
    ) -> None:
        """Deliver a message to ended subscriptions, or to another member of a queue."""
        sent_elsewhere = not self._literal and reply.startswith(_ACK_SUBJECT)
        for member in self.leaving:
            if self._may_have_rest(member, self.leaving) and (
                not sent_elsewhere or may_see_deliveries(member)
            ):
                router = self._router
                given = router.give_to(member, subject, reply, headers, payload) or given
        if self.queue and not given:
            self._give_to_another(subject, reply, headers, payload)

    def _may_have_rest(
        self, member: Subscription, ended: dict[Subscription, Permissions | None]
    ) -> bool:
        """Return whether an ended subscription still gets late messages.

        Unless it had all it wanted. A client that sends CONNECT again is another user.
        """
        receiver = member.receiver
        connection = receiver.connection
        return (
            member in ended
            and receiver.permissions is ended[member]
            and not 0 < member.max_msgs <= member.delivered
            and not receiver.overflowed
            and connection is not None
            and not connection.client.closing
        )

    def _give_to_another(
        self, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> None:
        """Deliver to another member of a queue: the one that the leader chose is not permitted."""
        sent_to = subject
        if reply.startswith(_ACK_SUBJECT):
            # A delivery of a consumer has another subject than it was sent to.
            if not self._literal:
                return
            sent_to = self.subject
        for group in self._router.route_at_once(sent_to).groups:
            for member in group:
                if member.queue != self.queue:
                    break
                if (sent_to == subject or may_see_deliveries(member)) and self._router.give(
                    member, None, subject, reply, headers, payload
                ):
                    return

    def _tell_requester(self, subject: bytes, headers: bytes) -> None:
        """Report no responders: the leader sends that once, to any matching subscription of ours.

        The most specific one is the requester's: a client that subscribes to everything did not
        ask.
        """
        found = self._router.route_at_once(subject).subscribers
        asked = max(found, key=lambda member: len(member.subject), default=None)
        if asked is not None and asked.receiver.connection.client.no_responders:
            self._router.give(asked, None, subject, b"", headers, b"")


class Delivery:
    """A message for more clients than one turn of the loop allows."""

    def __init__(
        self,
        sink: UpstreamSink,
        members: list[Subscription],
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> None:
        self._sink = sink
        self._members = members
        self._message = (subject, reply, headers, payload)
        self._next = 0
        self._given = False

    def step(self) -> bool:
        """Deliver it to some of them; True when all have it."""
        part = self._members[self._next : self._next + DELIVERIES_AT_ONCE]
        self._next += len(part)
        self._given = self._sink.give(part, *self._message) or self._given
        if self._next < len(self._members):
            return False
        self._sink.give_rest(*self._message, given=self._given)
        return True


def may_see_deliveries(member: Subscription) -> bool:
    """Return whether a client may see what consumers deliver to a subscription with wildcards.

    The leader does not say where it was sent to: that may be an inbox that is denied.
    """
    permissions = member.receiver.permissions
    if permissions is None or is_literal(member.subject):
        return True
    return not permissions.rules.subscribe_deny.touches(member.subject)


def message_frame(subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> bytes:
    """Return PUB, or HPUB if there are headers."""
    if headers:
        return encode_hpub(subject, reply, headers, payload)
    return encode_pub(subject, reply, payload)


def shown(payload: bytes) -> tuple[str, int]:
    """Return the stream and sequence that an answer to a publish or STREAM.INFO shows; 0: none."""
    if payload.startswith(_REFUSED_START):
        refused = _REFUSED.search(payload)
        return (refused[2].decode(errors="replace"), int(refused[1])) if refused else ("", 0)
    if payload.startswith(_ACK_START):
        name, _, rest = payload[len(_ACK_START) :].partition(b'"')
        found = _ACK_SEQUENCE.search(rest, 0, _ACK_PART)
    else:
        named = _INFO_NAME.search(payload)
        name = named[1] if named is not None else b""
        found = _INFO_SEQUENCE.search(payload)
    return name.decode(errors="replace"), int(found[1]) if found is not None else 0


class ChunkEnd(Sink):
    """Writes to clients once per chunk of the leader."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self.listed: bool = False

    def wake(self) -> None:
        """Handle the end of the chunk."""
        self.listed = False
        self._bridge.end_chunk()
