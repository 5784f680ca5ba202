"""Stream handles: info, messages one by one, in batches, and in bulk, consumers, backups."""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final, Unpack

import msgspec

from jetspark.api.base import Timestamp
from jetspark.api.enums import ConsumerAction
from jetspark.api.message import MSG_DELETE, MsgDeleteRequest
from jetspark.api.stream import (
    STREAM_DELETE,
    STREAM_INFO,
    STREAM_PURGE,
    STREAM_UPDATE,
    PurgeRequest,
    SnapshotRequest,
    StreamInfoRequest,
)
from jetspark.api.stream import StreamInfo as WireStreamInfo
from jetspark.client.arguments import text, whole
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.backup import (
    CHUNK_BYTES,
    BackupProgress,
    StreamBackup,
    read_meta,
    restore_backup,
    take_backup,
)
from jetspark.client.jetstream.consumer.create import (
    consumer_info,
    create_consumer,
    delete_consumer,
    ordered_config,
    update_consumer,
)
from jetspark.client.jetstream.consumer.handle import Consumer
from jetspark.client.jetstream.consumer.ordered_handle import OrderedConsumer
from jetspark.client.jetstream.direct_get import NO_END, StreamReader, make_request
from jetspark.client.jetstream.high_water import HighWater
from jetspark.client.jetstream.last_many import LastMany, check_last_many
from jetspark.client.jetstream.listing import consumer_name_pages, consumer_pages, models
from jetspark.client.jetstream.message_columns import COLUMNS, MessageColumns
from jetspark.client.jetstream.scan import (
    BATCH_BYTES,
    BATCH_SIZE,
    Copies,
    RangeReader,
    check_columns,
    check_copies,
    check_filter,
    check_filters,
    check_page,
    check_start,
)
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.client.jetstream.stored_pages import message_pages, noted
from jetspark.client.jetstream.timestamps import Moment, to_nanoseconds
from jetspark.client.models.base import check_applied, from_wire, to_wire
from jetspark.client.models.consumer import (
    ConsumerConfig,
    ConsumerInfo,
    ConsumerOptions,
    consumer_config,
    without_default_acks,
)
from jetspark.client.models.stream import StreamConfig, StreamInfo, StreamOptions
from jetspark.client.pager import Pager
from jetspark.client.timeouts import Timeout
from jetspark.errors import ApiError, MessageNotFound
from jetspark.errors.codes import ErrCode

# The text of servers, with 10057, for a message after the last one.
BEYOND_THE_END: Final = "stream store EOF"
GET_BATCH_SIZE: Final = 1000  # messages per page of get_batch


