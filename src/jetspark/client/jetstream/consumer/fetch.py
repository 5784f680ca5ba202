"""One pull request and its answers: ``Consumer.fetch`` and ``Consumer.next``."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.consumer.endless import STATUS_ROOM, EndlessPull, give_back
from jetspark.client.jetstream.consumer.message import AckLink, JetStreamMessage, is_status
from jetspark.client.jetstream.consumer.pull import PullAnswer, PullStatus, read_pull_status
from jetspark.client.jetstream.consumer.target import ConsumerTarget
from jetspark.client.message import Message
from jetspark.errors import (
    ConnectionClosed,
    ConsumerNotFound,
    Error,
    HeartbeatMissed,
    NoResponders,
    StreamNotFound,
)

# The server reports the end of a request; we wait this much longer than the request lasts. With
# no_wait we do not: nats-server reports no end when max_ack_pending stops the delivery.
ANSWER_GRACE: Final = 1.0
NEW_PAUSE_FIRST: Final = 0.02  # seconds before a request to a new consumer is repeated, doubling
SHORTEST: Final = 0.001  # seconds; consumers refuse shorter requests


class Reader(Protocol):
    """Reads messages of the consumer now."""

    def help(self, messages: list[JetStreamMessage]) -> list[JetStreamMessage]:
        """Take messages that arrived for a fetch; returns those that there is no room for."""


class Fetches:
    """The running fetches of one consumer, and messages that arrived for abandoned ones."""

    def __init__(self) -> None:
        # Oldest first; the keys of a dict, because a set has no order.
        self._running: dict[Fetch, None] = {}
        # Continuous readers of the same handle.
        self._readers: list[EndlessPull] = []
        self._ending: set[asyncio.Task[None]] = set()
        # Messages that arrived for a fetch that had failed, was cancelled or was already full.
        self._kept: list[JetStreamMessage] = []
        self._is_ended = False

    def take_kept(self, batch: int, max_bytes: int) -> list[JetStreamMessage]:
        """Messages that arrived for earlier fetches, as many as one may return."""
        kept = self._kept
        if not kept:
            return kept
        count = fitting(kept, batch, max_bytes)
        given, self._kept = kept[:count], kept[count:]
        return given

    def taken(self, fetch: "Fetch", batch: int) -> list[JetStreamMessage]:
        """Return the messages of a fetch that ended; keep the surplus for the next one."""
        messages = fetch.messages
        if fetch.is_open:
            self._end_late(fetch)
            batch = fetch.fitting
        if len(messages) > batch:
            self._pass_on(messages[batch:])
            return messages[:batch]
        return messages

    def give_up(self, fetch: "Fetch") -> None:
        """A fetch was cancelled or failed: recover its messages in flight before ack_wait."""
        self._running.pop(fetch, None)
        self._pass_on(fetch.messages)
        self._end_late(fetch)

    def _end_late(self, fetch: "Fetch") -> None:
        """End the request of a fetch that has returned, and recover its messages in flight."""
        task = asyncio.get_running_loop().create_task(self._take_late(fetch))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _take_late(self, fetch: "Fetch") -> None:
        self._pass_on(await fetch.late_messages())

    def _pass_on(self, messages: list[JetStreamMessage]) -> None:
        """Hand messages to those that read now, or keep them for the next fetch.

        Not given back to the server: a redelivery counts against max_deliver. Not only kept: they
        count against max_ack_pending, so that a reader could wait for ack_wait.
        """
        readers: tuple[Reader, ...] = (*self._running, *self._readers)
        for reader in readers:
            if messages:
                messages = reader.help(messages)
        if self._is_ended:
            give_back(messages)
        else:
            self._kept.extend(messages)

    def add(self, fetch: "Fetch") -> None:
        """A fetch starts."""
        self._running[fetch] = None

    def discard(self, fetch: "Fetch") -> None:
        """A fetch ended."""
        self._running.pop(fetch, None)

    def add_reader(self, reader: EndlessPull) -> None:
        """A continuous reader starts: it gets the messages of abandoned fetches first."""
        self._readers = [each for each in self._readers if not each.is_stopped]
        self._readers.append(reader)
        kept, self._kept = self._kept, []
        self._kept = reader.help(kept)

    async def end(self, error: Error, seconds: float) -> None:
        """Make them return what they have, or raise ``error``; nothing can be read any more.

        Messages that no fetch returns are redelivered at once.
        """
        self._is_ended = True
        await asyncio.gather(*(fetch.end(error, seconds) for fetch in self._running))
        while self._ending:
            await asyncio.wait(self._ending)
        given, self._kept = self._kept, []
        give_back(given)


def fitting(messages: list[JetStreamMessage], batch: int, max_bytes: int) -> int:
    """How many of these, from the first on, a fetch may return; sizes as the server counts."""
    if not max_bytes:
        return min(batch, len(messages))
    left = max_bytes
    for count, each in enumerate(messages[:batch]):
        left -= len(each.subject) + len(each.reply) + each.size
        if left < 0:
            return count
    return min(batch, len(messages))


class Fetch:
    """Collects the answers to one pull request.

    ``messages`` grows as they arrive, so that an interrupted caller finds those that arrived.
    """

    def __init__(
        self,
        api: ApiClient,
        target: ConsumerTarget,
        link: AckLink,
        batch: int,
        max_bytes: int,
    ) -> None:
        self._core = api.core
        self._target = target
        self._is_routed = api.is_routed
        self._link = link
        self._batch = batch
        self._max_bytes = max_bytes
        self._inbox = api.new_inbox()
        self.messages: list[JetStreamMessage] = []
        self._ended: Error | None = None
        self._over = False  # the server reported the end: nothing is in flight
        # Whether messages may be in flight after ``run`` has returned. From the start if more may
        # arrive than it waits for: it received messages of another fetch, or has sent its request
        # again after a reconnect (the server may serve the first one, too).
        self.is_open: bool = False
        self._is_asked = False  # the request was sent, and not refused
        self._subscription = self._core.add_subscription(
            self._inbox,
            pending_msgs=batch + STATUS_ROOM,
            awaits=self._awaits if self._is_routed else None,
        )

    @property
    def fitting(self) -> int:
        """How many of its messages it may return; of the first, the server has decided."""
        return max(fitting(self.messages, self._batch, self._max_bytes), 1)

    async def end(self, error: Error, seconds: float) -> None:
        """Stop waiting: ``run`` returns what has arrived, or raises ``error``.

        Messages in flight are included, if they arrive within ``seconds``.
        """
        self._ended = error
        with suppress(Error):
            await self._subscription.stop(seconds)
        await self._subscription.unsubscribe()

    def help(self, messages: list[JetStreamMessage]) -> list[JetStreamMessage]:
        """Take messages that came for another fetch; returns those that there is no room for."""
        room = self._batch - len(self.messages) - self._subscription.pending_msgs
        left = self._max_bytes
        if left:
            left -= self._subscription.sink.bytes + sum(
                len(each.subject) + len(each.reply) + each.size for each in self.messages
            )
            if left <= 0:
                return messages
        count = fitting(messages, max(room, 0), left)
        if count:
            self.is_open = True
            self._subscription.hand_over(
                [
                    Message(each.subject, each.data, each.reply, each.header_block)
                    for each in messages[:count]
                ]
            )
        return messages[count:]

    async def run(
        self,
        subject: bytes,
        body: Callable[[int, float], bytes],
        lasts: float,
        grace: float,
        alarm: float,
    ) -> None:
        """Send the request and wait until it ends; raises the error that ended it early.

        ``body`` encodes it for a number of messages and seconds. ``lasts`` is how long the server
        holds it, ``grace`` how much longer we wait for its report of the end, ``alarm`` (0: none)
        how long nothing at all may arrive.
        """
        core, loop = self._core, self._core.loop
        lapse = loop.time() + lasts

        def ask() -> None:
            """Request the missing messages; again after a reconnect."""
            if core.link.connection is None:
                return  # requested once connected
            if self._is_asked:
                self.is_open = True
            self._is_asked = True
            left = max(lapse - loop.time(), SHORTEST)
            missing = self._batch - len(self.messages)
            core.send_message(subject, self._inbox.encode(), b"", body(missing, left))

        try:
            ask()
            core.up_listeners.add(ask)
            pause = NEW_PAUSE_FIRST
            while await self._collect(lapse, grace, alarm):
                await asyncio.sleep(max(min(pause, lapse - loop.time()), 0.0))
                pause *= 2
                ask()
        except BaseException:
            core.up_listeners.discard(ask)
            await self._take_pending()
            raise
        core.up_listeners.discard(ask)
        if not self._over and len(self.messages) < self._batch:
            self.is_open = True
        if self.is_open:
            return  # late_messages ends the request
        await self._subscription.unsubscribe()
        await self._take_pending()

    async def _collect(self, lapse: float, grace: float, alarm: float) -> bool:
        """Take messages until the request ends; True if it should be sent again."""
        try:
            await self._take_all(lapse, grace, alarm)
        except NoResponders as error:
            left = lapse - self._core.loop.time()
            if self.messages or left <= 0 or not await self._is_new(left, error):
                raise
            self._over = self._is_asked = False
            return True
        return False

    async def _is_new(self, left: float, refused: NoResponders) -> bool:
        """Whether our server of a cluster does not know the consumer yet.

        ConsumerNotFound or StreamNotFound if it does not exist.
        """
        try:
            await self._target.refresh(timeout=left)
        except (ConsumerNotFound, StreamNotFound) as gone:
            raise gone from refused
        except ConnectionClosed:
            raise
        except Error:
            return False
        return self._is_routed

    async def _take_all(self, lapse: float, grace: float, alarm: float) -> None:
        core, loop = self._core, self._core.loop
        end = lapse + grace
        while len(self.messages) < self._batch:
            now = loop.time()
            wait = min(end - now, alarm) if alarm else end - now
            try:
                async with asyncio.timeout(wait):
                    arrived = await self._subscription.next_chunk(self._batch)
            except TimeoutError:
                # Shortly before the end the server sends no heartbeats, and none after it.
                if alarm and wait == alarm and not self.messages and loop.time() < lapse:
                    raise HeartbeatMissed(
                        f"{self._target.label}: neither a message nor a heartbeat for {alarm:g} s"
                    ) from None
                return
            if not arrived and not self.messages:
                raise self._ended or core.closed_error()  # drained
            if not arrived or self._take(arrived):
                return

    async def late_messages(self) -> list[JetStreamMessage]:
        """End an abandoned fetch; returns the messages that were in flight."""
        self.messages = []  # those received before were returned, or are kept
        if self.is_open or not self._over:
            with suppress(Error):
                await self._subscription.stop(self._core.options.timeout)
        await self._subscription.unsubscribe()
        await self._take_pending()
        return self.messages

    def _awaits(self) -> bool:
        here = len(self.messages) + self._subscription.pending_msgs
        return not self._over and here < self._batch

    async def _take_pending(self) -> None:
        """Messages that arrived just when time was up or the caller was cancelled."""
        while self._subscription.pending_msgs:
            late = await self._subscription.next_chunk(self._batch)
            with suppress(Error):
                self._take(late)

    def _take(self, arrived: list[Message]) -> bool:
        """Separate messages from statuses; True if the request ended."""
        link = self._link
        failure: Error | None = None
        for message in arrived:
            block = message.header_block
            if block and is_status(message):
                answer = read_pull_status(block)
                self._over = self._over or answer.status is not PullStatus.ALIVE
                failure = failure or self._failure(answer)
                continue
            self.messages.append(
                JetStreamMessage(message.subject, message.data, message.reply, block, link)
            )
        if failure is not None:
            raise failure
        return self._over

    def _failure(self, answer: PullAnswer) -> Error | None:
        """The error for a status (decisions.md, Consumers and subscriptions)."""
        if answer.status is PullStatus.GONE:
            error = NoResponders(self._target.label)
            error.add_note("JetStream is not ready, or the consumer has no leader now")
            return error
        if answer.status is PullStatus.FILLED:
            return None if self.messages else answer.error
        return answer.error
