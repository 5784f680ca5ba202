"""Statistics of the committer, per group, for monitoring."""

from array import array
from bisect import bisect_left
from typing import Final

from jetspark.store.files import NO_SPACE

# Upper bounds of the buckets of commit durations: 0.1 ms is a fast disk, 300 us the limit for
# inline commits, 10 ms a slow disk.
BOUNDS_NS: Final = (
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
# Percentiles cover this many groups, the most recent.
RECENT: Final = 4096


class CommitCounts:
    """Figures since the start. Percentiles cover the recent groups."""

    def __init__(self) -> None:
        self.groups: int = 0
        self.messages: int = 0
        self.bytes: int = 0
        self.errors: int = 0
        self.no_space: int = 0
        # Written inline by the loop; all others were written by a thread.
        self.inline: int = 0
        # Made durable through the journal.
        self.shared: int = 0
        self.duration_counts: list[int] = [0] * (len(BOUNDS_NS) + 1)
        self.duration_sum_ns: int = 0
        self.duration_max_ns: int = 0
        self._recent: array[int] = array("q")

    def submitted(self, messages: int) -> None:
        """Count a group with this many messages that is submitted to the disk."""
        self.messages += messages

    def written(self, size: int, took_ns: int, error: OSError | None, *, inline: bool) -> None:
        """Count a group that was written, or failed."""
        self.groups += 1
        self.bytes += size
        self.inline += inline
        if error is not None:
            self.errors += 1
            self.no_space += error.errno in NO_SPACE
        self.duration_counts[bisect_left(BOUNDS_NS, took_ns)] += 1
        self.duration_sum_ns += took_ns
        self.duration_max_ns = max(self.duration_max_ns, took_ns)
        if len(self._recent) < RECENT:
            self._recent.append(took_ns)
        else:
            self._recent[self.groups % RECENT] = took_ns

    def written_turn(
        self, size: int, took_ns: int, errors: list[OSError | None], *, inline: bool
    ) -> None:
        """Count the groups of a frame; each of them took as long as the frame."""
        count = len(errors)
        self.shared += count
        self.groups += count - 1
        self.inline += (count - 1) * inline
        self.duration_counts[bisect_left(BOUNDS_NS, took_ns)] += count - 1
        self.duration_sum_ns += took_ns * (count - 1)
        failed = [error for error in errors if error is not None]
        self.errors += len(failed[1:])
        self.no_space += sum(error.errno in NO_SPACE for error in failed[1:])
        self.written(size, took_ns, failed[0] if failed else None, inline=inline)

    def percentile(self, share: float) -> int:
        """Return the duration below which this share of the recent groups is; 0 without groups."""
        if not self._recent:
            return 0
        ordered = sorted(self._recent)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
