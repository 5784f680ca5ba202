"""The subscribers of a subject, as the receiver of a run of messages (hot-path.md, Rules)."""

from typing import Final

from mypy_extensions import i64

from jetspark.engine.outbox import Outlet
from jetspark.server.routing.receiver import Subscription
from jetspark.server.routing.route import Route
from jetspark.server.routing.router import Router
from jetspark.subjects.sublist import Match

# A run of messages to one receiver pauses while this much waits for it (hot-path.md,
# Loop and sockets).
OUTLET_FULL: Final[i64] = 256 * 1024

NO_MATCH: Final = Match([], [], [])


class ClientOutlet(Outlet):
    """A subscription as the receiver of a run of messages.

    Once it was closed, all that subscribe to the reply subject are the receivers: a client that
    lost its connection gets the rest of what it asked for after it has reconnected.
    """

    def __init__(self, router: Router, subscription: Subscription, subject: bytes) -> None:
        self._router: Router = router
        self._subscription: Subscription = subscription
        self._subject: bytes = subject
        self._successors: PushOutlet | None = None

    def write(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Send one message."""
        if self._successors is not None:
            self._successors.write(subject, reply, headers, payload)
        else:
            self._router.give(self._subscription, None, subject, reply, headers, payload)

    def write_part(
        self, subject: bytes, reply: bytes, headers: bytes, data: bytes, start: i64, stop: i64
    ) -> None:
        """Send one message whose payload is a part of ``data``."""
        if self._successors is not None:
            self._successors.write_part(subject, reply, headers, data, start, stop)
        else:
            self._router.give_part(self._subscription, subject, reply, headers, data, start, stop)

    def full(self) -> bool:
        """Return whether a lot of output waits for the client."""
        if self._successors is not None:
            return self._successors.full()
        receiver = self._subscription.receiver
        return receiver.paused or receiver.parts_size + len(receiver.out) > OUTLET_FULL

    def gone(self) -> bool:
        """Return whether there is no subscriber any more."""
        if not self._subscription.closed:
            return self._subscription.receiver.overflowed
        if self._successors is None:
            self._successors = PushOutlet(self._router, self._subject, b"", True)
        return self._successors.gone()


class PushOutlet(Outlet):
    """All plain subscribers and one member of each group.

    It exists while there is interest. With ``anybody`` every subscription counts. Without, only
    a subscription to exactly this subject does, plain or in ``group``: a client with a wildcard
    must not make a push consumer deliver (and use up its redeliveries), although it gets copies
    of deliveries to others.
    """

    def __init__(self, router: Router, subject: bytes, group: bytes, anybody: bool) -> None:
        self._router: Router = router
        self._subject: bytes = subject
        self._group: bytes = group
        self._anybody: bool = anybody
        self._generation: i64 = -1
        self._route: Route = Route(subject, NO_MATCH, None, 0, False)
        self._found_plain: list[object] = NO_MATCH.plain
        self._found_groups: list[list[object]] = NO_MATCH.groups
        self._there: bool = False
        self.look()

    def look(self) -> None:
        """Find the subscribers, if subscriptions changed."""
        sublist = self._router.sublist
        if self._generation == sublist.generation:
            return
        self._generation = sublist.generation
        match = sublist.match_at_once(self._subject)
        if sublist.walks.nodes > 0:
            self._router.count_walks(sublist)
        if match.plain is self._found_plain and match.groups is self._found_groups:
            return  # other subscriptions changed
        self._found_plain = match.plain
        self._found_groups = match.groups
        plain: list[object] = []
        groups: list[list[object]] = []
        for value in match.plain:
            assert isinstance(value, Subscription)
            if may_listen(value, self._subject):
                plain.append(value)
        for values in match.groups:
            members: list[object] = []
            for member in values:
                assert isinstance(member, Subscription)
                if may_listen(member, self._subject):
                    members.append(member)
            groups.append(members)
        route = Route(self._subject, Match(plain, groups, match.group_names), None, 0, False)
        self._route = route
        if self._anybody:
            self._there = len(plain) > 0 or any(groups)
        elif not self._group:
            self._there = self._is_exact(route.subscribers)
        elif self._group in match.group_names:
            self._there = self._is_exact(route.groups[match.group_names.index(self._group)])
        else:
            self._there = False

    def _is_exact(self, subscriptions: list[Subscription]) -> bool:
        """Return whether one of them is for exactly this subject."""
        return any(subscription.subject == self._subject for subscription in subscriptions)

    def write(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Send one message."""
        self.look()
        self._router.deliver(self._route, None, subject, reply, headers, payload)

    def write_part(
        self, subject: bytes, reply: bytes, headers: bytes, data: bytes, start: i64, stop: i64
    ) -> None:
        """Send one message whose payload is a part of ``data``, copied if several receive it."""
        self.look()
        route = self._route
        if len(route.subscribers) == 1 and not route.groups and not self._router.fan_outs:
            one = route.subscribers[0]
            self._router.give_part(one, subject, reply, headers, data, start, stop)
        else:
            self.write(subject, reply, headers, data[start:stop])

    def full(self) -> bool:
        """Return whether a lot waits for every subscriber: one that reads keeps the run going.

        A client that cannot keep up with it is a slow consumer, as with any other message.
        """
        self.look()
        router = self._router
        if len(router.fan_outs) > 0 and (self._route.wide or router.is_waiting(self._subject)):
            return self._there
        for subscription in self._route.subscribers:
            if not is_full(subscription):
                return False
        for group in self._route.groups:
            for member in group:
                if not is_full(member):
                    return False
        return self._there

    def gone(self) -> bool:
        """Return whether there is no subscriber any more."""
        self.look()
        return not self._there


def may_listen(subscription: Subscription, subject: bytes) -> bool:
    """Return whether a client may receive what is sent to a subject.

    The messages of a run have subjects of their own, which are checked one by one; this one is
    their destination, such as a client's inbox.
    """
    permissions = subscription.receiver.permissions
    if permissions is None or not permissions.needs_delivery_check:
        return True
    return permissions.may_deliver(subject, subscription.queue)


def is_full(subscription: Subscription) -> bool:
    """Return whether a lot of output waits for a client."""
    receiver = subscription.receiver
    return receiver.paused or receiver.parts_size + len(receiver.out) > OUTLET_FULL


def reply_outlet(router: Router, subject: bytes) -> Outlet | None:
    """Return the receivers of a reply subject; None if there are none.

    Mostly there is one, but a client that subscribes to everything gets the replies of others,
    too.
    """
    route = router.route_at_once(subject)
    if (
        len(route.subscribers) == 1
        and not route.groups
        and may_listen(route.subscribers[0], subject)
        and not router.is_waiting(subject)
    ):
        return ClientOutlet(router, route.subscribers[0], subject)
    return _there(PushOutlet(router, subject, b"", True))


def push_outlet(router: Router, subject: bytes, group: bytes) -> Outlet | None:
    """Return the receivers of a deliver subject; None without interest.

    As in nats-server a queue alone is no interest for a consumer without a deliver group, and a
    wildcard never is.
    """
    return _there(PushOutlet(router, subject, group, False))


def _there(outlet: PushOutlet) -> Outlet | None:
    return None if outlet.gone() else outlet
