"""When an open batch of a stream may have been idle for too long."""

from mypy_extensions import i64


class IdleTimer:
    """One deadline for all batches of a stream: the earliest, or a little before it."""

    def __init__(self, idle_ns: i64) -> None:
        self.idle_ns: i64 = idle_ns
        # 0: no batch is open.
        self.due: i64 = 0
        # The engine has to look at the deadlines of the stream again.
        self.moved: bool = False

    def opened(self, now: i64) -> None:
        """A batch was opened."""
        if self.due == 0:
            self.due = now + self.idle_ns
            self.moved = True

    def resumed(self, touched: i64) -> None:
        """A batch is open that was used last at a time before now."""
        self.due = min(self.due, touched + self.idle_ns)

    def is_over(self, touched: i64, now: i64) -> bool:
        """Say whether a batch that was used last at a time was idle for too long."""
        return touched + self.idle_ns <= now

    def expired(self, touched: list[int]) -> None:
        """Idle batches were ended; those that are left were used last at these times."""
        self.due = i64(min(touched)) + self.idle_ns if touched else 0

    def take_moved(self) -> bool:
        """Say whether there is a new deadline since this was asked last."""
        moved = self.moved
        self.moved = False
        return moved
