"""Priority groups: which of the waiting requests gets the next message (wire.md, Consumers).

``overflow`` serves a request only while enough is pending, ``prioritized`` serves the lowest
priority value first, ``pinned_client`` serves one client until it stops asking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.api.advisory import GroupPinned, GroupUnpinned
from jetspark.api.base import ZERO_TIME, Timestamp
from jetspark.api.consumer import PriorityGroupState, PullRequest
from jetspark.api.enums import PriorityPolicy
from jetspark.engine.consumer.statuses import rest
from jetspark.headers.names import PIN_ID
from jetspark.headers.status import (
    BAD_REQUEST,
    BAD_REQUEST_PREFIX,
    LOCKED,
    PIN_ID_MISMATCH_TEXT,
    WRONG_PIN_ID_TEXT,
    status_block,
)
from jetspark.units import bounded

if TYPE_CHECKING:
    from jetspark.engine.consumer.consumer import Consumer
    from jetspark.engine.consumer.delivery import Waiting

PRIORITY_MAX = 9


def group_problem(consumer: Consumer, request: PullRequest, now: int) -> bytes:
    """Return why a request violates the consumer's priority policy, as a status; empty if not."""
    policy = consumer.config.priority_policy
    if (request.min_pending or request.min_ack_pending) and policy != PriorityPolicy.OVERFLOW:
        return _bad(b"Not a Overflow Priority consumer")
    if request.id and policy != PriorityPolicy.PINNED_CLIENT:
        return _bad(b"Not a Pinned Client Priority consumer")
    if not 0 <= request.priority <= PRIORITY_MAX:
        return _bad(b"Priority must be between 0 and 9")
    if policy == PriorityPolicy.NONE or not consumer.config.priority_groups:
        return b""
    if not request.group:
        return _bad(b"Priority Group missing")
    if request.group not in consumer.config.priority_groups:
        return _bad(b"Invalid Priority Group")
    groups = consumer.groups
    if groups.pin and request.id:
        if request.id != groups.pin:
            return status_block(LOCKED, PIN_ID_MISMATCH_TEXT)
        groups.prolong(now)
    return b""


def _bad(text: bytes) -> bytes:
    return status_block(BAD_REQUEST, BAD_REQUEST_PREFIX + text)


