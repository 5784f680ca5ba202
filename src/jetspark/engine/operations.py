"""Creating and removing streams, and requests that take more than one turn of the loop.

The loop must not wait for the disk. An operation is checked on the loop, done in the background,
and finished on the loop; its answer is sent when it is finished, so it is on disk by then. A
search through very many subjects runs in steps on the loop, some in each turn. Each stream name
has at most one operation at a time: requests about a stream that is being created or removed wait
for its end and are then handled in order of arrival, and so does the creation of a stream with the
same subjects. A change of configuration that is not durable is an operation as well: the disk may
fail to store it, and then the stream keeps its previous one. Requests that name no stream, reads
and publishes are handled meanwhile: to them the stream exists until it is removed, and not before
it is created.
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
from jetspark.turn import UNITS_PER_TURN, Turn

# This many requests of an account may wait, as in nats-server's queue of API requests, and this
# many bytes of them; small requests, which are read in one turn, are counted separately, so that
# large ones do not take their room.
WAITING_MAX: Final = 10_000
LARGE_BYTES_MAX: Final = 64 * 1024 * 1024
SMALL_BYTES_MAX: Final = 16 * 1024 * 1024
# This many of the waiting requests, this many bytes of them, and what costs this much (turn.py),
# are handled per turn.
PER_TURN: Final = 10
BYTES_PER_TURN: Final = 256 * 1024
UNITS_OF_WAITING: Final = UNITS_PER_TURN // 2

STOPPING: Final = "the server is stopping; try again when it is back"

Again = Callable[[int, Outbox], None]
Finish = Callable[[OSError | None, int, Outbox], None]
# Does as much as one turn allows; True when finished.
Step = Callable[[], bool]


def _nothing(_error: OSError | None, _now: int, _outbox: Outbox) -> None:
    """Do nothing: the waiting requests continue."""


class Background(Protocol):
    """Runs the disk work of an engine in the background."""

    def run(self, work: Callable[[], None], finish: Finish, now: int, outbox: Outbox, /) -> None:
        """Run some work; ``finish(error, now, outbox)`` follows on the loop."""
        ...


class Operation:
    """An operation in progress: its stream, and the requests that wait for it."""

    def __init__(self, name: str, config: StreamConfig | None, finish: Finish) -> None:
        self.name = name
        # The configuration of a stream that is being created.
        self.subjects: list[bytes] = (
            [subject.encode() for subject in config.subjects] if config else []
        )
        self.finish = finish
        # The other streams whose requests wait for it.
        self.others: list[str] = []
        self.is_over: bool = False

    def block(self, name: str) -> None:
        """Note that requests of another stream wait for it."""
        self.others.append(name)

    def end(self) -> None:
        """Note that it has ended: nothing waits for it any more."""
        self.is_over = True


class Postponed(Exception):
    """A request has to wait for an operation, or for earlier requests."""

    def __init__(self, until: Operation | None) -> None:
        super().__init__(f"waits for stream {until.name!r}" if until else "waits for its turn")
        self.until = until


class Turnstile:
    """Admits one request at a time; the others wait for it.

    Large ones pass in order of arrival. Small ones, which are handled at once, pass before the
    large ones that wait, so that none of them waits for more than one large one. ``release``
    continues those that wait for an operation that has ended.
    """

    def __init__(self, release: Callable[[Operation], None]) -> None:
        self._release = release
        self._passing: Operation | None = None

    def check(self) -> None:
        """Raise Postponed while another request is inside."""
        if self._passing is not None:
            raise Postponed(self._passing)

    def is_taken(self) -> bool:
        """Return whether a request is inside."""
        return self._passing is not None

    def take(self) -> None:
        """Enter, so that others wait; ``leave`` follows."""
        assert self._passing is None, "one at a time"
        self._passing = nameless()

    def leave(self) -> None:
        """Let the next one enter."""
        assert self._passing is not None, "it was taken"
        passed, self._passing = self._passing, None
        self._release(passed)


class Operations:
    """The operations of one account in progress."""

    def __init__(self, failures: Failures, background: Background, turn: Turn) -> None:
        self._background = background
        self._turn = turn
        self._failures = failures
        self._by_name: dict[str, Operation] = {}
        # The subjects of the streams that are being created.
        self._subjects = PatternSet()
        # Names of streams whose requests wait for the operation on another one.
        self._blocked_by: dict[str, Operation] = {}
        # The waiting requests, by the stream that they are about, and their sizes. A request is
        # visited when nothing blocks it: at the end of an operation only those that can be handled
        # cost something, however many wait.
        self._queues: dict[str, deque[tuple[int, Again]]] = {}
        self._waiting = 0
        self._large_bytes = 0
        self._small_bytes = 0
        # Names of streams whose requests no longer have to wait.
        self._ready: deque[str] = deque()
        # Operations in steps; one of them runs a step in each turn.
        self._stepping: deque[tuple[Operation | None, Step]] = deque()
        # The one whose request is being handled.
        self._current: str | None = None
        # A request that takes several turns creates or changes a stream: until it is finished, no
        # other stream gets subjects.
        self.claims: Turnstile = Turnstile(self.release)
        # Requests with a long body: one of them takes thirty times its size in memory while it is
        # processed, so many at a time would take gigabytes.
        self.long_requests: Turnstile = Turnstile(self.release)
        # The server is stopping: nothing is started any more.
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
        """Run an announced operation; ``at_once`` if it does not block on the disk."""

        def finish(error: OSError | None, now: int, outbox: Outbox) -> None:
            self._end(operation, error, now, outbox)

        work = partial(self.unless_closed, work)
        if at_once or self.closed:
            finish(attempt(work), now, outbox)
        else:
            self.run_in_background(work, finish, now, outbox)

    def run_in_background(
        self, work: Callable[[], None], finish: Finish, now: int, outbox: Outbox
    ) -> None:
        """Run disk work in the background for which no request waits."""
        self._background.run(work, finish, now, outbox)

    def unless_closed(self, work: Callable[[], None]) -> None:
        """Run some work unless the server is stopping; OSError then, and nothing was done.

        Checked when the work starts: a stop does not wait for work that is queued for the disk.
        """
        if self.closed:
            raise OSError(errno.ESHUTDOWN, STOPPING)
        work()

    def in_steps(self, name: str, step: Step, finish: Finish = _nothing) -> Operation:
        """Run an operation on a stream in steps, in the following turns; then ``finish``."""
        operation = Operation(name, None, finish)
        self.announce(operation)
        self._stepping.append((operation, step))
        return operation

    def aside(self, step: Step) -> None:
        """Run something in the following turns for which no request waits."""
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
        """End an operation; ``handle_ready`` follows."""
        self._finish(operation, None, now, outbox)

    def check(self, name: str) -> None:
        """Raise Postponed while the stream of this name has an operation, or waits for one."""
        operation = self._by_name.get(name) or self._blocked_by.get(name)
        if operation is not None:
            raise Postponed(operation)
        if name in self._queues and name != self._current:
            raise Postponed(None)

    def is_in_progress(self, name: str) -> bool:
        """Return whether the stream of this name has an operation in progress."""
        return name in self._by_name

    def check_subjects(self, config: StreamConfig) -> None:
        """Raise Postponed while a stream with some of the same subjects is being created."""
        if not self._by_name:
            return
        for subject in config.subjects:
            self.check_subject(subject.encode())

    def check_subject(self, pattern: bytes) -> None:
        """Raise Postponed while a stream with some of the same subjects is being created."""
        for operation in self._subjects.overlapping(pattern):
            assert isinstance(operation, Operation), "only operations own subjects here"
            raise Postponed(operation)

    def release(self, operation: Operation) -> None:
        """Continue the requests that wait for an operation that has ended."""
        operation.end()
        small: list[str] = []
        for name in operation.others:
            if self._blocked_by.get(name) is operation:
                del self._blocked_by[name]
                queue = self._queues.get(name)
                if queue is not None and queue[0][0] <= AT_ONCE_MAX:
                    small.append(name)
                else:
                    self._ready.append(name)
        self._ready.extendleft(reversed(small))

    def postpone(self, until: Operation | None, name: str, size: int, again: Again) -> bool:
        """Handle a request when an operation has ended; False if too many wait already.

        ``name`` is its stream, ``size`` that of its body.
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
        elif until is not None and name != until.name and self._blocked_by.get(name) is not until:
            self._blocked_by[name] = until
            until.block(name)
        queue = self._queues.setdefault(name, deque())
        if name == self._current:
            # It was the first already.
            queue.appendleft((size, again))
        else:
            queue.append((size, again))
        return True

    def _count_waiting(self, change: int, size: int) -> None:
        """Count a request of this size that starts (1) or stops (-1) waiting."""
        self._waiting += change
        if size <= AT_ONCE_MAX:
            self._small_bytes += change * size
        else:
            self._large_bytes += change * size

    def has_ready(self) -> bool:
        """Return whether ``handle_ready`` has something to do."""
        return bool(self._ready or self._stepping)

    def handle_ready(self, now: int, outbox: Outbox) -> bool:
        """Handle requests that no longer wait, for one turn; True while there are more."""
        if self._current is not None:
            return True  # an operation ended at once: the loop below continues with the rest
        left, left_bytes = PER_TURN, BYTES_PER_TURN
        if self._stepping:
            self._step(now, outbox)
            left = 1  # the step used up the turn
        enough = self._turn.left - UNITS_OF_WAITING
        while self._ready and left > 0 and left_bytes > 0 and self._turn.left > enough:
            name = self._ready[0]
            queue = self._queues.get(name)
            if queue is None or name in self._by_name or name in self._blocked_by:
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
        return self.has_ready()

    def close(self) -> None:
        """Forget the waiting requests: running operations are finished, and no other is started.

        Operations that have not started are refused, and so are later ones.
        """
        self.closed = True
        self._queues.clear()
        self._ready.clear()
        self._stepping.clear()

    def _end(self, operation: Operation, error: OSError | None, now: int, outbox: Outbox) -> None:
        self._finish(operation, error, now, outbox)
        self.handle_ready(now, outbox)

    def _finish(
        self, operation: Operation, error: OSError | None, now: int, outbox: Outbox
    ) -> None:
        del self._by_name[operation.name]
        for subject in operation.subjects:
            self._subjects.remove(subject, operation)
        try:
            operation.finish(error, now, outbox)
        except Exception as failure:  # noqa: BLE001 - one operation, not those who wait for it
            self._failures.note(f"finishing an operation on {operation.name!r}", failure)
        if operation.name in self._queues:
            self._ready.append(operation.name)
        self.release(operation)


def nameless() -> Operation:
    """Return an operation that belongs to no stream: none has such a name."""
    return Operation(".", None, _nothing)
