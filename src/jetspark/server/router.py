"""From a published message to everybody who gets it: subscribers, queue groups, the engine.

Routes are resolved once per subject and kept in a bounded cache (design.md, hot path rule 3). A
route is good while the sublist has not dropped its match and the engine's generation stands.
Output is collected per client and written once per chunk by the driver.
"""

from collections.abc import Callable
from typing import Any, Final

from librt.random import Random
from librt.strings import BytesWriter
from mypy_extensions import i64

from jetspark.engine.outbox import Outbox, Outlet
from jetspark.engine.stream.stream import Stream
from jetspark.engine.target import PUBLISH, Target
from jetspark.headers.names import SUBJECT
from jetspark.headers.status import NO_RESPONDERS, status_block
from jetspark.protocol.encoder import OK, PONG, encode_err, write_hmsg, write_msg
from jetspark.protocol.handshake import ConnectOptions, decode_connect
from jetspark.protocol.parser import ServerOps, ServerParser
from jetspark.subjects.sublist import Match, Sublist
from jetspark.subjects.tokens import is_valid_literal, is_valid_subject

ROUTES_MAX: Final = 65_536
# A run of messages to one receiver pauses while it has this much waiting (speed.md 6).
OUTLET_FULL: Final[i64] = 256 * 1024


class Subscription:
    """One SUB of one client."""

    def __init__(self, client: "ClientHandler", subject: bytes, queue: bytes, sid: bytes) -> None:
        self.client: ClientHandler = client
        self.subject: bytes = subject
        self.queue: bytes = queue
        self.sid: bytes = sid
        self.delivered: i64 = 0
        self.max_msgs: i64 = 0
        self.closed: bool = False


class Route:
    """Who gets messages of one subject."""

    def __init__(self, match: Match, target: Target | None, generation: i64) -> None:
        self.match: Match = match
        self.target: Target | None = target
        self.generation: i64 = generation


