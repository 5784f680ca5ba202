"""Automatic read-your-writes: the highest sequence per stream that a handle knows."""

from jetspark.client.arguments import whole


class HighWater:
    """The sequences tracked by ``jetstream(read_after_write=True)``; does nothing if disabled."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        self._highest: dict[str, int] = {}
        self._created: dict[str, int] = {}

    def opened(self, stream: str, created: int) -> None:
        """A handle was opened: a stream that was created again starts at 1."""
        if self.enabled and self._created.setdefault(stream, created) != created:
            self._created[stream] = created
            self._highest.pop(stream, None)

    def note(self, stream: str, seq: int) -> None:
        """A sequence was written or read."""
        if self.enabled and seq > self._highest.get(stream, 0):
            self._highest[stream] = seq

    def wanted(self, stream: str, asked: int = 0) -> int:
        """The sequence that a read must have reached: the required or the known one."""
        if asked != 0:
            whole(asked, "min_last_seq")
        return max(asked, self._highest.get(stream, 0))

    def forget(self, stream: str) -> None:
        """The stream was deleted: a new one of the same name starts at 1."""
        self._highest.pop(stream, None)
