"""The operations of one client, executed in its account.

Until the client is *ready* its operations are held, so that a password can be checked in a thread
while the client already continues (many send CONNECT, SUB and PING in one go). Reading is paused
meanwhile, so at most one chunk is ever held.

A client that had its share of a turn of the loop is *paused*: it is not ready until its next turn,
so its operations are executed in order, and others have their turns in between.
"""

from typing import Any, Final

from mypy_extensions import i64

from jetspark.engine.stream.expectations import LongLook
from jetspark.engine.stream.stream import Stream
from jetspark.engine.target import DIRECT_GET, NEXT, PUBLISH, Target
from jetspark.frame import Frame
from jetspark.headers.names import SUBJECT
from jetspark.headers.status import NO_RESPONDERS, status_block
from jetspark.protocol.encoder import OK, PONG, encode_err, write_hmsg
from jetspark.protocol.handshake import ConnectOptions
from jetspark.protocol.parser import (
    AUTHORIZATION_VIOLATION,
    CONTROL_LINE_VIOLATION,
    PAYLOAD_VIOLATION,
    ServerOps,
    ServerParser,
)
from jetspark.server.auth.permissions import (
    Permissions,
    Rules,
    is_reserved_publish,
    is_reserved_queue,
    is_reserved_reply,
)
from jetspark.server.close_reason import CloseReason
from jetspark.server.routing.consumer_replies import ACK_PREFIX, FLOW_PREFIX
from jetspark.server.routing.header_rights import denied_by_headers, reach_further
from jetspark.server.routing.receiver import Receiver, Subscription
from jetspark.server.routing.route import LARGE, Route
from jetspark.server.routing.router import FanOut, Router
from jetspark.subjects.linear_hash_dict import LinearHashDict
from jetspark.subjects.sublist import WIDTH_MAX, LongSearch
from jetspark.subjects.tokens import has_empty_token, is_literal, is_valid_subject

# A held operation: its kind, its bytes, the count of an UNSUB, and the frame of a publish.
Held = tuple[str, bytes, bytes, bytes, int, Frame | None]

# Violations that a parser reports, and their names; everything else is PROTOCOL_VIOLATION.
VIOLATIONS: Final = {
    AUTHORIZATION_VIOLATION: CloseReason.AUTHENTICATION_FAILURE,
    CONTROL_LINE_VIOLATION: CloseReason.MAXIMUM_CONTROL_LINE,
    PAYLOAD_VIOLATION: CloseReason.MAXIMUM_PAYLOAD,
}

# The prefix of requests to nats-server's system account.
SYSTEM_REQUESTS: Final = b"$SYS.REQ."
# Every client may send this one.
USER_INFO: Final = b"$SYS.REQ.USER.INFO"

# The costs of operations that cost more than a message (turn.py).
SUBSCRIBE_UNITS: Final[i64] = 12
PULL_UNITS: Final[i64] = 40
REQUEST_UNITS: Final[i64] = 100
DENIED_UNITS: Final[i64] = 200
CONNECT_UNITS: Final[i64] = 200
FAILED_UNITS: Final[i64] = 1000
# A client with more subscriptions than this loses them in several turns.
DROPPED_AT_ONCE: Final = 1000
# Subjects of this length cost more: each token of one with wildcards is a node, made or removed.
LONG_SUBJECT: Final[i64] = 128
# The bytes of the subjects of subscriptions that a client loses in one turn.
DROPPED_BYTES: Final[i64] = 65_536
# Results that a change of a subscription scans (``Sublist.looks``).
LOOKS_PER_UNIT: Final[i64] = 8
LOOKS_AT_ONCE: Final[i64] = 65_536

# How subjects start that only servers use: ``$GR. $JS. $NRG. _GR_. _R_.``
_DOLLAR: Final = 0x24
_UNDERSCORE: Final = 0x5F
_G: Final = 0x47
_J: Final = 0x4A
_N: Final = 0x4E
_R: Final = 0x52