class Router:
    """The subscriptions of an account, and the way of each message through them."""

    def __init__(self, outbox: Outbox) -> None:
        self.sublist: Sublist = Sublist()
        self.routes: dict[bytes, Route] = {}
        self.outbox: Outbox = outbox
        self.dirty: list[ClientHandler] = []
        self.generation: i64 = 0
        self.now: i64 = 0
        self.random: Random = Random()
        # Wired by the driver. The engine is not known here by type: it is not on the hot path.
        self.resolve: Callable[[bytes], Target | None] = no_target
        self.request: Callable[[Target, bytes, bytes, bytes], None] = no_request
        self.mark_dirty: Callable[[Stream], None] = no_stream

    def route(self, subject: bytes) -> Route:
        """Find or make the route of a subject."""
        found = self.routes.get(subject)
        if found is not None and not found.match.stale and found.generation == self.generation:
            return found
        if len(self.routes) >= ROUTES_MAX:
            self.routes = {}
        found = Route(self.sublist.match(subject), self.resolve(subject), self.generation)
        self.routes[subject] = found
        return found

    def send(
        self, route: bytes, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> bool:
        """Deliver a message of the server's own; True if somebody got it."""
        return self.deliver(self.route(route).match, None, subject, reply, headers, payload)

    def deliver(
        self,
        match: Match,
        origin: "ClientHandler | None",
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> bool:
        """Give a message to all plain subscribers and to one member of each queue group."""
        delivered = False
        for value in match.plain:
            assert isinstance(value, Subscription)
            client = value.client
            if client is origin and not client.echo:
                continue
            client.write(value, subject, reply, headers, payload)
            delivered = True
        for group in match.groups:
            chosen = group[self.random.randrange(len(group))] if len(group) > 1 else group[0]
            assert isinstance(chosen, Subscription)
            chosen.client.write(chosen, subject, reply, headers, payload)
            delivered = True
        return delivered

    def send_outbox(self) -> None:
        """Deliver what the engine wants sent."""
        entries = self.outbox.now
        if not entries:
            return
        self.outbox.now = []
        for entry in entries:
            self.send(entry[0], entry[1], entry[2], entry[3], entry[4])

    def outlet(self, subject: bytes) -> Outlet | None:
        """The one receiver of a reply subject; None when there is none."""
        match = self.route(subject).match
        for value in match.plain:
            assert isinstance(value, Subscription)
            return ClientOutlet(value)
        for group in match.groups:
            chosen = group[self.random.randrange(len(group))]
            assert isinstance(chosen, Subscription)
            return ClientOutlet(chosen)
        return None

    def take_dirty(self) -> "list[ClientHandler]":
        """The clients that have output, once."""
        dirty = self.dirty
        self.dirty = []
        return dirty


class ClientOutlet(Outlet):
    """A subscription as the receiver of a run of messages."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription: Subscription = subscription

    def write(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Send one message."""
        if not self.subscription.closed:
            self.subscription.client.write(self.subscription, subject, reply, headers, payload)

    def full(self) -> bool:
        """Say whether the client has much output waiting."""
        client = self.subscription.client
        return client.paused or len(client.out) > OUTLET_FULL

    def gone(self) -> bool:
        """Say whether nobody listens any more."""
        return self.subscription.closed


class ClientHandler(ServerOps):
    """One connected client: what it sends comes in here, what it gets is collected here."""

    def __init__(self, router: Router, max_control_line: i64, max_payload: i64) -> None:
        self.router: Router = router
        self.parser: ServerParser = ServerParser(self, max_control_line, max_payload, False)
        self.out: BytesWriter = BytesWriter()
        self.subscriptions: dict[bytes, Subscription] = {}
        self.dirty: bool = False
        # The transport's buffer is full: runs of messages wait, everything else still goes.
        self.paused: bool = False
        self.closing: bool = False
        self.greeted: bool = False
        # What a client is before it said CONNECT (wire-facts.md 3).
        self.options: ConnectOptions = ConnectOptions()
        self.verbose: bool = True
        self.pedantic: bool = True
        self.echo: bool = True
        self.headers: bool = False
        self.no_responders: bool = False
        # Set by the driver: its own object for this connection.
        self.connection: Any = None

    # What the client sends ---------------------------------------------------------------------

    def on_connect(self, body: bytes) -> None:
        """CONNECT: options, again at any time."""
        try:
            options = decode_connect(body, self.options)
        except ValueError:
            self.close(b"")
            return
        if options.no_responders and not options.headers:
            self.close(b"no responders requires headers support")
            return
        self.options = options
        self.verbose = options.verbose
        self.pedantic = options.pedantic
        self.echo = options.echo
        self.headers = options.headers
        self.parser.headers = options.headers
        self.no_responders = options.no_responders
        self.greeted = True
        self.ok()

    def on_pub(
        self, data: bytes, ss: i64, se: i64, rs: i64, re: i64, hs: i64, ps: i64, pe: i64
    ) -> None:
        """PUB or HPUB: to subscribers at once, to a stream when it is durable."""
        router = self.router
        subject = data[ss:se]
        if self.pedantic and not is_valid_literal(subject):
            self.queue(encode_err(b"Invalid Publish Subject"))
            return
        if self.verbose:
            self.queue(OK)
        route = router.route(subject)
        delivered = False
        match = route.match
        if match.plain or match.groups:
            delivered = router.deliver(match, self, subject, data[rs:re], data[hs:ps], data[ps:pe])
        target = route.target
        if target is None:
            if not delivered and re > rs and self.no_responders:
                self.say_no_responders(subject, data[rs:re])
        elif target.kind == PUBLISH:
            stream = target.stream
            assert stream is not None
            staged = stream.publish(data, ss, se, rs, re, hs, ps, pe, router.now, router.outbox)
            if staged and not stream.dirty:
                router.mark_dirty(stream)
        else:
            router.request(target, data[rs:re], data[hs:ps], data[ps:pe])

    def on_sub(self, subject: bytes, queue: bytes, sid: bytes) -> None:
        """SUB: a sid that is in use keeps its first subscription (wire-facts.md 3)."""
        if not is_valid_subject(subject):
            self.queue(encode_err(b"Invalid Subject"))
            return
        if sid not in self.subscriptions:
            subscription = Subscription(self, subject, queue, sid)
            self.subscriptions[sid] = subscription
            self.router.sublist.insert(subject, queue, subscription)
        self.ok()

    def on_unsub(self, sid: bytes, max_msgs: i64) -> None:
        """UNSUB: at once, or after so many deliveries since SUB; an unknown sid is ignored."""
        subscription = self.subscriptions.get(sid)
        if subscription is not None:
            subscription.max_msgs = max_msgs
            if subscription.delivered >= max_msgs:
                self.drop(subscription)
        self.ok()

    def on_ping(self) -> None:
        """PING is answered behind everything the client sent before it."""
        self.queue(PONG)

    def on_pong(self) -> None:
        """PONG needs no answer."""

    def on_violation(self, text: bytes, close: bool) -> None:
        """The client broke the protocol."""
        if close:
            self.close(text)
        elif text:
            self.queue(encode_err(text))

    # What the client gets ----------------------------------------------------------------------

    def write(
        self,
        subscription: Subscription,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> None:
        """Queue one message for one of its subscriptions."""
        if headers and self.headers:
            write_hmsg(self.out, subject, subscription.sid, reply, headers, payload)
        else:
            write_msg(self.out, subject, subscription.sid, reply, payload)
        if not self.dirty:
            self.dirty = True
            self.router.dirty.append(self)
        subscription.delivered += 1
        if subscription.max_msgs > 0 and subscription.delivered >= subscription.max_msgs:
            self.drop(subscription)

    def queue(self, data: bytes) -> None:
        """Queue protocol bytes."""
        self.out.write(data)
        if not self.dirty:
            self.dirty = True
            self.router.dirty.append(self)

    def ok(self) -> None:
        """Say +OK to a verbose client."""
        if self.verbose:
            self.queue(OK)

    def say_no_responders(self, subject: bytes, reply: bytes) -> None:
        """Tell a requester at once that nobody listens."""
        block = status_block(NO_RESPONDERS, b"", b"%b: %b\r\n" % (SUBJECT, subject))
        for value in self.router.route(reply).match.plain:
            assert isinstance(value, Subscription)
            if value.client is self:
                self.write(value, reply, b"", block, b"")
                return

    def take_output(self) -> bytes:
        """What was queued since the last time."""
        data = self.out.getvalue()
        self.out = BytesWriter()
        self.dirty = False
        return data

    def close(self, text: bytes) -> None:
        """End the connection, with ``-ERR`` unless the text is empty."""
        self.parser.closed = True
        self.closing = True
        if text:
            self.queue(encode_err(text))
        elif not self.dirty:
            self.dirty = True
            self.router.dirty.append(self)

    def drop(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        subscription.closed = True
        self.subscriptions.pop(subscription.sid, None)
        self.router.sublist.remove(subscription.subject, subscription.queue, subscription)

    def drop_all(self) -> None:
        """The connection is gone."""
        for subscription in list(self.subscriptions.values()):
            self.drop(subscription)


def no_target(_subject: bytes) -> Target | None:
    """A router without an engine."""
    return None


def no_request(_target: Target, _reply: bytes, _headers: bytes, _body: bytes) -> None:
    """A router without an engine has no targets, so nothing comes here."""


def no_stream(_stream: Stream) -> None:
    """A router without an engine has no streams, so nothing comes here."""
