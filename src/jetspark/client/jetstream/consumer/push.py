"""Messages of a push consumer, in chunks: statuses are handled in order with the messages."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from jetspark.client.core import ClientCore
from jetspark.client.jetstream.consumer.ack_subject import delivery_numbers
from jetspark.client.jetstream.consumer.message import AckLink, JetStreamMessage, is_status
from jetspark.client.jetstream.consumer.monitor import StatusMonitor
from jetspark.client.message import Message
from jetspark.client.subscription import SubscriptionCore
from jetspark.errors import (
    AlreadyEnded,
    ConsumerGap,
    Error,
    HeartbeatMissed,
    NotJetStreamMessage,
    RequestTimeout,
)

E = TypeVar("E", bound=Error)


class PushSource:
    """Reads a subscription to a deliver subject.

    ``on_gap`` is called for missing messages, ``on_alarm`` for missed heartbeats; both are
    reported to the error callback if they are None.
    """

    def __init__(
        self,
        core: ClientCore,
        subscription: SubscriptionCore,
        link: AckLink,
        *,
        label: str,
        alarm: float,
        check_gaps: bool,
        next_seq: int = 0,
        on_gap: Callable[[ConsumerGap], None] | None = None,
        on_alarm: Callable[[HeartbeatMissed], None] | None = None,
    ) -> None:
        self._core = core
        self._loop = core.loop
        self._subscription = subscription
        self._link = link
        self.label: Final = label
        self._alarm = alarm
        self._check_gaps = check_gaps
        self._on_gap = on_gap or core.report
        self._on_alarm = on_alarm or core.report
        self._monitor = StatusMonitor(
            alarm_ns=round(alarm * 1e9), check_gaps=check_gaps, next_seq=next_seq, now=self._now()
        )
        self._rest: deque[Message] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._watch()

    @property
    def subscription(self) -> SubscriptionCore:
        """The subscription to the deliver subject."""
        return self._subscription

    @property
    def buffered(self) -> int:
        """Messages (and statuses) received and not yet read."""
        return len(self._rest) + self._subscription.pending_msgs

    def ended_error(self) -> Error:
        """Why there is no next message: the client is draining, or it was stopped."""
        if self._core.is_draining:
            return self._core.closed_error()
        return AlreadyEnded(f"the subscription to {self.label} has ended: no more messages")

    async def next_chunk(self, count: int) -> list[JetStreamMessage]:
        """Wait for messages and return up to ``count``; empty at the end.

        A flow-control request is answered when all messages before it were read.
        """
        while True:
            if not self._rest:
                arrived = await self._subscription.next_chunk(count)
                if not arrived:
                    self.close()
                    return []
                self._rest.extend(arrived)
            taken = self._take(count)
            if taken:
                return taken

    async def stop(self) -> None:
        """Accept nothing new; messages that arrived can still be read."""
        self.close()
        await self._subscription.unsubscribe()

    async def settle(self, seconds: float | None = None) -> None:
        """Accept messages in flight, then nothing new; they can still be read."""
        self.close()
        with contextlib.suppress(RequestTimeout):
            await self._subscription.stop(self._link.timeout if seconds is None else seconds)

    def close(self) -> None:
        """Stop monitoring heartbeats."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._alarm = 0.0

    def _take(self, count: int) -> list[JetStreamMessage]:
        rest, link = self._rest, self._link
        taken: list[JetStreamMessage] = []
        while rest and len(taken) < count:
            message = rest[0]
            block = message.header_block
            if block and is_status(message):
                if taken:
                    # The reader is not here yet: it handles the status when it is.
                    return taken
                rest.popleft()
                self._on_status(message)
                continue
            rest.popleft()
            try:
                numbers = delivery_numbers(message.reply)
            except NotJetStreamMessage as error:
                self._core.report(error)
                continue
            if self._check_gaps:
                gap = self._monitor.on_message(numbers[1])
                if gap is not None:
                    self._on_gap(self._explained(gap))
            taken.append(
                JetStreamMessage(
                    message.subject, message.data, message.reply, block, link, numbers
                )
            )
        return taken

    def _on_status(self, message: Message) -> None:
        effect = self._monitor.on_status(message.header_block, message.reply)
        if effect.answer:
            # ADR-15: an empty message to the subject, whatever its form.
            self._core.send_message(
                effect.answer.encode("utf-8", "surrogateescape"), b"", b"", b""
            )
        if effect.gap is not None:
            self._on_gap(self._explained(effect.gap))
        if effect.error is not None:
            raise self._explained(effect.error)

    def _explained(self, error: E) -> E:
        error.add_note(f"on {self.label}")
        return error

    def _watch(self) -> None:
        if self._alarm:
            look = self._monitor.next_look(self._now())
            assert look is not None
            self._timer = self._loop.call_at(look / 1e9, self._look)

    def _look(self) -> None:
        if self._subscription.is_closed:
            self.close()
            return
        if self._monitor.is_overdue(self._subscription.delivered, self._now()):
            self._on_alarm(
                HeartbeatMissed(
                    f"{self.label}: neither a message nor a heartbeat for {self._alarm:g} s"
                )
            )
        self._watch()

    def _now(self) -> int:
        return round(self._loop.time() * 1e9)
