"""Making and removing streams, and requests that take more than one turn of the loop.

The loop must not wait for the disk. An operation is checked on the loop, done beside it, and
finished on the loop again; its answer goes out when it is finished, so it is on disk by then. A
search through very many subjects goes in steps on the loop, some of it in each turn. There is one
operation for a name at a time: requests about a stream that is being made or removed wait for the
end and are then handled in the order in which they came, and so does the creation of a stream that
wants the same subjects. A change of a configuration that is not durable is an operation as well:
the disk may refuse it, and the stream has then what it had. What names no stream, and what reads
or publishes, is handled meanwhile: to them the stream exists until it is removed, and not before
it is made.
"""

import errno
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from jetspark.api.stream import StreamConfig
from jetspark.api.strict import AT_ONCE_MAX
from jetspark.engine.failures import Failures
from jetspark.engine.outbox import Outbox
from jetspark.store.threads import attempt
from jetspark.subjects.pattern_set import PatternSet

# So many requests of an account may wait, as in nats-server's queue of API requests, and so many
# bytes of them; those of small requests, which are read in one turn, count by themselves, so that
# large ones do not take their room.
WAITING_MAX: Final = 10_000
LARGE_BYTES_MAX: Final = 64 * 1024 * 1024
SMALL_BYTES_MAX: Final = 16 * 1024 * 1024
# So many of those that waited are handled in one turn of the loop, and so many bytes of them.
PER_TURN: Final = 10
BYTES_PER_TURN: Final = 256 * 1024

STOPPING: Final = "the server is stopping; ask again when it is back"

Again = Callable[[int, Outbox], None]
Finish = Callable[[OSError | None, int, Outbox], None]
# Does as much as one turn allows; True when all is done.
Step = Callable[[], bool]


class Beside(Protocol):
    """Does the disk work of an engine where it holds up nobody."""

    def run(self, work: Callable[[], None], finish: Finish, now: int, outbox: Outbox, /) -> None:
        """Do some work; ``finish(error, now, outbox)`` follows on the loop."""
        ...


class Operation:
    """One operation under way: the stream it is about, and the requests that wait for it."""

    def __init__(self, name: str, config: StreamConfig | None, finish: Finish) -> None:
        self.name = name
        # Those of a stream that is being made.
        self.subjects: list[bytes] = (
            [subject.encode() for subject in config.subjects] if config else []
        )
        self.finish = finish
        # The other streams whose requests wait for it.
        self.others: list[str] = []
        self.is_over = False


class Postponed(Exception):
    """A request has to wait for an operation, or for requests that came before it."""

    def __init__(self, until: Operation | None) -> None:
        super().__init__(f"waits for stream {until.name!r}" if until else "waits for its turn")
        self.until = until


class Turnstile:
    """Lets one request at a time through; the others wait for it.

    Large ones pass in the order in which they came. Small ones, which are handled at once, go
    before the large ones that wait, so that none of them waits for more than one large one.
    ``release`` lets those go on that wait for what is over.
    """

    def __init__(self, release: Callable[[Operation], None]) -> None:
        self._release = release
        self._passing: Operation | None = None

    def check(self) -> None:
        """Raise Postponed while another request passes."""
        if self._passing is not None:
            raise Postponed(self._passing)

    def is_taken(self) -> bool:
        """Say whether a request passes."""
        return self._passing is not None

    def take(self) -> None:
        """Let others wait; ``leave`` follows."""
        assert self._passing is None, "one at a time"
        self._passing = nameless()

    def leave(self) -> None:
        """The next one may pass."""
        assert self._passing is not None, "it was taken"
        passed, self._passing = self._passing, None
        self._release(passed)


