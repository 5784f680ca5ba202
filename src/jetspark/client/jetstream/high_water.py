"""Read-your-writes without being asked: the highest sequence per stream that a handle knows."""

from jetspark.client.arguments import whole


class HighWater:
    """What ``jetstream(read_after_write=True)`` remembers; does nothing when it is off."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        self._highest: dict[str, int] = {}
        self._created: dict[str, int] = {}

    def opened(self, stream: str, created: int) -> None:
        """A handle was opened: a stream that was made anew since starts at 1 again."""
        if self.enabled and self._created.setdefault(stream, created) != created:
            self._created[stream] = created
            self._highest.pop(stream, None)

    def note(self, stream: str, seq: int) -> None:
        """A sequence was written or seen."""
        if self.enabled and seq > self._highest.get(stream, 0):
            self._highest[stream] = seq

    def wanted(self, stream: str, asked: int = 0) -> int:
        """What a read must have reached: what was asked for, or what is known to be there."""
        if asked != 0:
            whole(asked, "min_last_seq")
        return max(asked, self._highest.get(stream, 0))

    def forget(self, stream: str) -> None:
        """The stream was deleted: a new one of the same name starts at 1 again."""
        self._highest.pop(stream, None)
