"""Statistics of the disk: the committer, and each stream's files.

A field that is None is unknown, and is omitted from every answer rather than shown as 0.
"""

import msgspec

from jetspark.store.commit_counts import BOUNDS_NS as COMMIT_BOUNDS_NS


class CommitStats(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of the committer, per group and not per message.

    ``duration_counts`` has one number per bound and one for everything above the last.
    """

    groups: int = 0
    messages: int | None = None
    bytes: int | None = None
    errors: int = 0
    no_space: int | None = None
    duration_bounds_ns: tuple[int, ...] = COMMIT_BOUNDS_NS
    duration_counts: tuple[int, ...] = ()
    duration_sum_ns: int = 0
    duration_p50_ns: int | None = None
    duration_p99_ns: int | None = None
    duration_max_ns: int | None = None
    inline: int | None = None
    # Groups that shared a write of the journal, its frames, the space it takes, failed frames.
    shared: int | None = None
    journal_frames: int | None = None
    journal_disk_bytes: int | None = None
    journal_failures: int | None = None
    waiting_groups: int | None = None
    waiting_bytes: int | None = None


class StreamStore(msgspec.Struct, frozen=True, kw_only=True):
    """One stream on disk."""

    kind: str = "file"  # or "memory"
    durability: str | None = None
    segments: int | None = None
    file_bytes: int | None = None
    staged_position: int | None = None
    durable_position: int | None = None
    snapshot_ns: int | None = None
    ahead_ns: int = 0  # how far its times are ahead of the wall clock
    cache_bytes: int | None = None
    cache_limit: int | None = None
    index_bytes: int | None = None
    duplicates: int | None = None
    duplicates_limit: int | None = None
    lost_messages: int | None = None
    lost_bytes: int | None = None
    # Places where files, or parts of them, are missing: what was lost there cannot be counted.
    uncounted_places: int | None = None
    doubtful_bytes: int | None = None  # of writes that may never have been acknowledged
    quarantined_bytes: int | None = None
    scrubbed_ns: int | None = None  # when the full segment that waits longest was last scrubbed
    # Statistics of upkeep since the stream was opened.
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
    read_only: bool = False


class BatchStats(msgspec.Struct, frozen=True, kw_only=True):
    """A batch in flight. ``bytes`` None: its messages are stored already."""

    kind: str
    id: str
    messages: int
    bytes: int | None
    touched_ns: int