class Stream:
    """A handle to one stream, from ``JetStream.stream`` or ``create_stream``."""

    def __init__(self, api: ApiClient, info: WireStreamInfo, high_water: HighWater) -> None:
        self._api = api
        self._info = info
        self._name = info.config.name
        self._high_water = high_water
        self._reader = StreamReader(api, self._name, allow_direct=info.config.allow_direct)
        high_water.opened(self._name, info.created)

    @property
    def name(self) -> str:
        """The name of the stream."""
        return self._name

    @property
    def config(self) -> StreamConfig:
        """The configuration as of the last ``info`` (or when the handle was created)."""
        return from_wire(StreamConfig, self._info.config)

    @property
    def cached_info(self) -> StreamInfo:
        """The result of the last ``info``, without a request."""
        return from_wire(StreamInfo, self._info)

    async def info(
        self,
        *,
        subjects_filter: str = "",
        deleted_details: bool = False,
        timeout: Timeout | None = None,
    ) -> StreamInfo:
        """Request configuration and state from the stream's leader.

        With ``subjects_filter`` (``>`` for all) ``state.subjects`` has the message count of every
        matching subject; with ``deleted_details`` ``state.deleted`` lists the deleted sequences.
        Raises StreamNotFound.
        """
        text(subjects_filter, "subjects_filter")
        verb = f"STREAM.INFO.{self._name}"
        info: WireStreamInfo | None = None
        subjects: dict[str, int] = {}
        while True:
            request = StreamInfoRequest(
                subjects_filter=subjects_filter,
                deleted_details=bool(deleted_details),
                offset=len(subjects),
            )
            page = await self._api.call(verb, request, STREAM_INFO, timeout=timeout)
            info = info or page
            found = page.state.subjects or {}
            subjects.update(found)
            total = page.total if isinstance(page.total, int) else 0
            if not found or len(subjects) >= total:
                break
        if subjects_filter:
            state = msgspec.structs.replace(info.state, subjects=subjects)
            info = msgspec.structs.replace(info, state=state)
        self._info = info
        self._reader.follow(info.config)
        return from_wire(StreamInfo, info)

    async def update(
        self, *, timeout: Timeout | None = None, **changes: Unpack[StreamOptions]
    ) -> StreamInfo:
        """Change the given settings only: ``stream.update(max_msgs=5)``.

        The configuration is read, changed and written. Raises StreamNotFound, ApiError for a
        change that is not allowed, and NotSupported if the server ignored a setting that it does
        not support.
        """
        self._info = await update_stream(self._api, self._name, changes, timeout)
        self._reader.follow(self._info.config)
        return from_wire(StreamInfo, self._info)

    async def delete(self, *, timeout: Timeout | None = None) -> None:
        """Delete the stream and its messages; StreamNotFound if it does not exist."""
        await delete_stream(self._api, self._name, self._high_water, timeout)

    async def purge(
        self,
        *,
        subject: str = "",
        seq: int = 0,
        keep: int = 0,
        timeout: Timeout | None = None,
    ) -> int:
        """Remove messages and return how many.

        All of them, or only those on ``subject`` (wildcards allowed), below ``seq``, or all but
        the newest ``keep``. ``seq`` and ``keep`` are mutually exclusive.
        """
        if seq and keep:
            raise ValueError("purge: seq and keep are mutually exclusive")
        whole(seq, "seq")
        whole(keep, "keep")
        if subject:
            check_filter(subject)
        answer = await self._api.call(
            f"STREAM.PURGE.{self._name}",
            PurgeRequest(filter=subject, seq=seq, keep=keep),
            STREAM_PURGE,
            timeout=timeout,
        )
        return answer.purged

    async def delete_msg(
        self, seq: int, *, erase: bool = True, timeout: Timeout | None = None
    ) -> None:
        """Remove one message; with ``erase`` nats-server also overwrites its bytes at once.

        A jetspark server removes the bytes when their segment is compacted, with or without
        ``erase``. Raises MessageNotFound if the stream has no such sequence.
        """
        whole(seq, "seq", least=1)
        request = MsgDeleteRequest(seq=seq, no_erase=not erase)
        verb = f"STREAM.MSG.DELETE.{self._name}"
        try:
            await self._api.call(verb, request, MSG_DELETE, timeout=timeout)
        except ApiError as error:
            if error.description != BEYOND_THE_END:
                raise
            missing = MessageNotFound(404, ErrCode.SEQUENCE_NOT_FOUND, f"sequence {seq} not found")
            missing.about = error.about
            raise missing from error

    async def get_msg(
        self,
        *,
        seq: int = 0,
        last_by_subject: str = "",
        next_by_subject: str = "",
        start_time: Moment | None = None,
        min_last_seq: int = 0,
        timeout: Timeout | None = None,
    ) -> StreamMessage:
        """Get one message: by sequence, the last on a subject, or the next one on a subject.

        ``next_by_subject`` starts at ``seq`` or ``start_time`` if given, else at the beginning;
        ``start_time`` (a datetime with time zone) may be used alone. With ``min_last_seq`` the
        answer comes from a copy that has reached that sequence, waiting up to ``timeout``. Raises
        MessageNotFound, or MinLastSequence if it is not reached.
        """
        for subject in (last_by_subject, next_by_subject):
            if subject:
                check_filter(subject)
        request = make_request(
            seq=seq,
            last_by_subject=last_by_subject,
            next_by_subject=next_by_subject,
            start_time_ns=None if start_time is None else to_nanoseconds(start_time),
            min_last_seq=self._high_water.wanted(self._name, min_last_seq),
        )
        message = await self._reader.get(request, self._api.seconds(timeout))
        self._high_water.note(self._name, message.seq)
        return message

    def get_batch(
        self,
        *,
        seq: int = 0,
        next_by_subject: str = "",
        start_time: Moment | None = None,
        limit: int = 0,
        batch: int = GET_BATCH_SIZE,
        max_bytes: int = BATCH_BYTES,
        min_last_seq: int = 0,
        copies: Copies | None = None,
        timeout: Timeout | None = None,
    ) -> Pager[StreamMessage]:
        """Iterate over messages from ``seq`` or ``start_time``, page by page (ADR-31).

        Ends after ``limit`` messages (0: no limit) or at the current end of the stream. ``batch``
        and ``max_bytes`` limit one page. With ``min_last_seq`` every message up to that sequence
        is included, or MinLastSequence is raised. ``copies`` as in ``scan``; without
        ``min_last_seq`` any copy may answer.
        """
        check_start(seq, start_time, limit, min_last_seq)
        if next_by_subject:
            check_filter(next_by_subject)
        check_copies(copies)
        check_page(batch, max_bytes)
        proof = self._high_water.wanted(self._name, min_last_seq)
        reader = RangeReader(
            self._reader,
            subject=next_by_subject,
            last=NO_END,
            proof=proof,
            columns=COLUMNS,
            batch=batch,
            max_bytes=max_bytes,
            copies=copies or ("stream" if proof else "any"),
            timeout=self._api.seconds(timeout),
            limit=limit,
        )
        start = None if start_time is None else Timestamp(to_nanoseconds(start_time))
        return Pager(message_pages(reader, self._name, self._high_water, max(seq, 1), start))

    def get_last_many(
        self,
        subjects: Sequence[str],
        *,
        up_to_seq: int = 0,
        up_to_time: Moment | None = None,
        batch: int = 0,
        max_bytes: int = 0,
        min_last_seq: int = 0,
        copies: Copies | None = None,
        timeout: Timeout | None = None,
    ) -> Pager[StreamMessage]:
        """Iterate over the last message of each of ``subjects`` (wildcards allowed; ADR-31).

        All of them at one point in time: now, ``up_to_seq``, or ``up_to_time`` (a datetime with
        time zone), for which the stream must hold enough history. Pages (of ``batch`` messages, 0:
        the server's choice) are followed, and requests that match more than 1024 subjects are
        split, automatically. ``min_last_seq`` and ``copies`` as in ``get_batch``.
        """
        chosen = check_last_many(subjects, up_to_seq, up_to_time, batch, max_bytes)
        check_copies(copies)
        proof = self._high_water.wanted(self._name, min_last_seq)
        reader = LastMany(
            self._reader,
            up_to_seq=up_to_seq,
            up_to_time=None if up_to_time is None else Timestamp(to_nanoseconds(up_to_time)),
            batch=batch,
            max_bytes=max_bytes,
            min_last_seq=proof,
            copies=copies or ("stream" if proof else "any"),
            timeout=self._api.seconds(timeout),
        )
        return Pager(noted(reader.pages(chosen), self._name, self._high_water))

    async def scan(
        self,
        first: int = 1,
        last: int | None = None,
        *,
        filters: Sequence[str] = (),
        columns: Sequence[str] = COLUMNS,
        batch: int = BATCH_SIZE,
        max_bytes: int = BATCH_BYTES,
        copies: Copies = "stream",
        timeout: Timeout | None = None,
    ) -> AsyncGenerator[MessageColumns, None]:
        """Read the messages with sequences from ``first`` to ``last`` in bulk, as columns.

        ``last`` None is the current last sequence; a ``last`` that the stream does not reach
        within ``timeout`` raises MinLastSequence, the result is never silently incomplete. Chunks
        come in order of sequence; with several ``filters`` one filter after the other (overlaps
        are refused). ``columns`` names the lists to fill. ``batch`` and ``max_bytes`` limit a
        page; the next page is prefetched while you process one. Pages of mirrors are ignored
        unless they are proven complete or ``copies`` is ``"any"``. ``timeout`` limits the wait for
        each reply.
        """
        chosen = check_filters(filters)
        wanted = check_columns(columns)
        check_copies(copies)
        check_page(batch, max_bytes)
        whole(first, "first", least=1)
        if last is not None:
            whole(last, "last")
        if last is None:
            last = (await self.info(timeout=timeout)).state.last_seq
            last = max(last, self._high_water.wanted(self._name))
        if last < first:
            return
        for subject in chosen or ("",):
            reader = RangeReader(
                self._reader,
                subject=subject,
                last=last,
                proof=last,
                columns=wanted,
                batch=batch,
                max_bytes=max_bytes,
                copies=copies,
                timeout=self._api.seconds(timeout),
            )
            async with aclosing(reader.chunks(first)) as chunks:
                async for chunk in chunks:
                    self._high_water.note(self._name, chunk.sequences[-1])
                    yield chunk

    # Backups.

    async def backup(
        self,
        folder: str | os.PathLike[str],
        *,
        consumers: bool = True,
        check: bool = False,
        chunk_bytes: int = CHUNK_BYTES,
        progress: BackupProgress | None = None,
        timeout: Timeout | None = None,
    ) -> StreamBackup:
        """Write the whole stream to ``folder``, as it is now; ``restore`` reads it.

        With ``consumers`` their state is included; with ``check`` the server verifies the messages
        first. ``progress`` is called with the bytes written so far. A backup that fails or is
        cancelled leaves no archive. ``timeout`` limits the wait for each part. Raises BackupFailed
        if the folder already contains a backup.
        """
        request = SnapshotRequest(no_consumers=not consumers, chunk_size=chunk_bytes, jsck=check)
        return await take_backup(self._api, self._name, folder, request, progress, timeout)

    async def restore(
        self,
        folder: str | os.PathLike[str],
        *,
        progress: BackupProgress | None = None,
        timeout: Timeout | None = None,
    ) -> None:
        """Restore this stream from a backup, after it was deleted.

        Raises StreamExists if it still exists: delete it first. See ``JetStream.restore_stream``.
        """
        backup = await asyncio.to_thread(read_meta, folder)
        config = msgspec.structs.replace(backup.config, name=self._name)
        self._info = await restore_backup(self._api, folder, config, progress, timeout)

    # Consumers.

    async def create_consumer(
        self,
        config: ConsumerConfig | None = None,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> Consumer:
        """Create a consumer: `ConsumerOptions`, or a `ConsumerConfig`.

        ``create_consumer(durable="w", ack_wait=30)``. The same configuration again is no error.
        ``durable`` or ``name`` name it, else a name is generated. Messages must be acknowledged
        unless ``ack_policy`` is given. Raises ConsumerExists if the name is taken with another
        configuration, ApiError for a refused one.
        """
        settings = consumer_config(config, options)
        return await self._make_consumer(settings, ConsumerAction.CREATE, timeout)

    async def update_consumer(
        self,
        config: ConsumerConfig | str,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> Consumer:
        """Change a consumer: given a name, only the given options, as ``Consumer.update``.

        A `ConsumerConfig` is the whole new configuration: omitted settings get their default.
        Raises ConsumerNotFound if it does not exist.
        """
        if isinstance(config, str):
            info = await update_consumer(self._api, self._name, config, options, timeout)
            return Consumer(self._api, info)
        settings = consumer_config(config, options)
        return await self._make_consumer(settings, ConsumerAction.UPDATE, timeout)

    async def create_or_update_consumer(
        self,
        config: ConsumerConfig | None = None,
        *,
        timeout: Timeout | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> Consumer:
        """Create a consumer, or change the one of that name to this configuration."""
        settings = consumer_config(config, options)
        return await self._make_consumer(settings, ConsumerAction.CREATE_OR_UPDATE, timeout)

    async def consumer(self, name: str, *, timeout: Timeout | None = None) -> Consumer:
        """Get a handle to an existing consumer; ConsumerNotFound if it does not exist."""
        return Consumer(
            self._api, await consumer_info(self._api, self._name, name, timeout=timeout)
        )

    async def delete_consumer(self, name: str, *, timeout: Timeout | None = None) -> None:
        """Delete a consumer; ConsumerNotFound if it does not exist."""
        await delete_consumer(self._api, self._name, name, timeout)

    def consumers(self, *, timeout: Timeout | None = None) -> Pager[ConsumerInfo]:
        """Iterate over the consumers of the stream."""
        return Pager(models(ConsumerInfo, consumer_pages(self._api, self._name, timeout)))

    def consumer_names(self, *, timeout: Timeout | None = None) -> Pager[str]:
        """Iterate over the names of the consumers of the stream."""
        return Pager(consumer_name_pages(self._api, self._name, timeout))

    def ordered_consumer(
        self,
        config: ConsumerConfig | None = None,
        *,
        push: bool = False,
        **options: Unpack[ConsumerOptions],
    ) -> OrderedConsumer:
        """Read the stream in order without acknowledgements; nothing is sent before you read.

        ``config`` or the options set the start and the filters (``deliver_policy``,
        ``opt_start_seq``, ``opt_start_time``, ``filter_subjects``, ``headers_only``,
        ``replay_policy``, ``min_last_seq``). With ``push`` the server sends without pull requests.
        """
        settings = without_default_acks(consumer_config(config, options))
        return OrderedConsumer(self._api, self._name, ordered_config(settings), push=push)

    async def _make_consumer(
        self, config: ConsumerConfig, action: ConsumerAction, timeout: Timeout | None
    ) -> Consumer:
        struct = to_wire(config)
        info = await create_consumer(self._api, self._name, struct, action, timeout=timeout)
        return Consumer(self._api, info)

    def __repr__(self) -> str:
        return f"Stream({self._name!r})"


async def update_stream(
    api: ApiClient, name: str, changes: StreamOptions, timeout: Timeout | None
) -> WireStreamInfo:
    """Change the given settings only: read, change, write, and check the result."""
    label = f"stream {name!r}"
    if "name" in changes:
        raise ValueError(
            f"{label} cannot be renamed: use backup and restore_stream(config=...) to copy it "
            "under another name"
        )
    StreamConfig(name, **changes)  # checks before anything is sent
    before = await api.call(f"STREAM.INFO.{name}", None, STREAM_INFO, timeout=timeout)
    wanted = from_wire(StreamConfig, before.config).replace(**changes)
    after = await api.call(
        f"STREAM.UPDATE.{name}", to_wire(wanted), STREAM_UPDATE, timeout=timeout
    )
    check_applied(changes, wanted, from_wire(StreamConfig, after.config), label)
    return after


async def delete_stream(
    api: ApiClient, name: str, high_water: HighWater, timeout: Timeout | None
) -> None:
    """Delete a stream; StreamNotFound if it does not exist."""
    await api.call(f"STREAM.DELETE.{name}", None, STREAM_DELETE, timeout=timeout)
    high_water.forget(name)
