"""The router: delivers a published message to subscribers, queue groups and the engine.

Routes are resolved once per subject and cached with the sublist's result, which is evicted when it
becomes invalid; the engine's part of a route is valid while its generation is. Inboxes are used
once: those of one client share a route. So do other subjects that were not used before, if the
same pattern matches them, or none: a million subjects without a receiver have one route.

Frames are forwarded as received: after the subject, a PUB and the MSG made from it have the same
bytes (hot-path.md, Rules). Output is collected per receiver and written once per chunk.
"""

from collections.abc import Callable
from typing import Any, Final

from librt.random import Random
from librt.strings import BytesWriter
from mypy_extensions import i64

from jetspark.engine.consumer.acks import Acks
from jetspark.engine.direct.read import DirectReader
from jetspark.engine.outbox import Outbox
from jetspark.engine.target import PUBLISH, Target
from jetspark.frame import Frame
from jetspark.headers.numbers import digits, write_number
from jetspark.protocol.encoder import write_hmsg, write_hmsg_head, write_msg, write_msg_head
from jetspark.server.routing.account_engine import WITHOUT_JETSTREAM, AccountEngine
from jetspark.server.routing.consumer_replies import ConsumerReplies
from jetspark.server.routing.receiver import Receiver, Subscription, Traffic
from jetspark.server.routing.relay import NO_RELAY, Relay
from jetspark.server.routing.route import NARROW_MAX, Route, is_compact, route_of, units_of
from jetspark.subjects.sublist import CACHE_SIZE, LongSearch, Match, Sublist
from jetspark.subjects.tokens import has_empty_token
from jetspark.turn import Turn

# A payload or header block of this size or more is not copied for each receiver.
LARGE_PART: Final = 512 * 1024

# Nodes of a search that cost one unit of a turn: of very many, most are not in the CPU's cache.
NODES_PER_UNIT: Final[i64] = 2
# A search through more nodes is continued in steps: so many take half a millisecond.
NODES_AT_ONCE: Final[i64] = 4_096

# What the server's own messages may cost between two flushes before they are sent in steps.
OWN_UNITS: Final[i64] = 8_192
# This many of them may wait. Then a client with many subscriptions to their subject is
# disconnected: it asked for more than can be written.
WAITING_MAX: Final = 4_096


