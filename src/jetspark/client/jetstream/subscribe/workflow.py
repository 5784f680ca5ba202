"""Executes a plan of ADR-15: look up, subscribe, create, lose a race, rebind."""

import asyncio
from typing import Final

import msgspec

from jetspark.api.consumer import CONSUMER_DELETE, ConsumerConfig, ConsumerInfo
from jetspark.api.enums import AckPolicy, ConsumerAction
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.consumer.create import consumer_info, create_consumer
from jetspark.client.jetstream.subscribe.plan import MADE_BY, Bind, Change, Create, Wanted, plan
from jetspark.client.subscription import SubscriptionCore
from jetspark.client.timeouts import Timeout
from jetspark.errors import ConsumerExists, ConsumerNotFound, Error, StreamNotFound

# Seconds after which the last member of a queue checks again whether it is the last: one that has
# just lost its connection is back by then.
SECOND_LOOK: Final = 0.5
# nats-server updates the state of a consumer a little after a member has left: if it reports other
# members, the state is requested again after this many seconds.
LATE_STATE: Final = 0.05


class Attached(msgspec.Struct, frozen=True):
    """A consumer used by a subscription; ``created`` if the library created it for this one.

    ``keep``: it is not deleted.
    """

    info: ConsumerInfo
    created: bool
    subscription: SubscriptionCore | None = None
    keep: bool = False


class Workflow:
    """One call of ``subscribe`` or ``pull_subscribe``; ``wanted`` is settled."""

    def __init__(
        self,
        api: ApiClient,
        stream: str,
        wanted: Wanted,
        *,
        timeout: float,
    ) -> None:
        self._api = api
        self._stream = stream
        self._wanted = msgspec.structs.replace(wanted, stream=stream)
        self._pending_msgs = 0
        self._pending_bytes = 0
        self._timeout = timeout

    async def run(self, pending_msgs: int, pending_bytes: int) -> Attached:
        """Find or create the consumer and, for push, subscribe to its deliver subject."""
        self._pending_msgs, self._pending_bytes = pending_msgs, pending_bytes
        decided = plan(self._wanted, await self._look_up())
        attached = await (self._pull(decided) if self._wanted.pull else self._push(decided))
        return msgspec.structs.replace(attached, keep=self._wanted.keep)

    async def _look_up(self) -> ConsumerInfo | None:
        name = self._wanted.lookup
        if not name:
            return None
        try:
            return await consumer_info(self._api, self._stream, name, timeout=self._timeout)
        except ConsumerNotFound:
            return None
        except StreamNotFound:
            raise
        except Error:
            # ADR-15: a pull subscriber proceeds; it may lack the permission to look up the
            # consumer.
            if self._wanted.pull and self._wanted.consumer:
                return None
            raise

    async def _pull(self, decided: Bind | Change | Create) -> Attached:
        if isinstance(decided, Create):
            try:
                return Attached(await self._create(decided.config), created=True)
            except ConsumerExists:
                decided = await self._plan_again()
        assert isinstance(decided, Bind)
        info = decided.info or ConsumerInfo(
            stream_name=self._stream,
            name=decided.name,
            config=ConsumerConfig(ack_policy=AckPolicy.EXPLICIT),
        )
        return Attached(info, created=False)

    async def _push(self, decided: Bind | Change | Create) -> Attached:
        if isinstance(decided, Bind):
            return self._bind(decided)
        config = decided.config
        if not config.deliver_subject:
            config = msgspec.structs.replace(config, deliver_subject=self._api.new_inbox())
        # ADR-15, "NATS subscription": before the consumer, so that the server sees the interest.
        subscription = self._subscribe(config.deliver_subject, config.deliver_group)
        try:
            if isinstance(decided, Change):
                info = await self._make(config, ConsumerAction.UPDATE)
                return Attached(info, created=False, subscription=subscription)
            info = await self._create(config)
        except ConsumerExists:
            await subscription.unsubscribe()
            if not self._wanted.queue:
                # ADR-15: "unless this is a queue subscription, the API call will return an error".
                raise
            return self._bind(await self._plan_again())
        except BaseException:
            await subscription.unsubscribe()
            raise
        return Attached(info, created=True, subscription=subscription)

    async def _create(self, config: ConsumerConfig) -> ConsumerInfo:
        return await self._make(config, ConsumerAction.CREATE)

    async def _make(self, config: ConsumerConfig, action: ConsumerAction) -> ConsumerInfo:
        return await create_consumer(
            self._api, self._stream, config, action, timeout=self._timeout
        )

    async def _plan_again(self) -> Bind:
        """Another client created it since the lookup: check it as if it had been found."""
        decided = plan(self._wanted, await self._look_up())
        if not isinstance(decided, Bind):
            raise ConsumerNotFound(
                404, 0, f"consumer {self._wanted.lookup!r} was deleted by another client"
            )
        return decided

    def _bind(self, decided: Bind) -> Attached:
        info = decided.info
        assert info is not None  # only a pull subscription binds without a lookup
        subscription = self._subscribe(info.config.deliver_subject, info.config.deliver_group)
        return Attached(info, created=False, subscription=subscription)

    def _subscribe(self, subject: str, queue: str) -> SubscriptionCore:
        return self._api.core.add_subscription(
            subject, queue, pending_msgs=self._pending_msgs, pending_bytes=self._pending_bytes
        )


async def pause(seconds: float) -> None:
    """Wait before checking again."""
    await asyncio.sleep(seconds)


async def delete_created(
    api: ApiClient, attached: Attached, *, timeout: Timeout | None = None
) -> None:
    """Delete the consumer created by the library, unless other queue members still use it."""
    info = attached.info
    group = info.config.deliver_group
    made = attached.created or (bool(group) and MADE_BY in info.config.metadata)
    if attached.keep or not made:
        return
    loop, verb = api.core.loop, f"{info.stream_name}.{info.name}"
    deadline = loop.time() + api.seconds(timeout)

    def left() -> float:
        return max(deadline - loop.time(), 0.0)

    async def is_bound() -> bool:
        now = await consumer_info(api, info.stream_name, info.name, timeout=left())
        return bool(now.push_bound)

    try:
        if group:
            # Other members must not lose it, including those that are reconnecting.
            await api.core.flush(timeout=left())
            if await is_bound():
                await pause(min(LATE_STATE, left() / 2))
                if await is_bound():
                    return
            await pause(min(SECOND_LOOK, left() / 2))
            if await is_bound():
                return
        await api.call(f"CONSUMER.DELETE.{verb}", None, CONSUMER_DELETE, timeout=left())
    except ConsumerNotFound:
        if not group:
            raise
        return  # another member was last, too
    if info.config.durable_name:
        api.core.note_deleted(f"durable consumer {info.name!r} of stream {info.stream_name!r}")
