"""One message for very many subscriptions, given to some of them in each turn of the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from jetspark.server.routing.receiver import Receiver
from jetspark.server.routing.route import Route, units_of
from jetspark.turn import Turn

if TYPE_CHECKING:
    from jetspark.server.routing.router import Router


class FanOut:
    """A message on its way through the subscriptions that it found when it was published."""

    def __init__(
        self,
        route: Route,
        origin: Receiver | None,
        subject: bytes,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> None:
        self.route: Route = route
        self.delivered: bool = False
        self._origin: Receiver | None = origin
        self._subject: bytes = subject
        self._reply: bytes = reply
        self._headers: bytes = headers
        self._payload: bytes = payload
        self._next: i64 = 0
        self._next_group: i64 = 0

    def step(self, router: Router, turn: Turn) -> bool:
        """Go on while the turn has something left; True when everybody had the message."""
        cost = units_of(len(self._headers) + len(self._payload))
        subscribers = self.route.subscribers
        count: i64 = len(subscribers)
        while self._next < count:
            if turn.left <= 0:
                return False
            turn.left -= cost
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
        groups = self.route.groups
        count = len(groups)
        while self._next_group < count:
            if turn.left <= 0:
                return False
            turn.left -= cost
            group = groups[self._next_group]
            self._next_group += 1
            if router.to_group(
                group, self._origin, self._subject, self._reply, self._headers, self._payload
            ):
                self.delivered = True
        return True
