"""Making and removing streams: work that waits for the disk and belongs to no log.

The loop must not wait for it. An operation is checked on the loop, done beside it, and finished
on the loop again; its answer goes out when it is finished, so it is on disk by then. There is one
operation for a name at a time: requests about a stream that is being made or removed wait for the
end and are then handled in the order in which they came, and so does the creation of a stream that
wants the same subjects. What names no stream, and what reads or publishes, is handled meanwhile:
to them the stream is there until it is removed, and not before it is made.
"""

from collections.abc import Callable
from typing import Final, Protocol

from jetspark.api.stream import StreamConfig
from jetspark.engine.failures import Failures
from jetspark.engine.outbox import Outbox
from jetspark.store.threads import attempt
from jetspark.subjects.pattern_set import PatternSet

# So many requests of an account may wait, as in nats-server's queue of API requests, and so many
# bytes of them.
WAITING_MAX: Final = 10_000
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024

Again = Callable[[int, Outbox], None]
Finish = Callable[[OSError | None, int, Outbox], None]


class Beside(Protocol):
    """Does the disk work of an engine where it holds up nobody."""

    def run(self, work: Callable[[], None], finish: Finish, now: int, outbox: Outbox, /) -> None:
        """Do some work; ``finish(error, now, outbox)`` follows on the loop."""
        ...


class AtOnce:
    """Does it in the caller: for tests, and for engines that no loop drives."""

    def run(self, work: Callable[[], None], finish: Finish, now: int, outbox: Outbox) -> None:
        """Do some work and finish it before returning."""
        finish(attempt(work), now, outbox)


class Operation:
    """One operation under way: the stream it is about, and the requests that wait for it."""

    def __init__(self, name: str, config: StreamConfig | None, finish: Finish) -> None:
        self.name = name
        # Those of a stream that is being made.
        self.subjects = [subject.encode() for subject in config.subjects] if config else []
        self.finish = finish
        self.waiting: list[Again] = []
        self.waiting_bytes = 0


class Postponed(Exception):
    """A request has to wait for an operation."""

    def __init__(self, until: Operation) -> None:
        super().__init__(f"waits for stream {until.name!r}")
        self.until = until


class Operations:
    """The operations of one account that are under way."""

    def __init__(self, failures: Failures) -> None:
        # The driver has threads for it.
        self.beside: Beside = AtOnce()
        self._failures = failures
        self._by_name: dict[str, Operation] = {}
        # The subjects of the streams that are being made.
        self._subjects = PatternSet()
        # Names of streams whose requests wait for the operation on another one.
        self._behind: dict[str, Operation] = {}
        self._waiting = 0
        self._waiting_bytes = 0

    def announce(self, operation: Operation) -> None:
        """Let requests wait for an operation; ``do`` follows."""
        assert operation.name not in self._by_name, "requests about it wait"
        self._by_name[operation.name] = operation
        for subject in operation.subjects:
            self._subjects.add(subject, operation)

    def do(
        self,
        operation: Operation,
        work: Callable[[], None],
        now: int,
        outbox: Outbox,
        *,
        at_once: bool,
    ) -> None:
        """Do what was announced; ``at_once`` when it does not wait for the disk."""

        def finish(error: OSError | None, now: int, outbox: Outbox) -> None:
            self._end(operation, error, now, outbox)

        beside = AtOnce() if at_once else self.beside
        beside.run(work, finish, now, outbox)

    def check(self, name: str) -> None:
        """Raise Postponed while something is done to the stream of this name, or is to be."""
        operation = self._by_name.get(name) or self._behind.get(name)
        if operation is not None:
            raise Postponed(operation)

    def check_subjects(self, config: StreamConfig) -> None:
        """Raise Postponed while a stream is being made that wants some of the same subjects."""
        if not self._by_name:
            return
        for subject in config.subjects:
            for operation in self._subjects.overlapping(subject.encode()):
                assert isinstance(operation, Operation), "nobody else is in it"
                raise Postponed(operation)

    def postpone(self, until: Operation, name: str, size: int, again: Again) -> bool:
        """Handle a request when an operation has ended; False when too many wait already.

        ``name`` is the stream that it is about, ``size`` that of its body.
        """
        if self._waiting >= WAITING_MAX or self._waiting_bytes + size > WAITING_BYTES_MAX:
            return False
        self._waiting += 1
        self._waiting_bytes += size
        if name != until.name:
            self._behind[name] = until
        until.waiting.append(again)
        until.waiting_bytes += size
        return True

    def _end(self, operation: Operation, error: OSError | None, now: int, outbox: Outbox) -> None:
        del self._by_name[operation.name]
        for subject in operation.subjects:
            self._subjects.remove(subject, operation)
        try:
            operation.finish(error, now, outbox)
        except Exception as failure:  # noqa: BLE001 - one operation, not those who wait for it
            self._failures.note(f"finishing what was done to {operation.name!r}", failure)
        self._behind = {
            name: until for name, until in self._behind.items() if until is not operation
        }
        self._waiting -= len(operation.waiting)
        self._waiting_bytes -= operation.waiting_bytes
        for again in operation.waiting:
            again(now, outbox)
