"""A pull or push consumer on the server: look at it, change it, read it."""

from datetime import datetime, timedelta
from typing import Final, Unpack

from jetspark.api.base import Timestamp
from jetspark.api.consumer import (
    CONSUMER_DELETE,
    CONSUMER_EXPLAIN,
    CONSUMER_PAUSE,
    CONSUMER_RESET,
    CONSUMER_UNPIN,
    ExplainRequest,
    PauseRequest,
    ResetRequest,
    UnpinRequest,
)
from jetspark.api.consumer import ConsumerInfo as WireConsumerInfo
from jetspark.api.enums import AckPolicy
from jetspark.api.message import MsgGetRequest
from jetspark.api.stream import STREAM_INFO, StreamInfoRequest
from jetspark.client.arguments import function, instance, text, whole
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.consumer.consume import (
    CallbackRun,
    Consumption,
    MessageCallback,
    MessageOrder,
    callback_plan,
)
from jetspark.client.jetstream.consumer.create import update_consumer
from jetspark.client.jetstream.consumer.endless import EndlessPull, MessageIterator
from jetspark.client.jetstream.consumer.explain import (
    Explanation,
    Reason,
    explain,
    explain_delivered,
)
from jetspark.client.jetstream.consumer.fetch import Fetch, Fetches
from jetspark.client.jetstream.consumer.message import AckLink, JetStreamMessage
from jetspark.client.jetstream.consumer.monitor import alarm_seconds
from jetspark.client.jetstream.consumer.pull import PullGroup, check_pull, encode_pull
from jetspark.client.jetstream.consumer.target import ConsumerTarget
from jetspark.client.jetstream.direct_get import StreamReader
from jetspark.client.jetstream.timestamps import Moment, to_nanoseconds
from jetspark.client.models.base import from_wire
from jetspark.client.models.consumer import (
    ConsumerConfig,
    ConsumerInfo,
    ConsumerOptions,
    PauseState,
)
from jetspark.client.models.durations import to_wire_ns
from jetspark.client.subscription import HELD_PER_WORKER
from jetspark.client.timeouts import Timeout, call_seconds
from jetspark.clock import SystemClock
from jetspark.errors import MessageNotFound, PinIdMismatch, RequestTimeout, SubscribeRefused
from jetspark.headers.block import find_value
from jetspark.headers.names import PIN_ID

PREFETCH: Final = 500  # messages that messages() and consume() ask for ahead, as nats.go
EXPIRES: Final = 30.0  # seconds that their requests last
HEARTBEAT: Final = 5.0  # seconds between the server's signs of life
THRESHOLD: Final = 0.5  # of the prefetch: below it more is asked for


