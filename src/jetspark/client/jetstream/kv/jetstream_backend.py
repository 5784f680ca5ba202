"""A bucket in a stream (ADR-8, "JetStream interactions")."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from jetspark.api.base import Timestamp
from jetspark.api.message import PubAck
from jetspark.api.stream import (
    STREAM_DELETE,
    STREAM_INFO,
    STREAM_PURGE,
    PurgeRequest,
    StreamConfig,
)
from jetspark.api.stream import StreamInfo as WireStreamInfo
from jetspark.client.jetstream.api import DEFAULT_PREFIX, ApiClient
from jetspark.client.jetstream.direct_get import StreamReader, make_request
from jetspark.client.jetstream.high_water import HighWater
from jetspark.client.jetstream.kv.backend import SecondsToLive, Stored, WatchPlan
from jetspark.client.jetstream.kv.config import STREAM_PREFIX, from_stream_config
from jetspark.client.jetstream.kv.entry import (
    BucketStatus,
    Operation,
    about_key,
    read_operation,
    read_size,
)
from jetspark.client.jetstream.kv.follow import BucketFollow, Follow
from jetspark.client.jetstream.kv.newest import collect_newest
from jetspark.client.jetstream.last_many import LastMany, check_last_many
from jetspark.client.jetstream.publishing.atomic import AtomicBatch
from jetspark.client.jetstream.publishing.publisher import (
    Expect,
    PublishWindow,
    publish_acked,
    publish_headers,
)
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.client.jetstream.stored_pages import noted
from jetspark.client.models.base import from_wire
from jetspark.client.models.stream import StreamInfo
from jetspark.client.timeouts import Timeout
from jetspark.errors import (
    ApiError,
    BatchNotEnabled,
    BucketNotFound,
    ConnectionClosed,
    Error,
    MessageNotFound,
    NoResponders,
    NotSupported,
    StreamNotFound,
)
from jetspark.errors.codes import ErrCode

BACKING_STORE: Final = "JetStream"  # ADR-8, "Status"
PUT_MANY_WINDOW: Final = 1000  # outstanding acks in put_many
# Header pairs of the two kinds of deletion (ADR-8, "Deleting Values", "Purging a key").
_MARKS: Final = {
    Operation.PUT: (),
    Operation.DEL: (("KV-Operation", "DEL"),),
    Operation.PURGE: (("KV-Operation", "PURGE"), ("Nats-Rollup", "sub")),
}


class JetStreamBackend:
    """The backend for one stream; ``info`` determines the subjects of keys."""

    def __init__(self, api: ApiClient, info: WireStreamInfo, high_water: HighWater) -> None:
        self._api = api
        self._info = info
        self._stream = info.config.name
        self._reader = StreamReader(api, self._stream, allow_direct=info.config.allow_direct)
        self._high_water = high_water
        self._bucket = info.config.name.removeprefix(STREAM_PREFIX)
        self._read_prefix, self._write_prefix = prefixes(info, api.prefix)
        self._skip = len(self._read_prefix)
        high_water.opened(self._stream, info.created)

    @property
    def bucket(self) -> str:
        """The name of the bucket."""
        return self._bucket

    def seconds(self, timeout: Timeout | None) -> float:
        """The timeout of a call: its own, or the JetStream handle's default."""
        return self._api.seconds(timeout)

    def report(self, error: Exception) -> None:
        """Call the error callback of the connection."""
        self._api.core.report(error)

    async def get(
        self, key: str, *, revision: int, min_last_revision: int, timeout: Timeout | None
    ) -> Stored | None:
        """The latest message of the key's subject, or that with a sequence."""
        subject = self._read_prefix + key
        request = make_request(
            seq=revision,
            last_by_subject="" if revision else subject,
            min_last_seq=self._high_water.wanted(self._stream, min_last_revision),
        )
        try:
            message = await self._reader.get(request, self._api.seconds(timeout))
        except MessageNotFound:
            return None
        except StreamNotFound:
            raise BucketNotFound(self._bucket) from None
        self._high_water.note(self._stream, message.seq)
        # A get by sequence finds any key.
        return self._stored(message) if message.subject == subject else None

    async def get_many(
        self,
        filters: Sequence[str],
        *,
        at_revision: int,
        at_time_ns: int | None,
        min_last_revision: int,
        timeout: Timeout | None,
    ) -> AsyncGenerator[list[Stored], None]:
        """The last message of every matching subject at one point in time (ADR-31)."""
        if not at_revision and at_time_ns is None:
            yield await self._newest(filters, min_last_revision, self._api.seconds(timeout))
            return
        subjects = [self._read_prefix + each for each in filters]
        chosen = check_last_many(subjects, at_revision, at_time_ns, 0, 0)
        at_time = None if at_time_ns is None else Timestamp(at_time_ns)
        wanted = self._high_water.wanted(self._stream, min_last_revision)
        reader = self._last_many(at_revision, at_time, wanted, self._api.seconds(timeout))
        pages = noted(reader.pages(chosen), self._stream, self._high_water)
        try:
            async with aclosing(pages):
                async for page in pages:
                    yield [self._stored(message) for message in page]
        except StreamNotFound:
            raise BucketNotFound(self._bucket) from None

    async def _newest(
        self, filters: Sequence[str], min_last_revision: int, seconds: float
    ) -> list[Stored]:
        wanted = self._high_water.wanted(self._stream, min_last_revision)
        reader = self._last_many(0, None, wanted, seconds)
        answer = await reader.one_answer([self._read_prefix + each for each in filters])
        if answer is None:
            return await collect_newest(self._bucket, self.watch, filters, wanted, seconds)
        if answer:
            self._high_water.note(self._stream, answer[-1].seq)
        return [self._stored(message) for message in answer]

    async def put(
        self,
        key: str,
        data: bytes,
        operation: Operation,
        expected: int | None,
        ttl: SecondsToLive,
        timeout: Timeout | None,
    ) -> int:
        """Publish and wait for the ack; the revision is the sequence."""
        subject = self._write_prefix + key
        block = write_headers(operation, expected, ttl)
        seconds = self._api.seconds(timeout)
        try:
            ack = await publish_acked(self._api, subject, block, data, seconds, self._check_exists)
        except ApiError as error:
            self._explain(error, key)
            raise
        return self._noted(ack)

    async def put_many(
        self,
        entries: Sequence[tuple[str, bytes]],
        operation: Operation,
        ttl: SecondsToLive,
        timeout: Timeout | None,
    ) -> list[int]:
        """Publish all with a window of acks; raises the first failure when all have arrived."""
        window = PublishWindow(self._api, PUT_MANY_WINDOW, None)
        seconds = self._api.seconds(timeout)
        deadline = self._api.core.loop.time() + seconds
        block = write_headers(operation, None, ttl)
        acks = [
            await window.publish(self._write_prefix + key, block, data, seconds)
            for key, data in entries
        ]
        revisions: list[int] = []
        failures: list[tuple[str, Error]] = []
        for (key, _), ack in zip(entries, acks, strict=True):
            try:
                revisions.append(self._noted(await ack.wait()))
            except Error as error:
                failures.append((key, error))
        if failures:
            key, first = failures[0]
            if isinstance(first, ApiError):
                self._explain(first, key)
            if isinstance(first, NoResponders):
                await self._check_exists(deadline - self._api.core.loop.time())
            first.add_note(f"{len(failures)} of {len(acks)} keys were not written; first: {key!r}")
            raise first
        return revisions

    async def put_together(
        self,
        entries: Sequence[tuple[str, bytes, Operation, int | None, SecondsToLive]],
        *,
        timeout: Timeout | None,
    ) -> list[int]:
        """Publish as one atomic batch (ADR-50)."""
        config = self._info.config
        if not config.allow_atomic and config.mirror is None:
            raise self._no_transactions(self._stream)
        seconds = self._api.seconds(timeout)
        deadline = self._api.core.loop.time() + seconds
        batch = AtomicBatch(self._api, timeout=seconds)
        batch.extend(
            [self._write_prefix + key for key, *_ in entries],
            [data for _, data, *_ in entries],
            [write_headers(operation, last, ttl) for _, _, operation, last, ttl in entries],
        )
        try:
            ack = await batch.commit()
        except BatchNotEnabled as error:
            # Only the origin of a mirror knows.
            raise self._no_transactions(written_stream(config)) from error
        except ApiError as error:
            self._explain(error)
            raise
        except NoResponders:
            await self._check_exists(deadline - self._api.core.loop.time())
            raise
        self._noted(ack)
        return [ack.seq - len(entries) + n for n in range(1, len(entries) + 1)]

    def watch(self, plan: WatchPlan) -> BucketFollow:
        """Follow subjects with an ordered consumer."""
        least = plan.min_last_revision
        follow = Follow(self._reader, self._read_prefix, plan, least, self._high_water)
        return BucketFollow(self._bucket, follow)

    async def erase(self, key: str, *, below: int, timeout: Timeout | None) -> None:
        """Purge the subject; deny_delete forbids only the deletion of single messages."""
        await self._api.call(
            f"STREAM.PURGE.{self._stream}",
            PurgeRequest(filter=self._read_prefix + key, seq=below),
            STREAM_PURGE,
            timeout=timeout,
        )

    async def status(self, *, timeout: Timeout | None) -> BucketStatus:
        """Request the stream's state."""
        verb = f"STREAM.INFO.{self._stream}"
        try:
            self._info = await self._api.call(verb, None, STREAM_INFO, timeout=timeout)
        except StreamNotFound:
            raise BucketNotFound(self._bucket) from None
        self._reader.follow(self._info.config)
        return bucket_status(self._info)

    async def destroy(self, *, timeout: Timeout | None) -> None:
        """Delete the stream."""
        verb = f"STREAM.DELETE.{self._stream}"
        try:
            await self._api.call(verb, None, STREAM_DELETE, timeout=timeout)
        except StreamNotFound:
            raise BucketNotFound(self._bucket) from None
        self._high_water.forget(self._stream)

    def _last_many(
        self, up_to_seq: int, up_to_time: Timestamp | None, wanted: int, seconds: float
    ) -> LastMany:
        return LastMany(
            self._reader,
            up_to_seq=up_to_seq,
            up_to_time=up_to_time,
            batch=0,
            max_bytes=0,
            min_last_seq=wanted,
            copies="stream" if wanted else "any",
            timeout=seconds,
        )

    def _stored(self, message: StreamMessage) -> Stored:
        operation, reason = read_operation(message.header_block)
        return Stored(
            message.subject[self._skip :],
            message.data,
            message.seq,
            message.time_ns,
            operation,
            reason,
            read_size(message.header_block, message.data),
        )

    def _no_transactions(self, stream: str) -> NotSupported:
        return NotSupported(
            f"bucket {self._bucket!r} does not support transactions: the stream {stream!r} lacks "
            "allow_atomic; enable it with js.update_key_value(...), or "
            f"'nats stream edit {stream} --allow-batch', on a server that supports it "
            "(nats-server 2.12 or later)"
        )

    async def _check_exists(self, seconds: float) -> None:
        """A write had no responders: raise BucketNotFound if the bucket does not exist."""
        await check_exists(self._api, self._stream, self._bucket, seconds)

    def _explain(self, error: ApiError, key: str = "") -> None:
        """Explain the server's error about the stream in terms of the bucket."""
        error.about = about_key(self._bucket, key) if key else f"bucket {self._bucket!r}"
        if error.err_code == ErrCode.TTL_DISABLED:
            raise NotSupported(
                f"bucket {self._bucket!r} does not allow a time to live per key (locks, elections "
                "and members need it too): enable it with js.update_key_value(..., "
                "allow_key_ttl=True), on a server that supports it (nats-server 2.11 or later)"
            ) from error

    def _noted(self, ack: PubAck) -> int:
        self._high_water.note(self._stream, ack.seq)
        return ack.seq