class Operations:
    """The operations of one account that are under way."""

    def __init__(self, failures: Failures, beside: Beside) -> None:
        self._beside = beside
        self._failures = failures
        self._by_name: dict[str, Operation] = {}
        # The subjects of the streams that are being made.
        self._subjects = PatternSet()
        # Names of streams whose requests wait for the operation on another one.
        self._behind: dict[str, Operation] = {}
        # The requests that wait, by the stream that they are about, and their sizes. A request is
        # looked at when nothing is in its way: with each end of an operation only those that can
        # be handled cost something, however many wait.
        self._queues: dict[str, deque[tuple[int, Again]]] = {}
        self._waiting = 0
        self._large_bytes = 0
        self._small_bytes = 0
        # Names of streams whose requests need not wait any more.
        self._ready: deque[str] = deque()
        # What goes in steps; one of them has its step in each turn.
        self._stepping: deque[tuple[Operation | None, Step]] = deque()
        # The one whose request is being handled.
        self._current: str | None = None
        # A request that takes turns makes or changes a stream: until that is over, no other
        # stream gets subjects.
        self.claims: Turnstile = Turnstile(self.release)
        # Requests with a long body: what one of them becomes while it is carried out takes thirty
        # times its size in memory, so that many at a time would take gigabytes.
        self.long_requests: Turnstile = Turnstile(self.release)
        # The server stops: nothing begins any more.
        self.closed: bool = False

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

        work = partial(self.unless_closed, work)
        if at_once or self.closed:
            finish(attempt(work), now, outbox)
        else:
            self.run_beside(work, finish, now, outbox)

    def run_beside(
        self, work: Callable[[], None], finish: Finish, now: int, outbox: Outbox
    ) -> None:
        """Do disk work that no request waits for, off the loop."""
        self._beside.run(work, finish, now, outbox)

    def unless_closed(self, work: Callable[[], None]) -> None:
        """Do some work unless the server stops; OSError then, and nothing was done.

        It is asked when the work begins: a stop does not wait for what waits for the disk.
        """
        if self.closed:
            raise OSError(errno.ESHUTDOWN, STOPPING)
        work()

    def in_steps(self, name: str, step: Step, finish: Finish) -> Operation:
        """Do something about a stream in the turns that follow; ``finish`` comes after it."""
        operation = Operation(name, None, finish)
        self.announce(operation)
        self._stepping.append((operation, step))
        return operation

    def aside(self, step: Step) -> None:
        """Do something in the turns that follow for which no request waits."""
        self._stepping.append((None, step))

    def _step(self, now: int, outbox: Outbox) -> None:
        operation, step = self._stepping.popleft()
        error: OSError | None = None
        try:
            if not step():
                self._stepping.append((operation, step))
                return
        except Exception as failure:  # noqa: BLE001 - one operation, not those who wait for it
            self._failures.note("a search through very many subjects", failure)
            error = OSError(str(failure))
        if operation is not None:
            self._finish(operation, error, now, outbox)

    def begin(self, name: str) -> Operation:
        """Let requests about a stream wait until ``end``."""
        operation = Operation(name, None, _nothing)
        self.announce(operation)
        return operation

    def end(self, operation: Operation, now: int, outbox: Outbox) -> None:
        """What began is over; ``go_on`` follows."""
        self._finish(operation, None, now, outbox)

    def check(self, name: str) -> None:
        """Raise Postponed while something is done to the stream of this name, or is to be."""
        operation = self._by_name.get(name) or self._behind.get(name)
        if operation is not None:
            raise Postponed(operation)
        if name in self._queues and name != self._current:
            raise Postponed(None)

    def is_under_way(self, name: str) -> bool:
        """Say whether something is done to the stream of this name, or for it."""
        return name in self._by_name

    def check_subjects(self, config: StreamConfig) -> None:
        """Raise Postponed while a stream is being made that wants some of the same subjects."""
        if not self._by_name:
            return
        for subject in config.subjects:
            self.check_subject(subject.encode())

    def check_subject(self, pattern: bytes) -> None:
        """Raise Postponed while a stream is being made that wants some of the same subjects."""
        for operation in self._subjects.overlapping(pattern):
            assert isinstance(operation, Operation), "nobody else is in it"
            raise Postponed(operation)

    def release(self, operation: Operation) -> None:
        """Let those go on that wait for an operation which is over."""
        operation.is_over = True
        small: list[str] = []
        for name in operation.others:
            if self._behind.get(name) is operation:
                del self._behind[name]
                queue = self._queues.get(name)
                if queue is not None and queue[0][0] <= AT_ONCE_MAX:
                    small.append(name)
                else:
                    self._ready.append(name)
        self._ready.extendleft(reversed(small))

    def postpone(self, until: Operation | None, name: str, size: int, again: Again) -> bool:
        """Handle a request when an operation has ended; False when too many wait already.

        ``name`` is the stream that it is about, ``size`` that of its body.
        """
        if self.closed:
            return False
        is_small = size <= AT_ONCE_MAX
        waiting = self._small_bytes if is_small else self._large_bytes
        most = SMALL_BYTES_MAX if is_small else LARGE_BYTES_MAX
        if self._waiting >= WAITING_MAX or waiting + size > most:
            return False
        self._count_waiting(1, size)
        if until is not None and until.is_over:
            self._ready.append(name)
        elif until is not None and name != until.name and self._behind.get(name) is not until:
            self._behind[name] = until
            until.others.append(name)
        queue = self._queues.setdefault(name, deque())
        if name == self._current:
            # It was the first already.
            queue.appendleft((size, again))
        else:
            queue.append((size, again))
        return True

    def _count_waiting(self, change: int, size: int) -> None:
        """A request of this size begins to wait (1), or does not any more (-1)."""
        self._waiting += change
        if size <= AT_ONCE_MAX:
            self._small_bytes += change * size
        else:
            self._large_bytes += change * size

    def may_go_on(self) -> bool:
        """Say whether ``go_on`` has something to do."""
        return bool(self._ready or self._stepping)

    def go_on(self, now: int, outbox: Outbox) -> bool:
        """Handle requests that need not wait any more, for one turn; True while there are more."""
        if self._current is not None:
            return True  # an operation that ended at once: the loop below goes on with the rest
        left, left_bytes = PER_TURN, BYTES_PER_TURN
        if self._stepping:
            self._step(now, outbox)
            left = 1  # the step was as much as a turn allows
        while self._ready and left > 0 and left_bytes > 0:
            name = self._ready[0]
            queue = self._queues.get(name)
            if queue is None or name in self._by_name or name in self._behind:
                self._ready.popleft()
                continue
            size, again = queue.popleft()
            self._count_waiting(-1, size)
            left -= 1
            left_bytes -= size
            self._current = name
            try:
                again(now, outbox)
            finally:
                self._current = None
                if not queue:
                    del self._queues[name]
        return self.may_go_on()

    def close(self) -> None:
        """Forget the requests that wait: what has begun is finished, and nothing else begins.

        Operations that have not begun are refused, and so are those that are asked for later.
        """
        self.closed = True
        self._queues.clear()
        self._ready.clear()
        self._stepping.clear()

    def _end(self, operation: Operation, error: OSError | None, now: int, outbox: Outbox) -> None:
        self._finish(operation, error, now, outbox)
        self.go_on(now, outbox)

    def _finish(
        self, operation: Operation, error: OSError | None, now: int, outbox: Outbox
    ) -> None:
        del self._by_name[operation.name]
        for subject in operation.subjects:
            self._subjects.remove(subject, operation)
        try:
            operation.finish(error, now, outbox)
        except Exception as failure:  # noqa: BLE001 - one operation, not those who wait for it
            self._failures.note(f"finishing what was done to {operation.name!r}", failure)
        if operation.name in self._queues:
            self._ready.append(operation.name)
        self.release(operation)


def nameless() -> Operation:
    """Something to wait for that is about no stream: none has such a name."""
    return Operation(".", None, _nothing)


def _nothing(_error: OSError | None, _now: int, _outbox: Outbox) -> None:
    """Those who wait go on."""