class Consumer:
    """A handle to one consumer. Made by ``Stream.consumer`` and ``Stream.create_consumer``."""

    def __init__(
        self, api: ApiClient, info: WireConsumerInfo, fetches: Fetches | None = None
    ) -> None:
        self._api = api
        self._target = ConsumerTarget(api, info)
        self._link = AckLink(
            api.core,
            ignored=info.config.ack_policy is AckPolicy.NONE,
            timeout=api.timeout,
        )
        self._fetches = fetches or Fetches()
        # By priority group: the id under which this client is pinned to it.
        self._pins: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The name of the consumer."""
        return self._target.name

    @property
    def stream(self) -> str:
        """The name of its stream."""
        return self._target.stream

    @property
    def config(self) -> ConsumerConfig:
        """The configuration as of the last ``info`` (or when the handle was made)."""
        return from_wire(ConsumerConfig, self._target.info.config)

    @property
    def cached_info(self) -> ConsumerInfo:
        """What the last ``info`` said, without asking again."""
        return from_wire(ConsumerInfo, self._target.info)

    # Reading.

    async def fetch(
        self,
        batch: int = 1,
        *,
        max_bytes: int = 0,
        no_wait: bool = False,
        heartbeat: float | timedelta = 0.0,
        group: PullGroup | None = None,
        timeout: Timeout | None = None,
    ) -> list[JetStreamMessage]:
        """Up to ``batch`` messages; fewer, or none, when ``timeout`` is over first.

        ``max_bytes`` bounds their size, ``no_wait`` takes only what is there now. With
        ``heartbeat`` seconds the server shows signs of life; HeartbeatMissed when it does not.
        ``group`` takes part in a priority group; PinIdMismatch when another client is pinned now.
        Raises PullRefused (409), ConsumerDeleted, ConsumerNotFound when the consumer is gone, and
        NoResponders when JetStream is not ready.
        Messages that had arrived when it failed or was cancelled are what the next call returns.
        """
        if group is not None:
            instance(group, PullGroup, "group")
        seconds = self._api.seconds(timeout)
        beat = call_seconds(heartbeat, 0.0, "heartbeat")
        check_pull(batch, max_bytes, seconds, beat)
        self._check_pull()
        self._api.core.check_open()
        kept = self._fetches.take_kept(batch)
        if kept:
            return kept
        fetch = Fetch(self._api, self._target, self._link, batch)

        def body(missing: int, left: float) -> bytes:
            return encode_pull(
                missing,
                max_bytes=max_bytes,
                expires=0.0 if no_wait else left,
                no_wait=no_wait,
                heartbeat=beat if beat * 2 <= left else 0.0,
                group=group,
                pin_id=self._pins.get(group.name, "") if group is not None else "",
            )

        self._fetches.add(fetch)
        try:
            await fetch.run(self._target.next_subject, body, seconds, alarm_seconds(None, beat))
        except BaseException as error:
            self._fetches.give_up(fetch)
            if group is not None and isinstance(error, PinIdMismatch):
                self._pins.pop(group.name, None)
            raise
        finally:
            self._fetches.discard(fetch)
        if group is not None and fetch.messages:
            pin = find_value(fetch.messages[-1].header_block, PIN_ID)
            if pin is not None:
                self._pins[group.name] = pin.decode()
        return self._fetches.taken(fetch, batch)

    async def next(
        self, *, group: PullGroup | None = None, timeout: Timeout | None = None
    ) -> JetStreamMessage:
        """The next message; RequestTimeout when none comes within ``timeout`` seconds."""
        fetched = await self.fetch(1, group=group, timeout=timeout)
        if not fetched:
            raise RequestTimeout(
                f"{self._target.label}: no message within {self._api.seconds(timeout)} s"
            )
        return fetched[0]

    def messages(
        self,
        *,
        prefetch: int = PREFETCH,
        max_bytes: int = 0,
        threshold: float = THRESHOLD,
        expires: float | timedelta = EXPIRES,
        heartbeat: float | timedelta = HEARTBEAT,
        alarm: float | timedelta | None = None,
        group: PullGroup | None = None,
    ) -> MessageIterator:
        """Iterate over messages without end, the next ones already on their way.

        At most ``prefetch`` messages (or ``max_bytes``, if given) are asked for ahead; when less
        than ``threshold`` of that is left, more is asked for. Requests last ``expires`` seconds.
        Nothing heard for ``alarm`` seconds (default: three times ``heartbeat``) is reported to
        the error callback as HeartbeatMissed, and asked for again. The iteration raises
        ConsumerDeleted, ConsumerNotFound or PullRefused when it cannot go on. Use it with
        ``async with``, or call ``close``.
        """
        return MessageIterator(
            self._endless(
                prefetch, max_bytes, threshold, expires, heartbeat, alarm=alarm, group=group
            )
        )

    def consume(
        self,
        callback: MessageCallback,
        *,
        concurrency: int = 1,
        ordered_by: MessageOrder = None,
        in_progress: bool = False,
        prefetch: int | None = None,
        max_bytes: int = 0,
        threshold: float = THRESHOLD,
        expires: float | timedelta = EXPIRES,
        heartbeat: float | timedelta = HEARTBEAT,
        alarm: float | timedelta | None = None,
        group: PullGroup | None = None,
    ) -> Consumption:
        """Call ``callback`` with one message after the other, from a task, until it is stopped.

        The callback is a plain or a coroutine function; what it raises is reported to the error
        callback. With ``concurrency`` it works on so many messages at a time; ``ordered_by`` (a
        function of the message, or "subject") keeps the order of those for which it gives the
        same. ``in_progress`` asks for more time, twice in every ``ack_wait``, for what the
        callback has not ended with. ``prefetch`` is 500; with ``concurrency`` or ``in_progress``
        twice the concurrency, and counts what is worked on too, so that the rest stays for
        others. Other options as in ``messages``. End it with ``close`` or ``drain`` of the result.
        """
        function(callback, "callback", "a message")
        plan = callback_plan(
            callback, concurrency, ordered_by, in_progress, self._target.info.config
        )
        if prefetch is None:
            prefetch = HELD_PER_WORKER * concurrency if plan.needs_pool else PREFETCH
        whole(prefetch, "prefetch", least=1)
        if plan.needs_pool and prefetch < concurrency:
            raise ValueError(
                f"prefetch={prefetch}: expected at least concurrency={concurrency}, what is "
                "worked on counts"
            )
        if plan.needs_pool and threshold == THRESHOLD:
            # What is worked on counts: below that half of the workers would be idle.
            threshold = 1 - (concurrency // 2) / prefetch
        source = self._endless(
            prefetch,
            max_bytes,
            threshold,
            expires,
            heartbeat,
            alarm=alarm,
            group=group,
            until_done=plan.needs_pool,
        )
        return Consumption(CallbackRun(self._api.core, source, callback, self._target.label, plan))

    # Management.

    async def info(self, *, timeout: Timeout | None = None) -> ConsumerInfo:
        """Ask what the consumer has delivered and what is pending; ConsumerNotFound if gone."""
        return from_wire(ConsumerInfo, await self._target.refresh(timeout=timeout))

    async def update(
        self, *, timeout: Timeout | None = None, **changes: Unpack[ConsumerOptions]
    ) -> ConsumerInfo:
        """Change what is named, and nothing else: ``consumer.update(max_ack_pending=5)``.

        The configuration is read, changed and written. Raises ConsumerNotFound, ApiError for a
        change that is not allowed, and NotSupported when the server left something out that it
        does not know.
        """
        self._target.info = await update_consumer(
            self._api, self.stream, self.name, changes, timeout
        )
        return self.cached_info

    async def pause(
        self, until: Moment | timedelta | float, *, timeout: Timeout | None = None
    ) -> PauseState:
        """Deliver nothing until then (a datetime with a time zone), or for so many seconds."""
        if not isinstance(until, datetime | Timestamp):
            ns = SystemClock().now_ns() + to_wire_ns(until, "until")
            until = Timestamp(ns)
        answer = await self._api.call(
            f"CONSUMER.PAUSE.{self._target.verb}",
            PauseRequest(pause_until=Timestamp(to_nanoseconds(until))),
            CONSUMER_PAUSE,
            timeout=timeout,
        )
        return from_wire(PauseState, answer)

    async def resume(self, *, timeout: Timeout | None = None) -> PauseState:
        """End a pause now."""
        answer = await self._api.call(
            f"CONSUMER.PAUSE.{self._target.verb}", None, CONSUMER_PAUSE, timeout=timeout
        )
        return from_wire(PauseState, answer)

    async def unpin(self, group: str, *, timeout: Timeout | None = None) -> None:
        """Let another client be pinned to a priority group (policy pinned client)."""
        await self._api.call(
            f"CONSUMER.UNPIN.{self._target.verb}",
            UnpinRequest(group=text(group, "group")),
            CONSUMER_UNPIN,
            timeout=timeout,
        )

    async def reset(self, seq: int = 0, *, timeout: Timeout | None = None) -> int:
        """Deliver again from ``seq`` on (0: from the ack floor); returns where it starts.

        What waits for its ack is forgotten. Needs nats-server 2.15 or jetspark.
        """
        whole(seq, "seq")
        answer = await self._api.call(
            f"CONSUMER.RESET.{self._target.verb}",
            ResetRequest(seq=seq),
            CONSUMER_RESET,
            timeout=timeout,
        )
        return answer.reset_seq

    async def explain(self, seq: int = 0, *, timeout: Timeout | None = None) -> Explanation:
        """Why the message ``seq`` (0: the next one) is not delivered, in a word and a sentence."""
        whole(seq, "seq")
        info = await self._target.refresh(timeout=timeout)
        stream = await self._api.call(
            f"STREAM.INFO.{self._target.stream}", StreamInfoRequest(), STREAM_INFO, timeout=timeout
        )
        subject: str | None = None
        if seq:
            reader = StreamReader(self._api, self._target.stream)
            try:
                found = await reader.get_from_leader(
                    MsgGetRequest(seq=seq), self._api.seconds(timeout)
                )
                subject = found.subject
            except MessageNotFound:
                subject = None
        found_out = explain(info, stream.state, seq, subject)
        ours = self._api.core.server_info.jetspark
        # A replica of a nats-server passes the question on, and there nobody answers it; what it
        # says that it can do is what its leader can.
        if found_out.reason is Reason.ACK_PENDING and ours is not None and ours.min_last_seq:
            # CONSUMER.INFO does not say which messages wait; a jetspark server does.
            answer = await self._api.call(
                f"CONSUMER.EXPLAIN.{self._target.verb}",
                ExplainRequest(seq=seq),
                CONSUMER_EXPLAIN,
                timeout=timeout,
            )
            return explain_delivered(answer) or found_out
        return found_out

    async def delete(self, *, timeout: Timeout | None = None) -> None:
        """Delete the consumer; ConsumerNotFound when it is gone already."""
        await self._api.call(
            f"CONSUMER.DELETE.{self._target.verb}", None, CONSUMER_DELETE, timeout=timeout
        )

    def __repr__(self) -> str:
        return f"Consumer({self.name!r}, stream={self.stream!r})"

    # Private parts.

    def _check_pull(self) -> None:
        deliver_subject = self._target.info.config.deliver_subject
        if deliver_subject:
            raise SubscribeRefused(
                f"{self._target.label} is push based (it delivers to {deliver_subject!r}): read "
                "it with js.subscribe, or create a consumer without deliver_subject"
            )

    def _endless(
        self,
        prefetch: int,
        max_bytes: int,
        threshold: float,
        expires: float | timedelta,
        heartbeat: float | timedelta,
        *,
        alarm: float | timedelta | None,
        group: PullGroup | None,
        until_done: bool = False,
    ) -> EndlessPull:
        if group is not None:
            instance(group, PullGroup, "group")
        lasts = call_seconds(expires, EXPIRES, "expires")
        beat = call_seconds(heartbeat, HEARTBEAT, "heartbeat")
        check_pull(prefetch, max_bytes, lasts, beat, counted="prefetch", waits="expires")
        self._check_pull()
        return EndlessPull(
            self._api,
            self._target,
            self._link,
            prefetch=prefetch,
            max_bytes=max_bytes,
            threshold=threshold,
            expires=lasts,
            heartbeat=beat,
            alarm=alarm_seconds(alarm, beat),
            group=group,
            until_done=until_done,
        )
