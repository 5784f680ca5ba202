"""The JetStream context: streams by name, publishing, subscribing, buckets, object stores."""

import os
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Literal, Unpack

from jetspark.api.account import ACCOUNT_INFO, AccountInfo
from jetspark.api.enums import AckPolicy, ConsumerAction
from jetspark.api.message import PubAck
from jetspark.api.stream import (
    STREAM_DELETE,
    STREAM_INFO,
    STREAM_UPDATE,
)
from jetspark.api.stream import StreamInfo as WireStreamInfo
from jetspark.client.arguments import instance, text, whole
from jetspark.client.core import ClientCore
from jetspark.client.header_input import HeaderInput
from jetspark.client.jetstream.api import ApiClient, api_prefix
from jetspark.client.jetstream.backup import BackupProgress, restore_backup
from jetspark.client.jetstream.conflicts import create_stream
from jetspark.client.jetstream.consumer.consume import (
    CallbackPlan,
    MessageCallback,
    MessageOrder,
    callback_plan,
)
from jetspark.client.jetstream.consumer.create import (
    consumer_info,
    create_consumer,
    delete_consumer,
    update_consumer,
)
from jetspark.client.jetstream.consumer.handle import Consumer
from jetspark.client.jetstream.consumer.monitor import alarm_seconds
from jetspark.client.jetstream.direct_get import StreamReader
from jetspark.client.jetstream.high_water import HighWater
from jetspark.client.jetstream.kv.backend import WatchPlan
from jetspark.client.jetstream.kv.bucket import KeyValue
from jetspark.client.jetstream.kv.codec import KeyCodec, ValueCodec
from jetspark.client.jetstream.kv.config import (
    KeyValueConfig,
    KeyValueOptions,
    bucket_config,
    check_bucket,
    from_stream_config,
    stream_name,
)
from jetspark.client.jetstream.kv.entry import BucketStatus
from jetspark.client.jetstream.kv.follow import Follow
from jetspark.client.jetstream.kv.jetstream_backend import JetStreamBackend
from jetspark.client.jetstream.kv.manage import (
    api_level,
    bucket_name_pages,
    bucket_status_pages,
    create_bucket,
    delete_bucket,
    open_bucket,
    update_bucket,
)
from jetspark.client.jetstream.listing import models, stream_name_pages, stream_pages
from jetspark.client.jetstream.local_copy import MEMORY_MAX, LocalCopy
from jetspark.client.jetstream.objects.config import (
    ObjectStoreConfig,
    ObjectStoreOptions,
    object_stream_name,
    store_config,
    to_stream_config,
)
from jetspark.client.jetstream.objects.info import ObjectStoreStatus
from jetspark.client.jetstream.objects.manage import store_name_pages, store_pages, update_store
from jetspark.client.jetstream.objects.source import stream_info
from jetspark.client.jetstream.objects.store import ObjectStore
from jetspark.client.jetstream.publishing.atomic import BATCH_MESSAGES_MAX, AtomicBatch
from jetspark.client.jetstream.publishing.fast import (
    FLOW,
    MAX_OUTSTANDING_ACKS,
    FastPublisher,
)
from jetspark.client.jetstream.publishing.fast_answers import GapCallback, RefusalCallback
from jetspark.client.jetstream.publishing.fast_dialect import Gap
from jetspark.client.jetstream.publishing.publisher import (
    AckFuture,
    Expect,
    PublishWindow,
    publish_acked,
    publish_headers,
)
from jetspark.client.jetstream.replica import StreamReplica
from jetspark.client.jetstream.scan import check_filter, check_filters
from jetspark.client.jetstream.schema_registry import SchemaRegistry
from jetspark.client.jetstream.streams import Stream, delete_stream, update_stream
from jetspark.client.jetstream.subscribe.plan import Wanted, new_config, settle
from jetspark.client.jetstream.subscribe.pull_subscription import PullSubscription
from jetspark.client.jetstream.subscribe.push_subscription import PushSubscription
from jetspark.client.jetstream.subscribe.workflow import Attached, Workflow
from jetspark.client.models.base import to_wire
from jetspark.client.models.consumer import (
    ConsumerConfig,
    ConsumerOptions,
    consumer_config,
    given_ack_policy,
    without_default_acks,
)
from jetspark.client.models.stream import StreamConfig, StreamInfo, StreamOptions, stream_config
from jetspark.client.opening import opens
from jetspark.client.pager import Pager
from jetspark.client.subscription import PENDING_BYTES_MAX, PENDING_MSGS_MAX
from jetspark.client.timeouts import Timeout, TimeToLive
from jetspark.errors import (
    AmbiguousSubject,
    BadName,
    BucketExists,
    BucketNotFound,
    StreamExists,
    StreamNotFound,
    SubscribeRefused,
)
from jetspark.errors.codes import ErrCode
from jetspark.subjects.tokens import stream_name_problem


