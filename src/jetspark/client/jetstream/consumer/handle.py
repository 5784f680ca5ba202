"""Handles of pull and push consumers: inspect, change, read."""

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
from jetspark.client.jetstream.consumer.endless import EndlessPull, MessageIterator
from jetspark.client.jetstream.consumer.explain import (
    Explanation,
    Reason,
    explain,
    explain_delivered,
)
from jetspark.client.jetstream.consumer.fetch import ANSWER_GRACE, Fetch, Fetches
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

PREFETCH: Final = 500  # messages that messages() and consume() prefetch, as in nats.go
EXPIRES: Final = 30.0  # seconds that their requests last
HEARTBEAT: Final = 5.0  # seconds between heartbeats of the server
THRESHOLD: Final = 0.5  # of the prefetch: below it more is requested


class Consumer:
    """A handle to one consumer, from ``Stream.consumer`` or ``Stream.create_consumer``."""

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
        # By priority group: the pin id of this client.
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
        """The configuration as of the last ``info`` (or when the handle was created)."""
        return from_wire(ConsumerConfig, self._target.info.config)

    @property
    def cached_info(self) -> ConsumerInfo:
        """The result of the last ``info``, without a request."""
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
        """Fetch up to ``batch`` messages; fewer, or none, if ``timeout`` expires first.

        ``max_bytes`` limits their size, ``no_wait`` returns only messages that are available now.
        With ``heartbeat`` seconds the server sends heartbeats; HeartbeatMissed if they stop.
        ``group`` takes part in a priority group; PinIdMismatch if another client is pinned. Raises
        PullRefused (409), ConsumerDeleted, ConsumerNotFound if the consumer does not exist, and
        NoResponders if JetStream is not ready. Messages that arrive for a fetch that has failed,
        timed out or was cancelled go to another reader of this handle, or to the next one.
        """
        if group is not None:
            instance(group, PullGroup, "group")
        seconds = self._api.seconds(timeout)
        beat = call_seconds(heartbeat, 0.0, "heartbeat")
        check_pull(batch, max_bytes, seconds, beat)
        self._check_pull()
        self._api.core.check_open()
        kept = self._fetches.take_kept(batch, max_bytes)
        if kept:
            return kept
        fetch = Fetch(self._api, self._target, self._link, batch, max_bytes)

        def body(missing: int, left: float) -> bytes:
            return encode_pull(
                missing,
                max_bytes=max_bytes,
                expires=0.0 if no_wait else left,
                no_wait=no_wait,
                heartbeat=beat if beat * 2 <= left and not no_wait else 0.0,
                group=group,
                pin_id=self._pins.get(group.name, "") if group is not None else "",
            )

        self._fetches.add(fetch)
        try:
            await fetch.run(
                self._target.next_subject,
                body,
                seconds,
                0.0 if no_wait else ANSWER_GRACE,
                alarm_seconds(None, beat) if beat and not no_wait else 0.0,
            )
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
        """Fetch the next message; RequestTimeout if none arrives within ``timeout`` seconds."""
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
        """Iterate over messages continuously, with prefetching.

        At most ``prefetch`` messages (or ``max_bytes``, if given) are requested in advance; when
        less than ``threshold`` of that is left, more is requested. Requests last ``expires``
        seconds. If nothing arrives for ``alarm`` seconds (default: three times ``heartbeat``),
        HeartbeatMissed is reported to the error callback, and the request is repeated. The
        iteration raises ConsumerDeleted, ConsumerNotFound or PullRefused if it cannot continue.
        Use it with ``async with``, or call ``close``.
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
        """Call ``callback`` with one message at a time, from a task, until it is closed.

        The callback is a plain or coroutine function; exceptions are reported to the error
        callback. With ``concurrency`` it processes several messages at once; ``ordered_by`` (a
        function of the message, or "subject") keeps messages with the same key in order.
        ``in_progress`` extends the ack deadline, twice in every ``ack_wait``, until the callback
        is done. ``prefetch`` is 500; with ``concurrency`` or ``in_progress`` it is twice the
        concurrency and includes messages being processed, so that the rest remains for other
        clients. Other options as in ``messages``. End it with ``close`` or ``drain`` of the
        result.
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
                f"prefetch={prefetch}: expected at least concurrency={concurrency}, because "
                "messages being processed count"
            )
        if plan.needs_pool and threshold == THRESHOLD:
            # Messages being processed count: below this, half of the workers would be idle.
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
        """Request the status: what was delivered and is pending; may raise ConsumerNotFound."""
        return from_wire(ConsumerInfo, await self._target.refresh(timeout=timeout))

    async def update(
        self, *, timeout: Timeout | None = None, **changes: Unpack[ConsumerOptions]
    ) -> ConsumerInfo:
        """Change the given settings only: ``consumer.update(max_ack_pending=5)``.

        The configuration is read, changed and written. Raises ConsumerNotFound, ApiError for a
        change that is not allowed, and NotSupported if the server ignored a setting that it does
        not support.
        """
        await self._target.update(changes, timeout=timeout)
        return self.cached_info

    async def pause(
        self, until: Moment | timedelta | float, *, timeout: Timeout | None = None
    ) -> PauseState:
        """Pause delivery until a datetime (with time zone), or for a number of seconds."""
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
        """Resume delivery."""
        answer = await self._api.call(
            f"CONSUMER.PAUSE.{self._target.verb}", None, CONSUMER_PAUSE, timeout=timeout
        )
        return from_wire(PauseState, answer)

    async def unpin(self, group: str, *, timeout: Timeout | None = None) -> None:
        """Unpin the client of a priority group (policy pinned client); another is pinned."""
        await self._api.call(
            f"CONSUMER.UNPIN.{self._target.verb}",
            UnpinRequest(group=text(group, "group")),
            CONSUMER_UNPIN,
            timeout=timeout,
        )

    async def reset(self, seq: int = 0, *, timeout: Timeout | None = None) -> int:
        """Redeliver from ``seq`` (0: from the ack floor); returns where it starts.

        Pending acknowledgements are dropped. Requires nats-server 2.15 or jetspark.
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
        """Explain why the message ``seq`` (0: the next one) is not delivered."""
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
        # A replica of a nats-server forwards the request, which its leader does not support; the
        # capabilities that it announces are those of its leader.
        is_vague = found_out.reason in {Reason.ACK_PENDING, Reason.DELIVERED}
        if is_vague and ours is not None and ours.min_last_seq:
            # CONSUMER.INFO does not say which messages are pending; a jetspark server does.
            answer = await self._api.call(
                f"CONSUMER.EXPLAIN.{self._target.verb}",
                ExplainRequest(seq=seq),
                CONSUMER_EXPLAIN,
                timeout=timeout,
            )
            return explain_delivered(answer) or found_out
        return found_out

    async def delete(self, *, timeout: Timeout | None = None) -> None:
        """Delete the consumer; ConsumerNotFound if it does not exist."""
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
                f"{self._target.label} is a push consumer (delivers to {deliver_subject!r}): read "
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
        reader = EndlessPull(
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
        self._fetches.add_reader(reader)
        return reader
