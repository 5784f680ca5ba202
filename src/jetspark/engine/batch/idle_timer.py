"""The idle timeout of a stream's open batches."""

from mypy_extensions import i64


class IdleTimer:
    """One deadline for all batches of a stream: the earliest, or a little before it."""

    def __init__(self, idle_ns: i64) -> None:
        self.idle_ns: i64 = idle_ns
        # 0: no batch is open.
        self.due: i64 = 0
        # The engine has to check the deadlines of the stream again.
        self.moved: bool = False

    def opened(self, now: i64) -> None:
        """Note that a batch was opened."""
        if self.due == 0:
            self.due = now + self.idle_ns
            self.moved = True

    def resumed(self, touched: i64) -> None:
        """Note an open batch that was last used at a time before now."""
        self.due = min(self.due, touched + self.idle_ns)

    def is_over(self, touched: i64, now: i64) -> bool:
        """Return whether a batch last used at a time was idle for too long."""
        return touched + self.idle_ns <= now

    def expired(self, touched: list[int]) -> None:
        """Note that idle batches were ended; the rest were last used at these times."""
        self.due = i64(min(touched)) + self.idle_ns if touched else 0

    def take_moved(self) -> bool:
        """Return whether there is a new deadline since the last call."""
        moved = self.moved
        self.moved = False
        return moved
