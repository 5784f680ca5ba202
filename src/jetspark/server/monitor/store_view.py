"""What is known of the disk: the committer's work, and each stream's files.

A field that is None is not known, and is left out of every answer rather than shown as 0.
"""

from typing import Final

import msgspec

# Upper bounds of the buckets of commit durations. The figures that matter are those of
# speed.md 7: 0.1 ms is a quick disk, 300 us the limit for inline commits, 10 ms a slow disk.
COMMIT_BOUNDS_NS: Final = (
    50_000,
    100_000,
    300_000,
    1_000_000,
    3_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    300_000_000,
    1_000_000_000,
    3_000_000_000,
)


class CommitStats(msgspec.Struct, frozen=True, kw_only=True):
    """What the committer counted, per group and not per message.

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
    waiting_groups: int | None = None
    waiting_bytes: int | None = None


class StreamStore(msgspec.Struct, frozen=True, kw_only=True):
    """One stream on disk."""

    kind: str = "file"  # or "memory"
    segments: int | None = None
    file_bytes: int | None = None
    staged_position: int | None = None
    durable_position: int | None = None
    snapshot_ns: int | None = None
    cache_bytes: int | None = None
    cache_limit: int | None = None
    index_bytes: int | None = None
    duplicates: int | None = None
    duplicates_limit: int | None = None
    lost_messages: int | None = None
    lost_bytes: int | None = None
    quarantined_bytes: int | None = None
    read_only: bool = False