class ConnectedClient(ServerOps):
    """One connected client."""

    __deletable__: list[str] = ["parser"]  # noqa: RUF012 - read by mypyc

    def __init__(
        self,
        router: Router,
        receiver: Receiver,
        max_control_line: i64,
        max_payload: i64,
        subscription_tokens_max: i64 = 0,
    ) -> None:
        """``subscription_tokens_max``: how many tokens the subject of a SUB may have; 0: any."""
        self.router: Router = router
        self.receiver: Receiver = receiver
        self.parser: ServerParser = ServerParser(self, max_control_line, max_payload, False)
        # By sid.
        self.subscriptions: LinearHashDict = LinearHashDict()
        self.subscriptions_max: i64 = 0
        self.subscription_tokens_max: i64 = subscription_tokens_max
        # Whether operations are executed: the client is authenticated, and it is its turn.
        self.ready: bool = True
        self._entered: bool = True
        self.closing: bool = False
        # Whether it is in the system account, which may use more subjects.
        self.system: bool = False
        # Why the server closes the connection; None: it does not, or the client disconnected.
        self.close_reason: CloseReason | None = None
        # The options of a client before CONNECT (wire.md, Core protocol).
        self.verbose: bool = True
        self.pedantic: bool = True
        self.no_responders: bool = False
        # When it sent something, in engine time.
        self.last_read_ns: i64 = 0
        # The cold part of the connection: CONNECT, pings, closing (net/session.py).
        self.session: Any = None
        # It had its share of this turn.
        self.paused: bool = False
        # It continues when fewer of the server's own messages wait.
        self.holds_back: bool = False
        self._held: list[Held] = []
        # A message that not all its receivers have yet.
        self._fan_out: FanOut | None = None
        # A message whose expectation is being looked up.
        self._look: LongLook | None = None
        self._subject: bytes = b""
        self._frame: Frame = Frame()
        # Its subscriptions must be removed before it becomes another user.
        self._leaving: bool = False

    def attach(self, connection: Any, session: Any, now: i64, out_max: i64) -> None:
        """Connect it with the driver's objects for its connection."""
        self.receiver.attach(connection, out_max)
        self.session = session
        self.last_read_ns = now

    def negotiate(self, options: ConnectOptions, headers: bool) -> None:
        """Apply the options of CONNECT; ``headers``: both sides have them."""
        self.verbose = options.verbose
        self.pedantic = options.pedantic
        self.no_responders = options.no_responders
        self.receiver.negotiate(options.echo, headers)
        self.parser.allow_headers(headers)

    def limit(self, max_control_line: i64, max_payload: i64, subscriptions_max: i64) -> None:
        """Apply the limits of the server and of its account; of subscriptions, 0: no limit."""
        self.parser.limit(max_control_line, max_payload)
        self.subscriptions_max = subscriptions_max

    def enter(self, router: Router, system: bool, permissions: Permissions | None) -> None:
        """Enter an account: operations are executed there, with these permissions."""
        self.router = router
        self.system = system
        self.receiver.guard(permissions)
        self.parser.require_connect(False)
        self.set_entered(True)

    def on_read(self, now: i64) -> None:
        """Note when it sent something: what follows happens at that time."""
        self.last_read_ns = now
        self.router.set_time(now)

    def cut_cycles(self) -> None:
        """Break reference cycles: the connection ended some time ago."""
        self.receiver.detach()
        self.session = None
        self._held = []
        del self.parser

    # Operations --------------------------------------------------------------------------------

    def on_connect(self, body: bytes) -> None:
        """CONNECT: identity and options of the client; may be repeated at any time."""
        if self._held or self.paused or self.session.checking:
            self.session.prepare_parser(body)
            self._held.append(("connect", body, b"", b"", 0, None))
            return
        if self.session.connected and not self.drops_at_once():
            self.session.prepare_parser(body)
            self._leaving = True
            self._held.append(("connect", body, b"", b"", 0, None))
            self.pause()
            return
        self.router.turn.spend(CONNECT_UNITS)
        self.session.on_connect(body)

    def on_pub(self, frame: Frame) -> None:
        """PUB or HPUB: to subscribers immediately, to a stream when it is durable."""
        if not self.ready and not self.admitted():
            self._held.append(("pub", b"", b"", b"", 0, frame.copy()))
            return
        data = frame.data
        ss = frame.ss
        rs = frame.rs
        router = self.router
        if len(router.fan_outs) > 0 and router.is_behind() and router.adds_to_waiting(frame):
            self.holds_back = True
            self.pause()
            self._held.append(("pub", b"", b"", b"", 0, frame.copy()))
            return
        receiver = self.receiver
        size = frame.pe - frame.hs
        receiver.traffic.in_msgs += 1
        receiver.traffic.in_bytes += size
        router.traffic.in_msgs += 1
        router.traffic.in_bytes += size
        subject = data[ss : frame.se]
        if subject == router.last_subject:
            subject = router.last_subject
        else:
            router.last_subject = subject
        if self.pedantic and (has_empty_token(subject) or not is_literal(subject)):
            # Reported, and the message is still delivered, as in nats-server.
            receiver.queue(encode_err(b"Invalid Publish Subject"))
        permissions = receiver.permissions
        if permissions is not None and not permissions.may_publish(subject, router.now):
            self.session.on_publish_denied(subject)
            router.turn.spend(DENIED_UNITS)
            return
        if looks_reserved(data, ss) and is_reserved_publish(subject, self.system):
            self.session.on_publish_denied(subject)
            router.turn.spend(DENIED_UNITS)
            return
        if frame.re > rs and looks_reserved(data, rs):
            reply = data[rs : frame.re]
            if is_reserved_reply(reply) or (
                permissions is not None and not permissions.may_be_answered_at(reply)
            ):
                self.session.on_reply_denied(reply)
                router.turn.spend(DENIED_UNITS)
                return
        if (
            permissions is not None
            and frame.ps > frame.hs
            and self.denies_headers(permissions.rules, subject, frame)
        ):
            router.turn.spend(DENIED_UNITS)
            return
        if self.verbose:
            receiver.queue(OK)
        if router.relayed:
            router.relay.on_pub(self, subject, frame)
            return
        target: Target | None = None
        try:
            if data[ss] == _DOLLAR and self.on_consumer(frame):
                return
            try:
                route = router.route(subject)
            except LongSearch as search:
                self.begin_search(search, subject, frame)
                return
            target = route.target
            delivered = False
            if not route.is_empty():
                if route.wide or size > LARGE:
                    units = route.units(size)
                    if units > router.turn.left:
                        self.begin_fan_out(route, subject, frame)
                        return
                    router.turn.spend(units)
                delivered = router.forward(route, receiver, frame)
            self.to_engine(target, delivered, subject, frame)
        except Exception as error:  # noqa: BLE001 - one request
            # A bug ends this request, not the connection or the rest of the chunk.
            self.session.on_failure(subject, target, frame.reply(), error)
            router.turn.spend(FAILED_UNITS)

    def denies_headers(self, rules: Rules, subject: bytes, frame: Frame) -> bool:
        """Refuse a message whose headers ask for what its publisher may not do."""
        block = frame.headers()
        if not reach_further(block):
            return False
        stream: Stream | None = None
        if not self.router.relayed:
            target = self.router.route_at_once(subject).target
            if target is None or target.kind != PUBLISH:
                return False
            stream = target.stream
        denial = denied_by_headers(block, stream, rules)
        if denial is None:
            return False
        self.session.on_headers_denied(subject, denial.subject, denial.reads)
        return True

    def on_large(self, pieces: list[bytes]) -> bool:
        """A large message is complete: it is assembled in a thread, and processed then."""
        return bool(self.session.join_in_thread(pieces))

    def begin_fan_out(self, route: Route, subject: bytes, frame: Frame) -> None:
        """Deliver a message to more receivers than fit in this turn."""
        self._fan_out = self.fan_out_of(subject, route, frame)
        self._subject = subject
        self._frame = frame.copy()
        self.continue_fan_out(self._fan_out)

    def fan_out_of(self, subject: bytes, route: Route | None, frame: Frame) -> FanOut:
        """Return a message of this client that is delivered in several turns."""
        return FanOut(
            subject,
            route,
            self.receiver,
            subject,
            frame.reply(),
            frame.headers(),
            frame.payload(),
        )

    def begin_search(self, search: LongSearch, subject: bytes, frame: Frame) -> None:
        """Deliver a message when a search for its receivers is complete."""
        fan_out = self.fan_out_of(subject, None, frame)
        fan_out.wait_for(search)
        self._fan_out = fan_out
        self._subject = subject
        self._frame = frame.copy()
        self.router.count_walks(self.router.sublist)
        self.continue_fan_out(fan_out)

    def continue_fan_out(self, fan_out: FanOut) -> None:
        """Deliver the message to more receivers; when all have it, to the engine."""
        router = self.router
        turn = router.turn
        while not fan_out.step(router, turn):
            turn.stop()
            if self.paused:
                return
            turn.end()  # no client is served in turns
        self._fan_out = None
        frame = self._frame
        self._frame = Frame()
        self.to_engine(fan_out.target(), fan_out.delivered, self._subject, frame)

    def to_engine(
        self, target: Target | None, delivered: bool, subject: bytes, frame: Frame
    ) -> None:
        """Pass a message to the engine, if it has a target there.

        A requester is notified if there was no receiver at all.
        """
        router = self.router
        if target is None or (
            target.kind == NEXT
            and not self.pull(target.subject, frame.headers(), frame.payload(), frame.reply())
        ):
            if frame.re > frame.rs:
                if frame.data[frame.ss] == _DOLLAR and subject.startswith(SYSTEM_REQUESTS):
                    # The server answers who the client is even if others listen to everything.
                    if not delivered or subject == USER_INFO:
                        self.session.on_system_request(subject, frame.reply())
                elif not delivered and self.no_responders:
                    self.say_no_responders(subject, frame.reply())
        elif target.kind == PUBLISH:
            stream = target.stream
            assert stream is not None
            try:
                staged = stream.publish(subject, frame, router.now, router.outbox)
            except LongLook as look:
                self.begin_look(look, subject, frame)
                return
            if staged and not stream.dirty:
                router.engine.mark_dirty(stream)
        elif target.kind != NEXT:
            stream = target.stream
            if (
                target.kind == DIRECT_GET
                and frame.hs == frame.ps
                and frame.re > frame.rs
                and stream is not None
                and router.reader.quick(
                    stream, target.subject, frame.payload(), frame.reply(), router.outbox
                )
            ):
                return
            router.turn.spend(REQUEST_UNITS)
            router.engine.request(
                target, frame.reply(), frame.headers(), frame.payload(), self.session
            )

    def begin_look(self, look: LongLook, subject: bytes, frame: Frame) -> None:
        """Store a message when what it expects was looked up: its subscribers have it already."""
        self._look = look
        self._subject = subject
        self._frame = frame.copy()
        self.continue_look(look)

    def continue_look(self, look: LongLook) -> None:
        """Look up what a message expects; then its stream decides about it."""
        turn = self.router.turn
        while not look.step():
            turn.stop()
            if self.paused:
                return
            turn.end()  # no client is served in turns
        self._look = None
        frame = self._frame
        self._frame = Frame()
        # Streams may have been created or deleted meanwhile.
        target = self.router.route_at_once(self._subject).target
        self.to_engine(target, True, self._subject, frame)

    def pull(self, key: bytes, headers: bytes, body: bytes, reply: bytes) -> bool:
        """Send a pull request to a consumer; False if it does not exist."""
        self.router.turn.spend(PULL_UNITS)
        return self.router.engine.pull(key, headers, body, reply)

    def on_consumer(self, frame: Frame) -> bool:
        """Handle an acknowledgement or an answer to flow control; False if it is neither."""
        router = self.router
        replies = router.consumer_replies
        if not replies.acks:
            return False
        subject = router.last_subject  # the one of this frame
        if subject.startswith(ACK_PREFIX):
            if not replies.on_ack(frame, router.now):
                return False
        elif not subject.startswith(FLOW_PREFIX) or not replies.on_flow(subject):
            return False
        if replies.listeners > 0:
            try:
                found = router.sublist.match_once(subject)
            except LongSearch as search:
                router.search(search, self.fan_out_of(subject, None, frame))
                return True
            if router.sublist.walks.nodes > 0:
                router.count_walks(router.sublist)
            route = Route(subject, found, None, 0, False)
            router.deliver(
                route, self.receiver, subject, frame.reply(), frame.headers(), frame.payload()
            )
        return True

    def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None:
        """SUB: a sid that is in use keeps its first subscription (wire.md, Core protocol)."""
        if not self.ready and not self.admitted():
            self._held.append(("sub", subject, queue, sid, 0, None))
            return
        # The order of the checks is nats-server's, so that clients get the same error of two.
        receiver = self.receiver
        permissions = receiver.permissions
        if is_reserved_queue(queue) or (
            permissions is not None and not permissions.may_subscribe(subject, queue)
        ):
            self.session.on_subscribe_denied(subject, queue)
            self.router.turn.spend(DENIED_UNITS)
            return
        self.router.turn.spend(SUBSCRIBE_UNITS)
        limit = self.subscription_tokens_max
        if limit > 0 and subject.count(b".") >= limit:
            self.session.on_too_many_tokens(subject)
            self.router.turn.spend(DENIED_UNITS)
            return
        if (
            0 < self.subscriptions_max <= len(self.subscriptions)
            or 0 < self.router.subscriptions_max <= self.router.sublist.count
        ):
            receiver.queue(encode_err(b"maximum subscriptions exceeded"))
            return
        if sid not in self.subscriptions:
            if not is_valid_subject(subject):
                receiver.queue(encode_err(b"Invalid Subject"))
                return
            subscription = Subscription(receiver, subject, queue, sid)
            sublist = self.router.sublist
            looks = sublist.looks
            width = sublist.width()
            sublist.insert(subject, queue, subscription)
            units = (sublist.looks - looks) // LOOKS_PER_UNIT
            if len(subject) > LONG_SUBJECT:
                units += len(subject) >> 1
            self.router.turn.spend(units)
            if width < sublist.width() and sublist.width() > WIDTH_MAX:
                # No client may make the searches for the messages of all others longer.
                sublist.remove(subject, queue, subscription)
                receiver.queue(encode_err(b"maximum subscriptions exceeded"))
                self.router.turn.spend(DENIED_UNITS)
                return
            self.subscriptions.set(sid, subscription)
            self.router.consumer_replies.on_subscription(subject, 1)
            self.router.relay.on_sub(subscription)
        if self.verbose:
            receiver.queue(OK)

    def on_unsub(self, sid: bytes, max_msgs: i64) -> None:
        """UNSUB: immediately, or after so many deliveries since SUB; unknown sids are ignored."""
        if not self.ready and not self.admitted():
            self._held.append(("unsub", sid, b"", b"", int(max_msgs), None))
            return
        self.router.turn.spend(SUBSCRIBE_UNITS)
        subscription: Subscription | None = self.subscriptions.get(sid)
        if subscription is not None:
            if subscription.delivered >= max_msgs:
                self.drop(subscription)
            else:
                subscription.end_after(max_msgs, self.drop)
                self.router.relay.on_limit(subscription)
        if self.verbose:
            self.receiver.queue(OK)

    def on_ping(self) -> None:
        """PING is answered after everything the client sent before it."""
        if not self.ready and not self.admitted():
            self._held.append(("ping", b"", b"", b"", 0, None))
            return
        if not self.router.relay.on_ping(self):
            self.answer_ping()

    def answer_ping(self) -> None:
        """PONG, and the first time the client's identity."""
        self.receiver.queue(PONG)
        if not self.session.settled:
            self.session.on_first_ping()

    def on_pong(self) -> None:
        """PONG: the client is alive."""
        self.session.on_pong()

    def on_violation(self, text: bytes, close: bool) -> None:
        """The client violated the protocol."""
        if self.paused or self.session.checking:
            self._held.append(("violation", text, b"", b"", int(close), None))
        elif close:
            self.close(text, VIOLATIONS.get(text, CloseReason.PROTOCOL_VIOLATION))
        elif text:
            self.receiver.queue(encode_err(text))

    # Lifecycle ---------------------------------------------------------------------------------

    def admitted(self) -> bool:
        """Return whether a client that is not ready may still continue."""
        return not self.paused and bool(self.session.admit())

    def set_entered(self, entered: bool) -> None:
        """Set whether the client is authenticated."""
        self._entered = entered
        self.ready = entered and not self.paused

    def pause(self) -> None:
        """Hold operations until ``resume``: the client had its share of this turn."""
        self.paused = True
        self.ready = False

    def resume(self) -> None:
        """Continue in another turn, which may not be the last one either."""
        self.paused = False
        self.holds_back = False
        self.ready = self._entered
        fan_out = self._fan_out
        if fan_out is not None:
            reply = self._frame.reply()
            try:
                self.continue_fan_out(fan_out)
            except Exception as error:  # noqa: BLE001 - one request
                self._fan_out = None
                self.session.on_failure(self._subject, fan_out.target(), reply, error)
        look = self._look
        if look is not None and not self.paused:
            reply = self._frame.reply()
            try:
                self.continue_look(look)
            except Exception as error:  # noqa: BLE001 - one request
                self._look = None
                self.session.on_failure(self._subject, None, reply, error)
        if self._leaving and not self.paused:
            self._leaving = not self.drop_some()
            if self._leaving:
                self.pause()
        self.release()

    def release(self) -> None:
        """Execute held operations in order, until something has to be waited for.

        That is another turn, or a password that is being checked: of the first CONNECT, or of a
        second one among the held operations.
        """
        held = self._held
        self._held = []
        at: i64 = 0
        while at < len(held) and not (self.paused or self.closing or self.session.checking):
            kind, first, second, third, count, frame = held[at]
            at += 1
            if frame is not None:
                self.on_pub(frame)
            elif kind == "sub":
                self.on_sub(first, second, third)
            elif kind == "unsub":
                self.on_unsub(first, count)
            elif kind == "ping":
                self.on_ping()
            elif kind == "violation":
                self.on_violation(first, bool(count))
            else:
                self.on_connect(first)
        self._held.extend(held[at:])

    def close(self, text: bytes, reason: CloseReason) -> None:
        """Close the connection, with ``-ERR`` unless the text is empty."""
        self.stop(reason)
        self.receiver.write_to(None)
        if text:
            self.receiver.queue(encode_err(text))
        else:
            self.receiver.wake()

    def stop(self, reason: CloseReason) -> None:
        """Execute no further operation: the connection closes; its first reason counts."""
        self.parser.close()
        self.closing = True
        if self.close_reason is None:
            self.close_reason = reason

    def drop(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        subscription.close()
        self.subscriptions.pop(subscription.sid)
        sublist = self.router.sublist
        looks = sublist.looks
        removed = sublist.remove(subscription.subject, subscription.queue, subscription)
        units = (sublist.looks - looks) // LOOKS_PER_UNIT
        if len(subscription.subject) > LONG_SUBJECT:
            units += len(subscription.subject) >> 3
        self.router.turn.spend(units)
        if removed:
            self.router.consumer_replies.on_subscription(subscription.subject, -1)
            self.router.relay.on_unsub(subscription)

    def drop_all(self) -> None:
        """Remove all subscriptions: the connection is closed."""
        for subscription in self.subscriptions.values():
            self.drop(subscription)

    def drops_at_once(self) -> bool:
        """Return whether one turn is enough to remove all subscriptions."""
        if len(self.subscriptions) > DROPPED_AT_ONCE:
            return False
        size: i64 = 0
        for subscription in self.subscriptions.values():
            size += len(subscription.subject)
        return size <= DROPPED_BYTES

    def drop_some(self) -> bool:
        """Remove as many subscriptions as fit in one turn; True when none is left."""
        looks = self.router.sublist.looks
        size: i64 = 0
        for subscription in self.subscriptions.some(DROPPED_AT_ONCE):
            self.drop(subscription)
            size += len(subscription.subject)
            if self.router.sublist.looks - looks > LOOKS_AT_ONCE or size > DROPPED_BYTES:
                break
        return len(self.subscriptions) == 0

    def say_no_responders(self, subject: bytes, reply: bytes) -> None:
        """Inform a requester immediately that there is no subscriber.

        That is not a delivery: neither UNSUB with a count nor the traffic counts it.
        """
        receiver = self.receiver
        subscribers = self.router.route_at_once(reply).subscribers
        if len(subscribers) > 1:
            self.router.turn.spend(len(subscribers) >> 4)
        for subscription in subscribers:
            if subscription.receiver is receiver:
                block = status_block(NO_RESPONDERS, b"", b"%b: %b\r\n" % (SUBJECT, subject))
                write_hmsg(receiver.out, reply, subscription.sid, b"", block, b"")
                receiver.wake()
                return


def looks_reserved(data: bytes, start: i64) -> bool:
    """Return whether a subject at ``start`` may be reserved: most are not, by two bytes."""
    first: i64 = data[start]
    if first not in (_DOLLAR, _UNDERSCORE):
        return False
    second: i64 = data[start + 1]
    return second in (_G, _J, _N, _R)