class JetStream:
    """Streams, buckets and object stores of one account or domain, from ``Client.jetstream``."""

    def __init__(
        self,
        core: ClientCore,
        *,
        domain: str,
        prefix: str,
        timeout: float,
        read_after_write: bool,
        publish_async_max: int,
        publish_retries: int,
    ) -> None:
        self._core = core
        self._high_water = HighWater(enabled=read_after_write)
        self._api = ApiClient(
            core, api_prefix(domain, prefix), timeout, publish_retries, self._high_water
        )
        self._window = PublishWindow(
            self._api, publish_async_max, self._note_ack if read_after_write else None
        )

    # Streams.

    async def create_stream(
        self,
        config: StreamConfig | str,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[StreamOptions],
    ) -> Stream:
        """Create a stream: a name with `StreamOptions`, or a `StreamConfig`.

        ``create_stream("ORDERS", subjects=["orders.>"], max_age=3600)``. The same configuration
        again is no error. Raises StreamExists if the name is taken with another configuration,
        SubjectsOverlap if another stream has one of its subjects, ApiError for a refused
        configuration.
        """
        struct = stream_config(config, options)
        check_name(struct.name)
        info = await create_stream(self._api, struct, timeout)
        return Stream(self._api, info, self._high_water)

    async def update_stream(
        self,
        config: StreamConfig | str,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[StreamOptions],
    ) -> Stream:
        """Change a stream: given a name, only the given options, as ``Stream.update``.

        A `StreamConfig` is the whole new configuration: omitted settings get their default. Raises
        StreamNotFound, ApiError for a change that is not allowed, and NotSupported if the server
        ignored one of the options.
        """
        if isinstance(config, str):
            changed = await update_stream(self._api, check_name(config), options, timeout)
            return Stream(self._api, changed, self._high_water)
        struct = stream_config(config, options)
        name = check_name(struct.name)
        info = await self._api.call(
            f"STREAM.UPDATE.{name}", struct, STREAM_UPDATE, timeout=timeout
        )
        return Stream(self._api, info, self._high_water)

    async def create_or_update_stream(
        self,
        config: StreamConfig | str,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[StreamOptions],
    ) -> Stream:
        """Update the stream like ``update_stream``, or create it if it does not exist."""
        try:
            return await self.update_stream(config, timeout=timeout, **options)
        except StreamNotFound:
            return await self.create_stream(config, timeout=timeout, **options)

    async def stream(self, name: str, *, timeout: Timeout | None = None) -> Stream:
        """Get a handle to an existing stream; StreamNotFound if it does not exist."""
        verb = f"STREAM.INFO.{check_name(name)}"
        info = await self._api.call(verb, None, STREAM_INFO, timeout=timeout)
        return Stream(self._api, info, self._high_water)

    async def delete_stream(self, name: str, *, timeout: Timeout | None = None) -> None:
        """Delete a stream and its messages; StreamNotFound if it does not exist."""
        await delete_stream(self._api, check_name(name), self._high_water, timeout)

    def streams(self, *, subject: str = "", timeout: Timeout | None = None) -> Pager[StreamInfo]:
        """Iterate over all streams, or those whose subjects overlap ``subject``."""
        return Pager(models(StreamInfo, stream_pages(self._api, subject, timeout)))

    def stream_names(self, *, subject: str = "", timeout: Timeout | None = None) -> Pager[str]:
        """Iterate over the names of all streams, or of those that overlap ``subject``."""
        return Pager(stream_name_pages(self._api, subject, timeout))

    async def stream_name_by_subject(self, subject: str, *, timeout: Timeout | None = None) -> str:
        """Find the one stream that stores ``subject`` (ADR-15).

        Raises StreamNotFound if there is none, and AmbiguousSubject if there are several.
        """
        check_filter(subject)
        names = [name async for name in self.stream_names(subject=subject, timeout=timeout)]
        if not names:
            raise StreamNotFound(
                404, ErrCode.STREAM_NOT_FOUND, f"no stream stores the subject {subject!r}"
            )
        if len(names) > 1:
            raise AmbiguousSubject(subject, tuple(names))
        return names[0]

    async def restore_stream(
        self,
        folder: str | os.PathLike[str],
        *,
        config: StreamConfig | None = None,
        progress: BackupProgress | None = None,
        timeout: Timeout | None = None,
    ) -> Stream:
        """Create a stream from a backup of ``Stream.backup`` or the nats CLI.

        ``config`` replaces the configuration of the backup, including its name (``read_backup``
        returns that as a starting point). ``progress`` is called with the bytes sent so far.
        Raises StreamExists if the name is taken, BackupFailed if the folder has no complete
        backup, ApiError if the server cannot read the archive: archives of nats-server can be
        restored to nats-server only, ours to ours.
        """
        wanted = to_wire(instance(config, StreamConfig, "config")) if config is not None else None
        info = await restore_backup(self._api, folder, wanted, progress, timeout)
        return Stream(self._api, info, self._high_water)

    async def account_info(self, *, timeout: Timeout | None = None) -> AccountInfo:
        """Usage and limits of this account, and the API level of the server."""
        return await self._api.call("INFO", None, ACCOUNT_INFO, timeout=timeout)

    # Consumers, without a handle of their stream.

    async def create_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> Consumer:
        """Create a consumer of a stream: `ConsumerOptions`, or a `ConsumerConfig`.

        ``create_consumer("ORDERS", durable="w", ack_wait=30)``; as ``Stream.create_consumer``.
        """
        return await self._write_consumer(
            stream, consumer_config(config, options), ConsumerAction.CREATE, timeout
        )

    async def update_consumer(
        self,
        stream: str,
        config: ConsumerConfig | str,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> Consumer:
        """Change a consumer of a stream, like ``Stream.update_consumer``."""
        if isinstance(config, str):
            name = check_name(stream)
            return Consumer(
                self._api, await update_consumer(self._api, name, config, options, timeout)
            )
        return await self._write_consumer(
            stream, consumer_config(config, options), ConsumerAction.UPDATE, timeout
        )

    async def create_or_update_consumer(
        self,
        stream: str,
        config: ConsumerConfig | None = None,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> Consumer:
        """Create a consumer, or change the one of that name to this configuration."""
        return await self._write_consumer(
            stream, consumer_config(config, options), ConsumerAction.CREATE_OR_UPDATE, timeout
        )

    async def delete_consumer(
        self, stream: str, name: str, *, timeout: Timeout | None = None
    ) -> None:
        """Delete a consumer of a stream; ConsumerNotFound if it does not exist."""
        await delete_consumer(self._api, check_name(stream), name, timeout)

    async def consumer(
        self, stream: str, name: str, *, timeout: Timeout | None = None
    ) -> Consumer:
        """Get a handle to an existing consumer; ConsumerNotFound if it does not exist."""
        found = await consumer_info(self._api, check_name(stream), name, timeout=timeout)
        return Consumer(self._api, found)

    # Publishing.

    async def publish(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeaderInput = None,
        msg_id: str = "",
        expect: Expect | None = None,
        ttl: TimeToLive | None = None,
        timeout: Timeout | None = None,
    ) -> PubAck:
        """Publish and wait for the acknowledgement: the stream and the sequence of the message.

        A message with a ``msg_id`` that the stream has stored within its duplicate window is not
        stored again (``ack.duplicate``). ``expect`` sets conditions, ``ttl`` (seconds, or
        ``"never"``) requires a stream with ``allow_msg_ttl``. Raises NoResponders if no stream
        stores the subject (after ``publish_retries``), WrongLastSequence and similar errors if
        ``expect`` does not hold, ApiError for any other refusal, RequestTimeout if no
        acknowledgement arrives: then it may or may not be stored.
        """
        block = publish_headers(headers, msg_id, expect, ttl)
        ack = await publish_acked(self._api, subject, block, data, self._api.seconds(timeout))
        self._high_water.note(ack.stream, ack.seq)
        return ack

    async def publish_async(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: HeaderInput = None,
        msg_id: str = "",
        expect: Expect | None = None,
        ttl: TimeToLive | None = None,
        timeout: Timeout | None = None,
    ) -> AckFuture:
        """Publish without waiting; returns an awaitable acknowledgement.

        Waits only while ``publish_async_max`` acknowledgements are outstanding (backpressure). If
        you do not await them, ``publish_async_complete`` raises the first failure among them.
        """
        block = publish_headers(headers, msg_id, expect, ttl)
        seconds = self._api.seconds(timeout)
        return AckFuture(await self._window.publish(subject, block, data, seconds))

    @property
    def publish_async_pending(self) -> int:
        """Publishes of ``publish_async`` without an acknowledgement yet."""
        return self._window.pending

    async def publish_async_complete(self, *, timeout: Timeout | None = None) -> None:
        """Wait for the acknowledgements of all ``publish_async`` so far.

        Raises the first failure since the last call that was not awaited, and RequestTimeout if
        acknowledgements are missing after ``timeout`` seconds.
        """
        await self._window.complete(self._api.seconds(timeout))

    def atomic_batch(
        self,
        *,
        max_messages: int = BATCH_MESSAGES_MAX,
        eob: bool = False,
        timeout: Timeout | None = None,
    ) -> AtomicBatch:
        """A batch of messages stored together or not at all (ADR-50); use ``async with``.

        The stream requires ``allow_atomic``. ``max_messages`` is the server's limit; with ``eob``
        a separate message, which is not stored, commits the batch.
        """
        return AtomicBatch(self._api, max_messages=max_messages, eob=eob, timeout=timeout)

    def fast_publisher(
        self,
        *,
        flow: int = FLOW,
        flow_bytes: int = 0,
        max_outstanding_acks: int = MAX_OUTSTANDING_ACKS,
        gap: Gap = "fail",
        on_gap: GapCallback | None = None,
        on_refused: RefusalCallback | None = None,
        dialect: Literal["reply", "headers"] = "reply",
        ack_timeout: Timeout | None = None,
    ) -> FastPublisher:
        """Publish many messages quickly, with an ack for every ``flow`` of them (ADR-50).

        The stream requires ``allow_batched``. At most ``max_outstanding_acks`` acks may be
        outstanding; after ``ack_timeout`` seconds without an ack the server is asked for one, then
        RequestTimeout is raised. With ``gap`` "fail" a lost or refused message ends the batch;
        with "ok" it continues, and ``on_gap`` (expected and received sequence) and ``on_refused``
        are called. ``dialect`` "headers" is the dialect of the ADR, which only jetspark servers
        support, and which can count bytes.
        """
        return FastPublisher(
            self._api,
            flow=flow,
            flow_bytes=flow_bytes,
            max_outstanding_acks=max_outstanding_acks,
            gap=gap,
            on_gap=on_gap,
            on_refused=on_refused,
            dialect=dialect,
            ack_timeout=self._api.seconds(ack_timeout),
        )

    @opens
    async def replica(
        self,
        stream: str,
        *,
        subjects: Sequence[str] = (">",),
        max_bytes: int = MEMORY_MAX,
        timeout: Timeout | None = None,
    ) -> StreamReplica:
        """Keep the newest message of every subject of a stream in memory, updated.

        Returns when it is complete; ``timeout`` limits the wait for each part. Above ``max_bytes``
        it stops: reading then raises BufferFull. For buckets: ``KeyValue.replica``.
        """
        whole(max_bytes, "max_bytes", least=1)
        filters = check_filters(subjects, "subjects") or (">",)
        plan = WatchPlan(filters=filters, plain=True, same_stream=True)
        found = await self.stream(stream, timeout=timeout)
        reader = StreamReader(self._api, found.name)
        follow = Follow(reader, "", plan, 0, self._high_water)
        info = to_wire(found.cached_info)
        copy = LocalCopy(
            follow,
            f"stream {stream!r}",
            filters=plan.filters,
            max_bytes=max_bytes,
            ttl_ns=info.config.max_age,
            server_time_ns=info.ts,
        )
        await copy.start(self._api.seconds(timeout))
        return StreamReplica(reader, copy)

    # Subscribing: the workflow of ADR-15.

    @opens
    async def subscribe(
        self,
        subject: str = "",
        *,
        callback: MessageCallback | None = None,
        concurrency: int = 1,
        ordered_by: MessageOrder = None,
        in_progress: bool = False,
        queue: str = "",
        durable: str = "",
        stream: str = "",
        consumer: str = "",
        config: ConsumerConfig | None = None,
        ack_policy: AckPolicy | Literal["none", "all", "explicit"] | None = None,
        keep: bool = False,
        alarm: float | timedelta | None = None,
        pending_msgs: int = PENDING_MSGS_MAX,
        pending_bytes: int = PENDING_BYTES_MAX,
        timeout: Timeout | None = None,
    ) -> PushSubscription:
        """Receive the messages of a push consumer, which is found or created (ADR-15).

        The stream is the one that stores ``subject``, unless ``stream`` names it. ``consumer``
        binds to an existing consumer; ``durable`` names one to find or create; without both, a
        temporary one is created. Members of a ``queue`` share one consumer, named after the queue
        unless ``durable`` or ``consumer`` is given. ``config`` has further settings for a new
        consumer and must match an existing one. ``ack_policy`` is explicit by default. After
        ``alarm`` seconds (default: three times ``config.idle_heartbeat``) without a message or
        heartbeat the error callback is called. ``concurrency``, ``ordered_by`` and ``in_progress``
        are as in ``Consumer.consume``; the server sends ahead up to ``config.max_ack_pending``. A
        consumer created here, including a durable one, is deleted by ``unsubscribe`` and ``drain``
        unless ``keep`` is true; the consumer of a queue by the last member. Raises
        SubscribeRefused if arguments and consumer do not match, with what to change,
        StreamNotFound, AmbiguousSubject, ConsumerNotFound, ConsumerExists.
        """
        settings = consumer_config(config, {})
        asked = None if alarm is None else alarm_seconds(alarm, settings.idle_heartbeat)
        wanted = settle(
            Wanted(
                subject=subject,
                stream=stream,
                consumer=consumer,
                durable=durable,
                queue=queue,
                ack_policy=_chosen_acks(ack_policy, settings),
                config=without_default_acks(settings),
                keep=keep,
            )
        )
        calls = partial(callback_plan, callback, concurrency, ordered_by, in_progress)
        calls(new_config(wanted))  # checks it
        attached = await self._attach(wanted, pending_msgs, pending_bytes, timeout)
        try:
            plan = calls(attached.info.config)
        except SubscribeRefused:
            await PushSubscription(self._api, attached, None, asked, CallbackPlan()).unsubscribe()
            raise
        return PushSubscription(self._api, attached, callback, asked, plan)

    @opens
    async def pull_subscribe(
        self,
        subject: str = "",
        *,
        durable: str = "",
        stream: str = "",
        consumer: str = "",
        config: ConsumerConfig | None = None,
        ack_policy: AckPolicy | Literal["none", "all", "explicit"] | None = None,
        keep: bool = False,
        timeout: Timeout | None = None,
    ) -> PullSubscription:
        """Use a pull consumer, which is found or created (ADR-15); arguments as in ``subscribe``.

        ``consumer`` need not be visible: binding to one that cannot be looked up raises no error
        before the first ``fetch``. The ack policy must be explicit.
        """
        settings = consumer_config(config, {})
        wanted = settle(
            Wanted(
                subject=subject,
                stream=stream,
                consumer=consumer,
                durable=durable,
                pull=True,
                ack_policy=_chosen_acks(ack_policy, settings),
                config=without_default_acks(settings),
                keep=keep,
            )
        )
        attached = await self._attach(wanted, PENDING_MSGS_MAX, PENDING_BYTES_MAX, timeout)
        return PullSubscription(self._api, attached)

    # Buckets.

    @opens
    async def create_key_value(
        self,
        config: KeyValueConfig | str,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[KeyValueOptions],
    ) -> KeyValue:
        """Create a bucket: a name with `KeyValueOptions`, or a `KeyValueConfig`.

        ``create_key_value("settings", history=5)``. Raises BucketExists if the name is taken with
        another configuration.
        """
        settings = bucket_config(config, options)
        return self._bucket(await create_bucket(self._api, settings, timeout))

    @opens
    async def update_key_value(
        self,
        config: KeyValueConfig | str,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[KeyValueOptions],
    ) -> KeyValue:
        """Change a bucket: given a name, only the given options.

        A `KeyValueConfig` is the whole new configuration: omitted settings get their default.
        Raises BucketNotFound if it does not exist.
        """
        if isinstance(config, str):
            found = await open_bucket(self._api, config, timeout)
            config = from_stream_config(found.config)
        settings = bucket_config(config, options)
        return self._bucket(await update_bucket(self._api, settings, timeout))

    @opens
    async def create_or_update_key_value(
        self,
        config: KeyValueConfig | str,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[KeyValueOptions],
    ) -> KeyValue:
        """Change a bucket like ``update_key_value``, or create it if it does not exist."""
        try:
            return await self.update_key_value(config, timeout=timeout, **options)
        except BucketNotFound:
            return await self.create_key_value(config, timeout=timeout, **options)

    @opens
    async def key_value(
        self,
        bucket: str,
        *,
        read_only: bool = False,
        read_after_write: bool = False,
        key_codec: KeyCodec | None = None,
        value_codec: ValueCodec | None = None,
        timeout: Timeout | None = None,
    ) -> KeyValue:
        """Get a handle to an existing bucket; BucketNotFound if it does not exist.

        With ``read_after_write``, reads see at least what the handle wrote and read before
        (ADR-53).
        """
        return self._bucket(
            await open_bucket(self._api, bucket, timeout),
            read_only=read_only,
            read_after_write=read_after_write,
            key_codec=key_codec,
            value_codec=value_codec,
        )

    async def delete_key_value(self, bucket: str, *, timeout: Timeout | None = None) -> None:
        """Delete a bucket and its contents; BucketNotFound if it does not exist."""
        await delete_bucket(self._api, bucket, timeout)
        self._high_water.forget(stream_name(bucket))

    def key_values(self, *, timeout: Timeout | None = None) -> Pager[BucketStatus]:
        """Iterate over all buckets, with counts and configuration."""
        return Pager(bucket_status_pages(self._api, timeout))

    def key_value_names(self, *, timeout: Timeout | None = None) -> Pager[str]:
        """Iterate over the names of all buckets."""
        return Pager(bucket_name_pages(self._api, timeout))

    # Schema registries.

    @opens
    async def create_schema_registry(
        self,
        config: KeyValueConfig | str,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[KeyValueOptions],
    ) -> SchemaRegistry:
        """Create the bucket of a schema registry: a name with `KeyValueOptions`, or a config.

        ``create_schema_registry("SCHEMAS", replicas=3)``; as ``create_key_value``. The same
        configuration again is no error. ``delete_key_value`` deletes it.
        """
        return SchemaRegistry(await self.create_key_value(config, timeout=timeout, **options))

    @opens
    async def schema_registry(
        self, bucket: str, *, timeout: Timeout | None = None
    ) -> SchemaRegistry:
        """Get a handle to an existing schema registry; BucketNotFound if it does not exist."""
        return SchemaRegistry(await self.key_value(bucket, timeout=timeout))

    # Object stores.

    async def create_object_store(
        self,
        config: ObjectStoreConfig | str,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[ObjectStoreOptions],
    ) -> ObjectStore:
        """Create an object store: a name with `ObjectStoreOptions`, or an `ObjectStoreConfig`.

        Raises BucketExists if the name is taken with other settings.
        """
        settings = store_config(config, options)
        stream = to_stream_config(settings, await api_level(self._api, timeout))
        try:
            info = await create_stream(self._api, stream, timeout)
        except StreamExists as error:
            raise BucketExists(settings.bucket, error.detail) from None
        return ObjectStore(self._api, info, self._high_water)

    async def object_store(
        self, bucket: str, *, read_after_write: bool = False, timeout: Timeout | None = None
    ) -> ObjectStore:
        """Get a handle to an existing object store; BucketNotFound if it does not exist.

        With ``read_after_write``, reads see at least what the handle wrote and read before
        (ADR-53).
        """
        info = await stream_info(self._api, check_bucket(bucket), timeout)
        shared = self._high_water
        high_water = shared if shared.enabled else HighWater(enabled=read_after_write)
        return ObjectStore(self._api, info, high_water)

    async def update_object_store(
        self,
        config: ObjectStoreConfig | str,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[ObjectStoreOptions],
    ) -> ObjectStore:
        """Change an object store: given a name, only the given options.

        An `ObjectStoreConfig` is the whole new configuration: omitted settings get their default.
        Raises BucketNotFound if it does not exist, ApiError for a change that the server refuses.
        """
        info = await update_store(self._api, config, options, timeout)
        return ObjectStore(self._api, info, self._high_water)

    async def create_or_update_object_store(
        self,
        config: ObjectStoreConfig | str,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[ObjectStoreOptions],
    ) -> ObjectStore:
        """Change a store like ``update_object_store``, or create it if it does not exist."""
        try:
            return await self.update_object_store(config, timeout=timeout, **options)
        except BucketNotFound:
            return await self.create_object_store(config, timeout=timeout, **options)

    def object_stores(self, *, timeout: Timeout | None = None) -> Pager[ObjectStoreStatus]:
        """Iterate over all object stores, with size and configuration."""
        return Pager(store_pages(self._api, timeout))

    def object_store_names(self, *, timeout: Timeout | None = None) -> Pager[str]:
        """Iterate over the names of all object stores."""
        return Pager(store_name_pages(self._api, timeout))

    async def delete_object_store(self, bucket: str, *, timeout: Timeout | None = None) -> None:
        """Delete an object store and its contents; BucketNotFound if it does not exist."""
        verb = f"STREAM.DELETE.{object_stream_name(bucket)}"
        try:
            await self._api.call(verb, None, STREAM_DELETE, timeout=timeout)
        except StreamNotFound:
            raise BucketNotFound(bucket) from None
        self._high_water.forget(object_stream_name(bucket))

    # Private parts.

    async def _write_consumer(
        self,
        stream: str,
        settings: ConsumerConfig,
        action: ConsumerAction,
        timeout: Timeout | None,
    ) -> Consumer:
        info = await create_consumer(
            self._api, check_name(stream), to_wire(settings), action, timeout=timeout
        )
        return Consumer(self._api, info)

    def _bucket(
        self,
        info: WireStreamInfo,
        *,
        read_only: bool = False,
        read_after_write: bool = False,
        key_codec: KeyCodec | None = None,
        value_codec: ValueCodec | None = None,
    ) -> KeyValue:
        shared = self._high_water
        high_water = shared if shared.enabled else HighWater(enabled=read_after_write)
        return KeyValue(
            JetStreamBackend(self._api, info, high_water),
            key_codec=key_codec,
            value_codec=value_codec,
            read_only=read_only,
        )

    async def _attach(
        self, wanted: Wanted, pending_msgs: int, pending_bytes: int, timeout: Timeout | None
    ) -> Attached:
        subject = wanted.subject or "".join(wanted.config.filter_subjects[:1])
        stream = wanted.stream or await self.stream_name_by_subject(subject, timeout=timeout)
        seconds = self._api.seconds(timeout)
        flow = Workflow(self._api, check_name(stream), wanted, timeout=seconds)
        return await flow.run(pending_msgs, pending_bytes)

    def _note_ack(self, ack: PubAck) -> None:
        self._high_water.note(ack.stream, ack.seq)

    def __repr__(self) -> str:
        return f"JetStream({self._api.prefix!r})"


def _chosen_acks(
    policy: AckPolicy | Literal["none", "all", "explicit"] | None, config: ConsumerConfig
) -> AckPolicy | None:
    """The ack policy of the argument or of the configuration; None if none was given."""
    if policy is None:
        return given_ack_policy(config)
    return ConsumerConfig(ack_policy=policy).ack_policy


def check_name(name: str) -> str:
    """Refuse an invalid stream name, before it becomes part of a subject."""
    problem = stream_name_problem(text(name, "stream"))
    if problem is not None:
        raise BadName("stream", name, problem)
    return name