class Groups:
    """The order of requests, and the pinned client."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.pin: str = ""
        # The group whose client is pinned: an update may remove it.
        self.pinned_group: str = ""
        self.pinned_ns: int = 0
        self.pinned_until: int = 0

    def configured(self) -> None:
        """Apply a new configuration: a pin ends with its policy or group.

        Otherwise the next client would be reported as pinned, or would wait for no one.
        """
        config = self._consumer.config
        if (
            config.priority_policy != PriorityPolicy.PINNED_CLIENT
            or self.pinned_group not in config.priority_groups
        ):
            self.unpin("admin")

    def admit(self, waiting: Waiting, request: PullRequest) -> None:
        """Insert a request in order."""
        waiting.prefer(
            request.id.encode(), request.priority, request.min_pending, request.min_ack_pending
        )
        self._consumer.delivery.queue_request(waiting, self._place(waiting))

    def _place(self, request: Waiting) -> int:
        """Return where a request belongs in the queue: last, or by its priority."""
        queue = self._consumer.delivery.waiting
        if self._consumer.config.priority_policy == PriorityPolicy.PRIORITIZED:
            return sum(other.priority <= request.priority for other in queue)
        return len(queue)

    def choose(self, size: int, now: int) -> Waiting | None:
        """Return the request that gets the next message, of this size; None if none may."""
        consumer = self._consumer
        policy = consumer.config.priority_policy
        queue = consumer.delivery.waiting
        tried = 0
        while queue and tried < len(queue):
            request = queue[0]
            if request.outlet.gone() or 0 < request.expires <= now:
                consumer.requests.end_expired(request)
                continue
            if request.outlet.full() or (
                policy == PriorityPolicy.OVERFLOW and not self._overflows(request)
            ):
                consumer.delivery.move_back()
                tried += 1
                continue
            if policy == PriorityPolicy.PINNED_CLIENT:
                verdict = self._may_have(request)
                if verdict is None:
                    consumer.delivery.move_back()
                    tried += 1
                    continue
                if not verdict:
                    continue
            if 0 < request.bytes_left < size:
                consumer.requests.end_too_small(request)
                continue
            if policy == PriorityPolicy.PINNED_CLIENT and not self.pin:
                # Only with a message: its header informs the client that it is pinned.
                self._assign(request, now)
            self._move_back(request)
            return request
        return None

    def _move_back(self, request: Waiting) -> None:
        """Move it after the others, but before those with a higher priority value."""
        delivery = self._consumer.delivery
        if request.left > 1 and len(delivery.waiting) > 1:
            delivery.remove_request(request)
            delivery.queue_request(request, self._place(request))

    def _overflows(self, request: Waiting) -> bool:
        """Return whether enough is pending that a request of an overflow group is served."""
        if request.min_pending <= 0 and request.min_ack_pending <= 0:
            return True
        delivery = self._consumer.delivery
        return (0 < request.min_pending <= delivery.state.cursor.left) or (
            0 < request.min_ack_pending <= delivery.state.pending.count
        )

    # The pinned client -------------------------------------------------------------------------

    def _may_have(self, request: Waiting) -> bool | None:
        """True: it is, or may be, pinned; None: it has to wait; False: it must ask again."""
        if request.pin_id == self.pin.encode():
            return True
        if not request.pin_id:
            return None
        self._wrong(request)
        return False

    def _wrong(self, request: Waiting) -> None:
        block = status_block(LOCKED, WRONG_PIN_ID_TEXT, rest(request))
        self._consumer.requests.end(request, block)

    def _assign(self, request: Waiting, now: int) -> None:
        consumer = self._consumer
        self.pin = consumer.services.next_id()
        self.pinned_group = consumer.config.priority_groups[0]
        self.pinned_ns = now
        request.pin(self.pin.encode())
        consumer.delivery.pin(b"%b: %b\r\n" % (PIN_ID, request.pin_id))
        self.prolong(now)
        consumer.services.advise(
            GroupPinned(
                account=consumer.services.account,
                stream=consumer.stream.config.name,
                consumer=consumer.name,
                group=self.pinned_group,
                pinned_id=self.pin,
            )
        )

    def prolong(self, now: int) -> None:
        """Extend the pin: the pinned client has shown that it is alive."""
        self.pinned_until = now + bounded(self._consumer.config.priority_timeout)
        self._consumer.rearm()

    def unpin(self, reason: str) -> None:
        """Remove the pin: ``admin`` or ``timeout``."""
        if not self.pin:
            return
        consumer = self._consumer
        self.pin = ""
        self.pinned_ns = self.pinned_until = 0
        consumer.delivery.pin(b"")
        consumer.services.advise(
            GroupUnpinned(
                account=consumer.services.account,
                stream=consumer.stream.config.name,
                consumer=consumer.name,
                group=self.pinned_group,
                reason=reason,
            )
        )
        consumer.services.run_queue.add(consumer.state)

    def on_time(self, now: int) -> None:
        """Check the timeout of the pinned client."""
        if 0 < self.pinned_until <= now:
            self.unpin("timeout")

    def states(self) -> tuple[PriorityGroupState, ...]:
        """Return the groups as CONSUMER.INFO shows them."""
        groups = self._consumer.config.priority_groups
        if not groups:
            return ()
        wall = self._consumer.services.wall
        pinned = Timestamp(wall.at(self.pinned_ns)) if self.pin else ZERO_TIME
        return (PriorityGroupState(group=groups[0], pinned_client_id=self.pin, pinned_ts=pinned),)