class FanOut:
    """A message for very many subscriptions, delivered to some of them in each turn of the loop.

    They are those that existed when it was published. Without a route it waits for the search for
    its receivers, which are those that exist then.
    """

    def __init__(
        self,
        to: bytes,
        route: Route | None,
        origin: Receiver | None,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> None:
        # The subject that finds its receivers.
        self.to: bytes = to
        self.route: Route | None = route
        self.delivered: bool = False
        # The searches for its receivers that take several turns; all but the last are complete.
        self._searches: list[LongSearch] = []
        self._origin: Receiver | None = origin
        self._subject: bytes = subject
        self._reply: bytes = reply
        self._headers: bytes = headers
        self._payload: bytes = payload
        self._next: i64 = 0
        self._next_group: i64 = 0

    def step(self, router: "Router", turn: Turn) -> bool:
        """Continue while the turn has budget left; True when all receivers have the message."""
        route = self.route
        if route is None:
            route = self._find_route(router, turn)
            if route is None:
                return False
            self.route = route
        cost = units_of(len(self._headers) + len(self._payload))
        subscribers = route.subscribers
        count: i64 = len(subscribers)
        while self._next < count:
            if turn.left <= 0:
                return False
            turn.take(cost)
            subscription = subscribers[self._next]
            self._next += 1
            if router.give(
                subscription,
                self._origin,
                self._subject,
                self._reply,
                self._headers,
                self._payload,
            ):
                self.delivered = True
        groups = route.groups
        count = len(groups)
        while self._next_group < count:
            if turn.left <= 0:
                return False
            turn.take(cost)
            group = groups[self._next_group]
            self._next_group += 1
            if router.to_group(
                group, self._origin, self._subject, self._reply, self._headers, self._payload
            ):
                self.delivered = True
        return True

    def target(self) -> Target | None:
        """Return what a stream or the server does with it; after the last step."""
        return None if self.route is None else self.route.target

    def wait_for(self, search: LongSearch) -> None:
        """Continue a search that takes several turns before the message is delivered."""
        self._searches.append(search)

    def _find_route(self, router: "Router", turn: Turn) -> Route | None:
        """Search for its receivers while the turn has budget left; None: it continues."""
        while turn.left > 0:
            if self._searches:
                search = self._searches[-1]
                visited = search.step(turn.left * NODES_PER_UNIT)
                turn.take(visited // NODES_PER_UNIT)
                if not search.is_over():
                    return None
                # Of clients and of streams: what changed since an earlier one does not matter.
                for each in self._searches:
                    each.apply()
            try:
                return router.route(self.to)
            except LongSearch as another:
                self.wait_for(another)
        return None


class Resolved:
    """The target of all subjects that only one pattern of a stream matches."""

    def __init__(self, target: Target, generation: i64) -> None:
        self.target: Target = target
        self.generation: i64 = generation


class Router:
    """The subscriptions of one account, and the delivery of messages to them."""

    def __init__(self, turn: Turn | None = None) -> None:
        self.sublist: Sublist = Sublist(CACHE_SIZE, NODES_AT_ONCE)
        # How many subscriptions the account may have; 0: no limit.
        self.subscriptions_max: i64 = 0
        self.outbox: Outbox = Outbox(self)
        self.turn: Turn = turn or Turn()
        # The server's own messages for very many receivers, in order, each partly delivered.
        self.fan_outs: list[FanOut] = []
        self._fanned_out: i64 = 0
        # The route whose receivers were checked when too many of them waited.
        self._checked: Route | None = None
        # How many of them wait, by the subject that they are sent to.
        self._waiting_to: dict[bytes, int] = {}
        self._fanning: bool = False
        self._own_left: i64 = OWN_UNITS
        # The subject of the previous message: if it is the same, it is not hashed again.
        self.last_subject: bytes = b""
        # Answers the common direct gets without the engine.
        self.reader: DirectReader = DirectReader()
        self.traffic: Traffic = Traffic()
        self.generation: i64 = 0
        self.now: i64 = 0
        self.random: Random = Random()
        self.engine: AccountEngine = WITHOUT_JETSTREAM
        self._resolve: Callable[[bytes], Target | None] = WITHOUT_JETSTREAM.resolve
        # The route of subjects that no client and no stream receives.
        self._nowhere: Match | None = None
        # The subjects that streams store; None: the engine must be asked about each subject.
        self._stored: Sublist | None = Sublist(0)
        self.consumer_replies: ConsumerReplies = ConsumerReplies(WITHOUT_JETSTREAM, {}, {}, 0)
        # The relay that forwards what clients do to another server, if any.
        self.relay: Relay = NO_RELAY
        self.relayed: bool = False
        # A stream stores subjects that start with an underscore: then inboxes are no exception.
        self.stores_inboxes: bool = False

    def set_time(self, now: i64) -> None:
        """Let what follows happen at this engine time."""
        self.now = now

    def limit_subscriptions(self, subscriptions_max: i64) -> None:
        """Limit the subscriptions of the account; 0: no limit."""
        self.subscriptions_max = subscriptions_max

    def serve(
        self,
        engine: AccountEngine,
        acks: dict[bytes, Acks],
        watched: dict[bytes, Any],
        stored: Sublist | None = None,
    ) -> None:
        """Set the engine that serves the account.

        ``acks`` are those of its consumers, ``watched`` the deliver subjects that it tracks. With
        ``stored`` it is only asked about subjects that match there, and about those that start
        with ``$``.
        """
        self.engine = engine
        self._resolve = engine.resolve
        self._stored = stored
        self.consumer_replies = ConsumerReplies(
            engine, acks, watched, self.consumer_replies.listeners
        )

    def follow_streams(self, generation: int, *, stores_inboxes: bool) -> None:
        """Invalidate the engine's part of earlier routes: streams were created or deleted."""
        self.generation = generation
        self.stores_inboxes = stores_inboxes

    def forget_routes(self) -> None:
        """Drop what is kept of earlier subjects: they may be those of a large removed stream."""
        self.last_subject = b""
        self.sublist.forget_results()

    def route(self, subject: bytes) -> Route:
        """Find or create the route of a subject. Raises LongSearch if that takes too long."""
        # Subjects that start with an underscore are inboxes: used once, not worth a cache entry.
        if subject.startswith(b"_") and not self.stores_inboxes:
            once = self.sublist.match_once(subject)
            if self.sublist.walks.nodes > 0:
                self.count_walks(self.sublist)
            return self._shared_route(subject, once)
        match = self.sublist.cached(subject)
        if match is None:
            if not self.sublist.is_frequent(subject):
                return self._first_route(subject)
            match = self.sublist.match(subject)
            if self.sublist.walks.nodes > 0:
                self.count_walks(self.sublist)
        found = match.route
        if found is not None:
            assert isinstance(found, Route)
            if found.generation == self.generation:
                return found
            if found.shared:
                # Some of its subjects may have another target by now.
                match = self.sublist.match_unshared(subject)
        target = self._target(subject)
        if is_same_for_all(match, target):
            # A stream with a million subjects has one route, and those of its subjects that are
            # cached have one result.
            shared = self._without_subscribers(target)
            self.sublist.share(subject, shared)
            return route_of(shared)
        made = Route(subject, match, target, self.generation, True)
        match.keep_route(made)
        if made.wide:
            self.turn.spend(made.receivers)
        return made

    def _first_route(self, subject: bytes) -> Route:
        """Find or create the route of a subject that was not used before, and is not cached."""
        match = self.sublist.find(subject)
        if self.sublist.walks.nodes > 0:
            self.count_walks(self.sublist)
        target = self._target(subject)
        if is_same_for_all(match, target):
            return route_of(self._without_subscribers(target))
        if target is None:
            return self._shared_route(subject, match)
        made = Route(subject, match, target, self.generation, False)
        if made.wide:
            self.turn.spend(made.receivers)
        return made

    def _shared_route(self, subject: bytes, match: Match) -> Route:
        """Find or create the route of all subjects without a target that have this result."""
        found = match.route
        if found is not None:
            assert isinstance(found, Route)
            # Messages may wait for later turns, and are found by the subject of their route.
            if not found.wide and len(self.fan_outs) == 0:
                return found
        made = Route(subject, match, None, self.generation, False)
        if made.wide and found is None:
            # The lists of so many subscribers were made for this message.
            self.turn.spend(made.receivers)
        match.keep_route(made)
        return made

    def route_at_once(self, subject: bytes) -> Route:
        """Find or create the route of a subject, however long it takes."""
        while True:
            try:
                return self.route(subject)
            except LongSearch as search:
                while not search.is_over():
                    self.turn.spend(search.step(NODES_AT_ONCE) // NODES_PER_UNIT)
                search.apply()

    def relay_to(self, relay: Relay) -> None:
        """Pass on what clients send to another server from now on."""
        self.relay = relay
        self.relayed = True

    def count_walks(self, sublist: Sublist) -> None:
        """Count long searches as work: of patterns that lead nowhere there may be very many."""
        units = sublist.walks.take_nodes() // NODES_PER_UNIT
        self._own_left -= units
        self.turn.spend(units)

    def _target(self, subject: bytes) -> Target | None:
        """Return the engine's interest in a subject."""
        stored = self._stored
        if stored is None or subject.startswith(b"$"):
            # No pattern matches a subject with an empty token: its requests have no responders.
            return None if has_empty_token(subject) else self._resolve(subject)
        match = stored.find(subject)
        if stored.walks.nodes > 0:
            self.count_walks(stored)
        if len(match.plain) == 0:
            return None
        kept = match.route
        if kept is not None:
            assert isinstance(kept, Resolved)
            if kept.generation == self.generation:
                return kept.target
        target = self._resolve(subject)
        if target is not None:
            match.keep_route(Resolved(target, self.generation))
        return target

    def _without_subscribers(self, target: Target | None) -> Match:
        """Find or create the result of the subjects that only one stream receives, or nothing."""
        found = self._nowhere if target is None else target.shared
        if found is not None:
            assert isinstance(found, Match)
            if route_of(found).generation == self.generation:
                return found
        match = Match([], [], [])
        match.keep_route(Route(b"", match, target, self.generation, True, True))
        if target is None:
            self._nowhere = match
        else:
            target.share(match)
        return match

    # Messages ----------------------------------------------------------------------------------

    def forward(self, route: Route, origin: Receiver, frame: Frame) -> bool:
        """Deliver a client's message to its subscribers; True if one of them got it."""
        size: i64 = frame.pe - frame.hs
        prepared = route.cached
        if (
            (size >= LARGE_PART and (not prepared or frame.ps - frame.hs >= LARGE_PART))
            or len(frame.body) > 0
            or not is_compact(frame)
        ):
            return self._give_all(
                route, origin, frame.subject(), frame.reply(), frame.headers(), frame.payload()
            )
        delivered = False
        subscribers = route.subscribers
        count: i64 = len(subscribers)
        if count > 0:
            rest = frame.data[frame.se + 1 : frame.pe + 2]
            has_headers = frame.ps > frame.hs
            i: i64 = 0
            given: i64 = 0
            heads = route.header_heads if has_headers else route.heads
            while i < count:
                subscription = subscribers[i]
                receiver = subscription.receiver
                if receiver.guarded or (has_headers and not receiver.headers):
                    if self.give(
                        subscription,
                        origin,
                        frame.subject(),
                        frame.reply(),
                        frame.headers(),
                        frame.payload(),
                    ):
                        delivered = True
                elif receiver is not origin or receiver.echo:
                    out = receiver.out
                    if prepared:
                        out.write(heads[i])
                    else:
                        write_head(out, frame.subject(), subscription.sid, has_headers)
                    out.write(rest)
                    if not receiver.listed:
                        receiver.wake()
                    if receiver.parts_size + len(out) > receiver.out_max:
                        receiver.overflow()
                    traffic = receiver.traffic
                    traffic.out_msgs += 1
                    traffic.out_bytes += size
                    given += 1
                    subscription.delivered += 1
                    if subscription.max_msgs > 0:
                        subscription.check_done()
                i += 1
            if given > 0:
                self.traffic.out_msgs += given
                self.traffic.out_bytes += given * size
                delivered = True
        if route.groups and self.to_groups(
            route.groups,
            origin,
            frame.subject(),
            frame.reply(),
            frame.headers(),
            frame.payload(),
        ):
            delivered = True
        return delivered

    def deliver(
        self,
        route: Route,
        origin: Receiver | None,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> bool:
        """Deliver a message to all plain subscribers and to one member of each queue group.

        Very many of them get it in the following turns, after others that wait.
        """
        if route.wide:
            units = route.units(len(headers) + len(payload))
            if self.fan_outs or units > self._own_left:
                self._wait(FanOut(route.subject, route, origin, subject, reply, headers, payload))
                self.turn.spend(units)
                return True
            self._own_left -= units
        elif len(self.fan_outs) > 0 and self.is_waiting(route.subject):
            # Most receivers disconnected since the previous message: it must still not be
            # overtaken.
            self._wait(FanOut(route.subject, route, origin, subject, reply, headers, payload))
            return True
        return self._give_all(route, origin, subject, reply, headers, payload)

    def _give_all(
        self,
        route: Route,
        origin: Receiver | None,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> bool:
        delivered = False
        for subscription in route.subscribers:
            if self.give(subscription, origin, subject, reply, headers, payload):
                delivered = True
        return self.to_groups(route.groups, origin, subject, reply, headers, payload) or delivered

    def to_groups(
        self,
        groups: list[list[Subscription]],
        origin: Receiver | None,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> bool:
        """Deliver a message to one member of each group."""
        delivered = False
        for group in groups:
            if self.to_group(group, origin, subject, reply, headers, payload):
                delivered = True
        return delivered

    def to_group(
        self,
        group: list[Subscription],
        origin: Receiver | None,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> bool:
        """Deliver to one random member of a group; to another one if that is not permitted."""
        size: i64 = len(group)
        start: i64 = self.random.randrange(size) if size > 1 else 0
        tried: i64 = 0
        while tried < size:
            member = group[(start + tried) % size]
            tried += 1
            if self.give(member, origin, subject, reply, headers, payload):
                return True
        return False

    # Very many receivers -----------------------------------------------------------------------

    def _wait(self, fan_out: FanOut) -> None:
        """Deliver a message later, after those that wait already."""
        self.fan_outs.append(fan_out)
        to = fan_out.to
        self._waiting_to[to] = self._waiting_to.get(to, 0) + 1
        if len(self.fan_outs) - self._fanned_out <= WAITING_MAX:
            return
        route = fan_out.route
        if route is None:
            # It waits for its search. Those that wait the longest are for the receivers of the
            # first one.
            route = self.fan_outs[self._fanned_out].route
        if route is None or route is self._checked:
            return
        self._checked = route
        counts: dict[Receiver, int] = {}
        for subscription in route.subscribers:
            receiver = subscription.receiver
            counts[receiver] = counts.get(receiver, 0) + 1
        for receiver, count in counts.items():
            if count > NARROW_MAX:
                receiver.overflow()

    def _must_wait(self, to: bytes) -> bool:
        """Return whether one of the server's own messages is not even routed in this turn.

        Searches for receivers have used up the turn, or a message to the same subject waits.
        """
        if self._own_left > 0 and len(self.fan_outs) == 0:
            return False
        return self._own_left <= 0 or self.is_waiting(to)

    def search(self, search: LongSearch, fan_out: FanOut) -> None:
        """Deliver a message when a search for its receivers is complete."""
        fan_out.wait_for(search)
        self._wait(fan_out)

    def is_waiting(self, to: bytes) -> bool:
        """Return whether a message to a subject waits for its turns."""
        return to in self._waiting_to

    def is_behind(self) -> bool:
        """Return whether so many messages wait that clients must not cause more of them."""
        return len(self.fan_outs) - self._fanned_out > WAITING_MAX

    def adds_to_waiting(self, frame: Frame) -> bool:
        """Return whether what a client sent may cause another message that has to wait.

        Others continue: a client does not wait for messages that have nothing to do with it.
        """
        target = self.route_at_once(frame.subject()).target
        if target is None:
            return False
        if target.kind == PUBLISH or len(self.fan_outs) - self._fanned_out > 2 * WAITING_MAX:
            return True
        return frame.re > frame.rs and self.route_at_once(frame.reply()).wide

    def flushed(self) -> bool:
        """Note that the output is being written; True: call ``fan_out`` until it is done."""
        self._own_left = OWN_UNITS
        if not self.fan_outs or self._fanning:
            return False
        self._fanning = True
        return True

    def fan_out(self) -> bool:
        """Continue messages for very many receivers, for one turn; True while some wait."""
        turn = self.turn
        turn.begin_own()
        at = self._fanned_out
        count: i64 = len(self.fan_outs)
        while at < count and self.fan_outs[at].step(self, turn):
            to = self.fan_outs[at].to
            left = self._waiting_to[to] - 1
            if left:
                self._waiting_to[to] = left
            else:
                del self._waiting_to[to]
            at += 1
        turn.end()
        if at == count:
            self.fan_outs = []
            self._fanned_out = 0
            self._checked = None
            self._fanning = False
            self.engine.resumed()  # runs for these receivers were waiting
            return False
        if at > WAITING_MAX:
            self.fan_outs = self.fan_outs[at:]
            at = 0
        self._fanned_out = at
        return True

    def give(
        self,
        subscription: Subscription,
        origin: Receiver | None,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> bool:
        """Deliver a message to one subscription, if its client may have it."""
        receiver = subscription.receiver
        if (
            subscription.closed
            or receiver.overflowed
            or (receiver is origin and not receiver.echo)
        ):
            return False
        return self.give_to(subscription, subject, reply, headers, payload)

    def give_to(
        self,
        subscription: Subscription,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> bool:
        """Deliver a message to a subscription, ended or not, if its client may have it."""
        if subscription.receiver.permissions is not None and not self._may_have(
            subscription, subject, reply
        ):
            return False
        self.write(subscription, subject, reply, headers, payload)
        return True

    def _may_have(self, subscription: Subscription, subject: bytes, reply: bytes) -> bool:
        """Return whether a client may have a message; it may then answer it."""
        permissions = subscription.receiver.permissions
        if permissions is None:
            return True
        if permissions.needs_delivery_check and not permissions.may_deliver(
            subject, subscription.queue
        ):
            return False
        if reply and permissions.tracks_replies:
            permissions.note_request(reply, self.now)
        return True

    def write(
        self,
        subscription: Subscription,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> None:
        """Queue one message for a subscription whose client may have it."""
        receiver = subscription.receiver
        if len(payload) >= LARGE_PART or len(headers) >= LARGE_PART:
            self._write_large(subscription, subject, reply, headers, payload, 0, len(payload))
        elif len(headers) > 0 and receiver.headers:
            write_hmsg(receiver.out, subject, subscription.sid, reply, headers, payload)
        else:
            write_msg(receiver.out, subject, subscription.sid, reply, payload)
        self._count(subscription, receiver, len(headers) + len(payload))

    def _write_large(
        self,
        subscription: Subscription,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        data: bytes,
        start: i64,
        stop: i64,
    ) -> None:
        """Queue a message without copying its payload and headers, which all receivers share."""
        receiver = subscription.receiver
        size = stop - start
        if headers and receiver.headers:
            write_hmsg_head(receiver.out, subject, subscription.sid, reply, len(headers), size)
            receiver.write_large(headers, 0, len(headers))
        else:
            write_msg_head(receiver.out, subject, subscription.sid, reply, size)
        receiver.write_large(data, start, stop)
        receiver.out.write(b"\r\n")

    def give_part(
        self,
        subscription: Subscription,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        data: bytes,
        start: i64,
        stop: i64,
    ) -> None:
        """Do what ``give`` does, with a large part of ``data`` as the payload, without a copy."""
        receiver = subscription.receiver
        if subscription.closed or receiver.overflowed:
            return
        if not self._may_have(subscription, subject, reply):
            return
        self._write_large(subscription, subject, reply, headers, data, start, stop)
        self._count(subscription, receiver, len(headers) + stop - start)

    def write_part(self, to: bytes, headers: bytes, data: bytes, start: i64, stop: i64, /) -> None:
        """Deliver a large reply, after everything in the outbox; copied if several receive it."""
        self.send_outbox()
        if not self._must_wait(to):
            try:
                route = self.route(to)
            except LongSearch as search:
                message = FanOut(to, None, None, to, b"", headers, data[start:stop])
                self.search(search, message)
                return
            if len(route.subscribers) == 1 and not route.groups:
                self.give_part(route.subscribers[0], to, b"", headers, data, start, stop)
                return
        self.send(to, to, b"", headers, data[start:stop])

    def _count(self, subscription: Subscription, receiver: Receiver, size: i64) -> None:
        """Count one delivery; end the subscription if it was the last one requested."""
        receiver.wake()
        if receiver.parts_size + len(receiver.out) > receiver.out_max:
            receiver.overflow()
        receiver.traffic.out_msgs += 1
        receiver.traffic.out_bytes += size
        self.traffic.out_msgs += 1
        self.traffic.out_bytes += size
        subscription.count()

    # The server's own messages -----------------------------------------------------------------

    def send(
        self, route: bytes, subject: bytes, reply: bytes, headers: bytes, payload: bytes
    ) -> bool:
        """Deliver one of the server's own messages; True if a client got it, or may still."""
        if self._must_wait(route):
            self._wait(FanOut(route, None, None, subject, reply, headers, payload))
            return True
        try:
            found = self.route(route)
        except LongSearch as search:
            self.search(search, FanOut(route, None, None, subject, reply, headers, payload))
            return True
        return self.deliver(found, None, subject, reply, headers, payload)

    def send_outbox(self) -> None:
        """Deliver the engine's outbox."""
        if not self.outbox.now:
            return
        for entry in self.outbox.take():
            self.send(entry[0], entry[1], entry[2], entry[3], entry[4])

    def listens(self, subject: bytes) -> bool:
        """Return whether a client or a stream receives messages of a subject."""
        route = self.route_at_once(subject)
        return not route.is_empty() or route.target is not None

    def write_acks(self, head: bytes, replies: list[bytes], sequences: list[int], /) -> None:
        """Deliver acknowledgements, after everything in the outbox."""
        self.send_outbox()
        i: i64 = 0
        while i < len(replies):
            to = replies[i]
            seq: i64 = sequences[i]
            i += 1
            # The first two tests are those of ``_must_wait``: no call for most acks.
            if (self._own_left <= 0 or len(self.fan_outs) > 0) and self._must_wait(to):
                self._wait(FanOut(to, None, None, to, b"", b"", head + b"%d}" % int(seq)))
                continue
            try:
                route = self.route(to)
            except LongSearch as search:
                ack = head + b"%d}" % int(seq)
                self.search(search, FanOut(to, None, None, to, b"", b"", ack))
                continue
            if len(route.subscribers) != 1 or route.groups:
                self.deliver(route, None, to, b"", b"", head + b"%d}" % int(seq))
                continue
            subscription = route.subscribers[0]
            receiver = subscription.receiver
            if receiver.guarded or subscription.closed:
                self.give(subscription, None, to, b"", b"", head + b"%d}" % int(seq))
                continue
            out = receiver.out
            size = len(head) + digits(seq) + 1
            out.write(b"MSG ")
            out.write(to)
            out.write(b" ")
            out.write(subscription.sid)
            out.write(b" ")
            write_number(out, size)
            out.write(b"\r\n")
            out.write(head)
            write_number(out, seq)
            out.write(b"}\r\n")
            self._count(subscription, receiver, size)


def write_head(out: BytesWriter, subject: bytes, sid: bytes, has_headers: bool) -> None:
    """Write what precedes the rest of a client's message if a route has no heads."""
    out.write(b"HMSG " if has_headers else b"MSG ")
    out.write(subject)
    out.write(b" ")
    out.write(sid)
    out.write(b" ")


def is_same_for_all(match: Match, target: Target | None) -> bool:
    """Return whether nothing in a route depends on the subject: it has no subscriber."""
    if len(match.plain) > 0 or len(match.groups) > 0:
        return False
    return target is None or target.kind == PUBLISH
