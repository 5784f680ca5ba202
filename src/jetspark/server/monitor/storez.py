"""``/storez``, ours: the disk, and each stream's files.

Unknown fields are omitted; none of them is shown as 0.
"""

from typing import Final

import msgspec

from jetspark.api.base import ApiStruct, Timestamp, shown
from jetspark.server.monitor.arguments import Arguments
from jetspark.server.monitor.status import ServerStatus, StreamStatus
from jetspark.server.monitor.store_stats import CommitStats
from jetspark.server.pacing import paced

# The batches in flight that an answer lists; it counts all of them.
BATCHES_MAX: Final = 200


class StorezOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a request; empty is everything."""

    account: str = ""
    stream: str = ""
    # Streams to leave out at the beginning, and how many to list; 0: all of them.
    offset: int = 0
    limit: int = 0
    # No streams at all, and the batches in flight.
    summary: bool = False
    batches: bool = False


class OpenBatch(ApiStruct, frozen=True, kw_only=True):
    """A batch that was started and neither committed nor abandoned (ADR-50)."""

    account: str
    stream: str
    kind: str
    id: str
    messages: int
    bytes: int | None = None
    idle_ns: int = shown(0)


class CommitBucket(ApiStruct, frozen=True, kw_only=True):
    """How many commits took at most ``le_ns`` and more than the bucket before; None: longer."""

    le_ns: int | None = None
    count: int = shown(0)


class Commits(ApiStruct, frozen=True, kw_only=True):
    """The statistics of the committer since the start."""

    groups: int = shown(0)
    messages: int | None = None
    bytes: int | None = None
    errors: int = shown(0)
    no_space: int | None = None
    waiting_groups: int | None = None
    waiting_bytes: int | None = None
    messages_per_group: float | None = None
    inline: int | None = None
    by_thread: int | None = None
    shared: int | None = None
    journal_frames: int | None = None
    journal_disk_bytes: int | None = None
    journal_failures: int | None = None
    duration_sum_ns: int = shown(0)
    duration_p50_ns: int | None = None
    duration_p99_ns: int | None = None
    duration_max_ns: int | None = None
    durations: tuple[CommitBucket, ...] = ()


class StreamFiles(ApiStruct, frozen=True, kw_only=True):
    """One stream on disk."""

    account: str
    stream: str
    kind: str
    durability: str | None = None
    messages: int
    bytes: int
    segments: int | None = None
    file_bytes: int | None = None
    staged_position: int | None = None
    durable_position: int | None = None
    snapshot: Timestamp | None = None
    snapshot_age_ns: int | None = None
    cache_bytes: int | None = None
    cache_limit: int | None = None
    index_bytes: int | None = None
    duplicates: int | None = None
    duplicates_limit: int | None = None
    lost_messages: int | None = None
    lost_bytes: int | None = None
    uncounted_places: int | None = None
    doubtful_bytes: int | None = None
    quarantined_bytes: int | None = None
    scrubbed: Timestamp | None = None
    compactions: int | None = None
    compaction_read_bytes: int | None = None
    compaction_written_bytes: int | None = None
    compactions_failed: int | None = None
    segments_removed: int | None = None
    segments_condensed: int | None = None
    scrubs: int | None = None
    scrub_read_bytes: int | None = None
    scrub_damage: int | None = None
    scrubs_failed: int | None = None
    read_only: bool = shown(False)
    write_error: str = ""
    read_error: str = ""


class LostStreamInfo(ApiStruct, frozen=True, kw_only=True):
    """A stream that could not be opened, and why."""

    account: str
    stream: str
    reason: str


class Storez(ApiStruct, frozen=True, kw_only=True):
    """The answer."""

    server_id: str
    now: Timestamp
    disabled: bool = False
    store_dir: str = ""
    durability: str = ""
    commits: Commits | None = None
    streams_total: int | None = None
    streams: tuple[StreamFiles, ...] = shown(())
    lost_streams: tuple[LostStreamInfo, ...] = ()
    open_batches: int | None = None
    batches: tuple[OpenBatch, ...] = ()


def read_options(arguments: Arguments) -> StorezOptions:
    """Read the arguments. Raises BadArgument."""
    return StorezOptions(
        account=arguments.text("acc"),
        stream=arguments.text("stream"),
        offset=arguments.unsigned("offset"),
        limit=arguments.unsigned("limit"),
        summary=arguments.flag("summary"),
        batches=arguments.flag("batches"),
    )


async def storez(view: ServerStatus, options: StorezOptions) -> Storez:
    """Build the answer."""
    now_ns = view.now_ns()
    server_id = view.identity.server_id
    jetstream = view.jetstream()
    if jetstream is None:
        return Storez(server_id=server_id, now=view.date(now_ns), disabled=True)
    commits = jetstream.commits()
    streams: list[StreamFiles] = []
    batches: list[OpenBatch] = []
    total = open_batches = 0
    end = options.offset + options.limit if options.limit else None
    for account in sorted(jetstream.accounts(), key=lambda account: account.name):
        if options.account not in {"", account.name}:
            continue
        if options.summary and not options.batches:
            continue
        async for stream in paced(account.streams()):
            if options.stream not in {"", stream.config.name}:
                continue
            if not options.summary and options.offset <= total and (end is None or total < end):
                streams.append(_files(view, account.name, stream, now_ns))
            total += 1
            if options.batches:
                open_batches += stream.open_batches
                batches += _batches(account.name, stream, now_ns, BATCHES_MAX - len(batches))
    return Storez(
        server_id=server_id,
        now=view.date(now_ns),
        store_dir=jetstream.echo.store_dir,
        durability=jetstream.echo.durability,
        commits=None if commits is None else _commits(commits),
        streams_total=total if options.limit else None,
        streams=tuple(streams),
        open_batches=open_batches if options.batches else None,
        batches=tuple(batches),
        lost_streams=tuple(
            LostStreamInfo(account=each.account, stream=each.stream, reason=each.reason)
            for each in jetstream.lost_streams()
        ),
    )


def _batches(account: str, stream: StreamStatus, now_ns: int, most: int) -> list[OpenBatch]:
    """Return the batches of a stream, at most ``most``."""
    return [
        OpenBatch(
            account=account,
            stream=stream.config.name,
            kind=batch.kind,
            id=batch.id,
            messages=batch.messages,
            bytes=batch.bytes,
            idle_ns=max(now_ns - batch.touched_ns, 0),
        )
        for batch in stream.batches(most)
    ]


def _commits(stats: CommitStats) -> Commits:
    bounds: tuple[int | None, ...] = (*stats.duration_bounds_ns, None)
    return Commits(
        groups=stats.groups,
        messages=stats.messages,
        bytes=stats.bytes,
        errors=stats.errors,
        no_space=stats.no_space,
        waiting_groups=stats.waiting_groups,
        waiting_bytes=stats.waiting_bytes,
        messages_per_group=_ratio(stats.messages, stats.groups),
        inline=stats.inline,
        by_thread=None if stats.inline is None else stats.groups - stats.inline,
        shared=stats.shared,
        journal_frames=stats.journal_frames,
        journal_disk_bytes=stats.journal_disk_bytes,
        journal_failures=stats.journal_failures,
        duration_sum_ns=stats.duration_sum_ns,
        duration_p50_ns=stats.duration_p50_ns,
        duration_p99_ns=stats.duration_p99_ns,
        duration_max_ns=stats.duration_max_ns,
        durations=tuple(
            CommitBucket(le_ns=bound, count=count)
            for bound, count in zip(bounds, stats.duration_counts, strict=False)
        ),
    )


def _ratio(messages: int | None, groups: int) -> float | None:
    """Return the average number of messages per write, if known."""
    return round(messages / groups, 2) if messages is not None and groups else None


def _files(view: ServerStatus, account: str, stream: StreamStatus, now_ns: int) -> StreamFiles:
    state, store = stream.state(), stream.store()
    snapshot_ns = store.snapshot_ns
    return StreamFiles(
        account=account,
        stream=stream.config.name,
        kind=store.kind,
        durability=store.durability,
        messages=state.messages,
        bytes=state.bytes,
        segments=store.segments,
        file_bytes=store.file_bytes,
        staged_position=store.staged_position,
        durable_position=store.durable_position,
        snapshot=None if snapshot_ns is None else view.date(snapshot_ns),
        snapshot_age_ns=None if snapshot_ns is None else now_ns - snapshot_ns,
        cache_bytes=store.cache_bytes,
        cache_limit=store.cache_limit,
        index_bytes=store.index_bytes,
        duplicates=store.duplicates,
        duplicates_limit=store.duplicates_limit,
        lost_messages=store.lost_messages,
        lost_bytes=store.lost_bytes,
        uncounted_places=store.uncounted_places,
        doubtful_bytes=store.doubtful_bytes,
        quarantined_bytes=store.quarantined_bytes,
        scrubbed=None if store.scrubbed_ns is None else view.date(store.scrubbed_ns),
        compactions=store.compactions,
        compaction_read_bytes=store.compaction_read_bytes,
        compaction_written_bytes=store.compaction_written_bytes,
        compactions_failed=store.compactions_failed,
        segments_removed=store.segments_removed,
        segments_condensed=store.segments_condensed,
        scrubs=store.scrubs,
        scrub_read_bytes=store.scrub_read_bytes,
        scrub_damage=store.scrub_damage,
        scrubs_failed=store.scrubs_failed,
        read_only=store.read_only,
        write_error=stream.write_error,
        read_error=stream.read_error,
    )
