"""What is counted of commits."""

from __future__ import annotations

import errno

from jetspark.store.commit_counts import BOUNDS_NS, RECENT, CommitCounts


def test_groups_are_counted_by_how_long_they_took() -> None:
    counts = CommitCounts()
    counts.submitted(10)

    counts.written(100, 50_000, None, inline=True)
    counts.written(200, 50_001, None, inline=False)
    counts.written(0, 5_000_000_000, OSError(errno.ENOSPC, "full"), inline=False)

    assert (counts.groups, counts.messages, counts.bytes, counts.inline) == (3, 10, 300, 1)
    assert (counts.errors, counts.no_space) == (1, 1)
    assert counts.duration_counts == [1, 1, *[0] * (len(BOUNDS_NS) - 2), 1]
    assert counts.duration_max_ns == 5_000_000_000
    assert counts.duration_sum_ns == 5_000_100_001


def test_percentiles_are_of_the_recent_groups() -> None:
    counts = CommitCounts()
    assert counts.percentile(0.5) == 0
    for _ in range(RECENT):
        counts.written(1, 1_000_000, None, inline=True)

    for took in range(1, RECENT + 1):
        counts.written(1, took, None, inline=True)

    assert counts.percentile(0.5) == RECENT // 2 + 1
    assert counts.percentile(0.99) == int(RECENT * 0.99) + 1
    assert counts.percentile(1.0) == RECENT