def bucket_status(info: WireStreamInfo) -> BucketStatus:
    """The status of a bucket, from its stream."""
    return BucketStatus(
        bucket=info.config.name.removeprefix(STREAM_PREFIX),
        values=info.state.messages,
        bytes=info.state.bytes,
        config=from_stream_config(info.config),
        backing_store=BACKING_STORE,
        info=from_wire(StreamInfo, info),
    )


async def check_exists(api: ApiClient, stream: str, bucket: str, seconds: float) -> None:
    """Raise BucketNotFound if the stream does not exist; an unknown state is no error."""
    try:
        await api.call(f"STREAM.INFO.{stream}", None, STREAM_INFO, timeout=max(seconds, 0.0))
    except StreamNotFound:
        raise BucketNotFound(bucket) from None
    except ConnectionClosed:
        raise
    except Error:
        return


def write_headers(operation: Operation, expected: int | None, ttl: SecondsToLive) -> bytes:
    """The header block of a write; empty for a plain put."""
    expect = None if expected is None else Expect(last_subject_seq=expected)
    return publish_headers(_MARKS[operation] or None, "", expect, ttl)


def written_stream(config: StreamConfig) -> str:
    """The stream that writes go to: for a mirror, its origin."""
    return config.name if config.mirror is None else config.mirror.name


def prefixes(info: WireStreamInfo, api_prefix: str) -> tuple[str, str]:
    """The subject prefixes for reading and writing keys.

    A mirror has its origin's subjects, and writes go to the origin, through the prefix that
    reaches it. Over a domain or an import, publishes have the API prefix (ADR-8, ADR-19).
    """
    bucket = info.config.name.removeprefix(STREAM_PREFIX)
    read = f"$KV.{bucket}."
    write = read if api_prefix == DEFAULT_PREFIX else f"{api_prefix}.{read}"
    mirror = info.config.mirror
    if mirror is not None:
        origin = f"$KV.{mirror.name.removeprefix(STREAM_PREFIX)}."
        if not mirror.subject_transforms:
            read = origin
        external = mirror.external.api.rstrip(".") if mirror.external is not None else ""
        write = f"{external}.{origin}" if external else write.replace(f"$KV.{bucket}.", origin)
    return read, write
