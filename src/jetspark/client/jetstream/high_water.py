"""Read-your-writes without being asked: the highest sequence per stream that a handle knows."""


class HighWater:
    """What ``jetstream(read_after_write=True)`` remembers; does nothing when it is off."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        self._highest: dict[str, int] = {}

    def note(self, stream: str, seq: int) -> None:
        """A sequence was written or seen."""
        if self.enabled and seq > self._highest.get(stream, 0):
            self._highest[stream] = seq

    def wanted(self, stream: str) -> int:
        """What a read must have reached; 0 when anything will do."""
        return self._highest.get(stream, 0)

    def forget(self, stream: str) -> None:
        """The stream was deleted: a new one of the same name starts at 1 again."""
        self._highest.pop(stream, None)
