"""The committer: one synced write per group, in the background of the event loop.

A plain queue to a thread does not overlap with compiled code, which never releases the interpreter
lock: the thread would start only once the loop is idle. So work is handed over with two locks.
``submit`` sets the work, releases ``go`` and then waits for ``started``, which the thread releases
just before its write; the wait releases the interpreter lock for a few microseconds.

Small groups are written inline while the disk is fast: for one publisher that waits for each ack,
a thread costs more than the write.

Groups of several streams share one synced write, into the journal (journal.md). Each of them is
written to its segment first, without a sync: that takes a few microseconds, and a thread would
have to wait for the interpreter lock once per group.

Each group is written once and reported once, whatever happens; groups of one owner are written
and reported in the order of submission.
"""

import errno
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeAlias, TypeVar, cast
from weakref import WeakValueDictionary

from jetspark.errors.storage import StorageFault, StoreClosed
from jetspark.store.commit_counts import CommitCounts
from jetspark.store.files import NO_SPACE, Files
from jetspark.store.journal.checkpointer import Checkpointer
from jetspark.store.journal.format import JournalGroup
from jetspark.store.journal.journal import Journal
from jetspark.store.journal.segment import JournaledSegment
from jetspark.store.sharing import divide, write_segments
from jetspark.store.threads import start_thread

if TYPE_CHECKING:
    from jetspark.store.log.group import Group

log: logging.Logger = logging.getLogger("jetspark.store")

INLINE_BYTES_MAX: Final = 16 * 1024
INLINE_AVERAGE_MAX_NS: Final = 300_000
# The average moves by an eighth per inline commit. It decays with each small group that a thread
# wrote in reasonable time, so that one slow phase of the disk does not disable inline commits
# permanently. While threads need longer than that for a group, none is written inline: on a disk
# that stays slow the loop waits for at most one sync, the one that detects it.
AVERAGE_WEIGHT: Final = 8
DECAY_WEIGHT: Final = 32
SLOW_NS: Final = 2_000_000
WORKERS_MAX: Final = 4
# The journal writes every byte twice, so large groups are written to their segments only.
SHARED_BYTES_MAX: Final = 64 * 1024
# Fewer groups than this are not worth a frame.
SHARED_MIN: Final = 2

_manifest_locks: Final[WeakValueDictionary[Path, threading.RLock]] = WeakValueDictionary()
_of_manifest_locks: Final = threading.Lock()


def manifest_change(folder: Path) -> AbstractContextManager[bool]:
    """Return a lock to hold while the manifests of a folder are read, changed and written.

    The loop does that, and so do tasks in the housekeeper's thread. One lock per folder: the loop
    must not wait for the disk because another stream's manifest is being synced. Reentrant: a
    simulated disk starts another store in the middle of a write.
    """
    with _of_manifest_locks:
        lock = _manifest_locks.get(folder)
        if lock is None:
            lock = _manifest_locks[folder] = threading.RLock()
        return lock


Job = TypeVar("Job")
Result = TypeVar("Result")


class Work(Protocol):
    """A group as the committer sees it (``store.log.Group`` is one)."""

    @property
    def handle(self) -> int:
        """The file to write to."""
        ...

    @property
    def offset(self) -> int:
        """The offset in the file."""
        ...

    @property
    def size(self) -> int:
        """The number of bytes to write."""
        ...

    @property
    def blob(self) -> bytes:
        """The bytes to write, after ``assemble``."""
        ...

    @property
    def filler(self) -> bytes:
        """Bytes to write after the blob; nothing depends on them."""
        ...

    @property
    def synced(self) -> bool:
        """Whether it must be on disk before it is reported."""
        ...

    @property
    def before(self) -> object | None:
        """What ``prepare`` has to do; None if nothing."""
        ...

    def assemble(self) -> None:
        """Assemble the bytes to write, which may take a while."""
        ...

    def prepare(self) -> None:
        """Do what must be done on disk before the write; raises OSError."""
        ...

    @property
    def segment(self) -> JournaledSegment | None:
        """The segment as the journal knows it; None if the journal has nothing of it."""
        ...

    @property
    def may_share(self) -> bool:
        """Whether the journal may have the group."""
        ...

    @property
    def last_seq(self) -> int:
        """The last sequence that was assigned with it."""
        ...

    def share(self, shared: bool) -> None:
        """Set whether the journal makes it durable."""
        ...

    def truncate(self, files: Files) -> None:
        """Truncate what a full disk accepted of it."""
        ...


Report = Callable[[object, OSError | None], None]
# A group with its owner; the groups of a turn, or of one frame.
OneGroup: TypeAlias = tuple[object, Work]
Turn: TypeAlias = "list[tuple[object, Group]]"
ReportTurn = Callable[[list[tuple[object, OSError | None]]], None]


class Committer(Protocol):
    """Writes groups durably and reports each one exactly once, immediately or later."""

    def submit(self, owner: object, work: Work) -> None:
        """Write a group; ``report(owner, error)`` is called afterwards."""
        ...

    def share(self, turn: "Turn") -> "Turn":
        """Write groups of several owners together; return those that are to be submitted."""
        ...

    def close(self) -> None:
        """Finish submitted groups and stop."""
        ...


class InlineCommitter:
    """Writes immediately, in the caller: for tests and for tools without a loop."""

    def __init__(self, files: Files, report: Report) -> None:
        self._files = files
        self._report = report

    def submit(self, owner: object, work: Work) -> None:
        """Write a group and report it before returning."""
        self._report(owner, write(self._files, work))

    def share(self, turn: "Turn") -> "Turn":
        """Share nothing."""
        return turn

    def close(self) -> None:
        """Do nothing: no group is ever outstanding."""


class ThreadCommitter:
    """Writes small groups inline and large ones in up to ``workers_max`` threads.

    ``report`` is called in the caller's thread for inline groups and through ``hand_back`` (such
    as ``loop.call_soon_threadsafe``) for the others. Not thread-safe: ``submit`` and ``close``
    belong to the thread in which ``hand_back`` runs callbacks.
    """

    def __init__(
        self,
        files: Files,
        report: Report,
        hand_back: Callable[[Callable[[], None]], object],
        monotonic_ns: Callable[[], int],
        *,
        workers_max: int = WORKERS_MAX,
        inline_bytes_max: int = INLINE_BYTES_MAX,
        counts: CommitCounts | None = None,
        make_room: Callable[[], None] | None = None,
        journal: Journal | None = None,
        checkpointer: Checkpointer | None = None,
        report_turn: ReportTurn | None = None,
    ) -> None:
        """``report_turn`` is called with all groups of a frame, instead of ``report``."""
        self._journal = journal
        self._checkpointer = checkpointer
        self._report_turn = report_turn or self._report_each
        self._files = files
        self._make_room = make_room
        self._report = report
        self._hand_back = hand_back
        self._monotonic_ns = monotonic_ns
        self._inline_bytes_max = inline_bytes_max
        self.counts: CommitCounts = counts or CommitCounts()
        # The first group, written by a thread, shows how fast the disk is.
        self._average_ns = INLINE_AVERAGE_MAX_NS
        # All threads at once: later there may be no room for another.
        self._workers: list[_Worker[OneGroup, OSError | None]] = []
        self._sharer: _Worker[Turn, list[OSError | None]] | None = None
        try:
            for _ in range(workers_max):
                self._workers.append(_Worker(self._write_one, self._done, monotonic_ns))
            if journal is not None:
                self._sharer = _Worker(self._write_turn, self._turn_done, monotonic_ns)
        except OSError:
            for worker in self._workers:
                worker.stop()
            raise
        self._idle: list[_Worker[OneGroup, OSError | None]] = list(self._workers)
        # The groups of the next frame, their size, and whether a thread is writing a frame.
        self._shared: Turn = []
        self._shared_size = 0
        self._sharing = False
        # Groups of owners without a group in flight for which no thread is free; bounded by the
        # number of owners, as each of them waits for a report before it submits again.
        self._waiting: deque[OneGroup] = deque()
        # The owners with a group in a thread or waiting for one, and the groups they submitted
        # after it.
        self._busy: dict[int, deque[Work]] = {}
        self._closed = False

    def submit(self, owner: object, work: Work) -> None:
        """Write a group; ``report(owner, error)`` is called afterwards."""
        if self._closed:
            raise StoreClosed("the committer is closed: nothing can be written")
        queued = self._busy.get(id(owner))
        if queued is not None:
            queued.append(work)
        elif (
            work.size <= self._inline_bytes_max
            and self._average_ns < INLINE_AVERAGE_MAX_NS
            and work.before is None
            and not (work.segment is not None and work.segment.is_entered)
        ):
            self._write_inline(owner, work)
        else:
            self._busy[id(owner)] = deque()
            self._write_in_thread(owner, work)

    def share(self, turn: "Turn") -> "Turn":
        """Write groups of several owners together; return those that are to be submitted.

        No owner may have a group in flight.
        """
        journal = self._journal
        if journal is None or self._closed or not (self._sharing or len(turn) >= SHARED_MIN):
            return turn
        shared, left, size = divide(turn, SHARED_BYTES_MAX)
        if not self._sharing and len(shared) < SHARED_MIN:
            return turn
        if not journal.takes(len(shared) + len(self._shared), size + self._shared_size):
            if self._checkpointer is not None:
                self._checkpointer.want(len(shared))
            return turn
        self._write_segments(shared)
        self._shared_size += size
        if self._shared and not self._sharing:
            self._start_turn()
        return left

    def _write_segments(self, turn: Turn) -> None:
        """Write groups to their segments without a sync, before their frame."""
        written, failed = write_segments(self._files, turn)
        self._shared += written
        for owner, work in failed:
            # Its own problem: written again, with a sync, it succeeds or is reported.
            self._busy[id(owner)] = deque()
            self._write_in_thread(owner, work)

    def _start_turn(self) -> None:
        turn, size = self._shared, self._shared_size
        self._shared, self._shared_size = [], 0
        assert self._sharer is not None, "a committer with a journal has a thread for it"
        if size > self._inline_bytes_max or self._average_ns >= INLINE_AVERAGE_MAX_NS:
            self._sharing = True
            self._sharer.start(turn)
            return
        started = self._monotonic_ns()
        errors = self._write_turn(turn)
        took = self._monotonic_ns() - started
        self._average_ns += (took - self._average_ns) // AVERAGE_WEIGHT
        self._finish_turn(turn, errors, took, inline=True)

    def _write_turn(self, turn: Turn) -> list[OSError | None]:
        assert self._journal is not None, "groups are shared through the journal"
        works = [work for _, work in turn]
        return write_turn(self._files, self._journal, works, self._make_room)

    def _turn_done(
        self,
        worker: "_Worker[Turn, list[OSError | None]]",
        turn: Turn,
        errors: list[OSError | None],
    ) -> None:
        # Runs in the worker's thread.
        took = worker.took_ns
        self._hand_back(lambda: self._turn_written(turn, errors, took))

    def _turn_written(self, turn: Turn, errors: list[OSError | None], took: int) -> None:
        self._sharing = False
        if not self._closed and self._shared:
            self._start_turn()
        self._finish_turn(turn, errors, took, inline=False)

    def _finish_turn(
        self, turn: Turn, errors: list[OSError | None], took: int, *, inline: bool
    ) -> None:
        size = sum(work.size for _, work in turn)
        if size <= self._inline_bytes_max and not inline:
            self._note_small(took)
        self.counts.written_turn(size, took, errors, inline=inline)
        if self._checkpointer is not None:
            self._checkpointer.wake()
        self._report_turn([(each[0], error) for each, error in zip(turn, errors, strict=True)])

    def _report_each(self, reports: list[tuple[object, OSError | None]]) -> None:
        for owner, error in reports:
            self._report(owner, error)

    def _write(self, work: Work) -> OSError | None:
        return write(self._files, work, self._make_room)

    def _write_one(self, one: OneGroup) -> OSError | None:
        return self._write(one[1])

    def _write_inline(self, owner: object, work: Work) -> None:
        started = self._monotonic_ns()
        error = self._write(work)
        took = self._monotonic_ns() - started
        self._average_ns += (took - self._average_ns) // AVERAGE_WEIGHT
        self.counts.written(work.size, took, error, inline=True)
        self._report(owner, error)

    def _write_in_thread(self, owner: object, work: Work) -> None:
        if self._idle:
            self._idle.pop().start((owner, work))
        else:
            self._waiting.append((owner, work))

    def _done(
        self,
        worker: "_Worker[OneGroup, OSError | None]",
        one: OneGroup,
        error: OSError | None,
    ) -> None:
        # Runs in the worker's thread: everything else happens in the caller's.
        owner, size, took = one[0], one[1].size, worker.took_ns
        self._hand_back(lambda: self._finish(worker, owner, size, took, error))

    def _note_small(self, took: int) -> None:
        """Note how long a thread took to write a small group."""
        if took > SLOW_NS:
            self._average_ns = max(self._average_ns, took)
        else:
            self._average_ns -= self._average_ns // DECAY_WEIGHT

    def _finish(
        self,
        worker: "_Worker[OneGroup, OSError | None]",
        owner: object,
        size: int,
        took: int,
        error: OSError | None,
    ) -> None:
        self.counts.written(size, took, error, inline=False)
        if size <= self._inline_bytes_max:
            self._note_small(took)
        if self._closed:
            self._report(owner, error)
            self._write_rest(owner)
            return
        queued = self._busy[id(owner)]
        if queued:
            self._waiting.append((owner, queued.popleft()))
        else:
            del self._busy[id(owner)]
        # The next group is submitted before the last one is applied: they overlap.
        if self._waiting:
            worker.start(self._waiting.popleft())
        else:
            self._idle.append(worker)
        self._report(owner, error)

    def _write_rest(self, owner: object) -> None:
        for work in self._busy.pop(id(owner)):
            self._report(owner, self._write(work))

    def close(self) -> None:
        """Finish every submitted group and stop the threads; idempotent.

        Groups that no thread had started are written and reported before this returns. Those that
        one had started are written; their reports are delivered through ``hand_back``.
        """
        if self._closed:
            return
        self._closed = True
        for worker in self._workers:
            worker.stop()
        if self._sharer is not None:
            self._sharer.stop()
        if self._shared:
            turn, self._shared = self._shared, []
            self._finish_turn(turn, self._write_turn(turn), 0, inline=True)
        while self._waiting:
            owner, work = self._waiting.popleft()
            self._report(owner, self._write(work))
            self._write_rest(owner)
        self._workers.clear()
        self._idle.clear()


class _Worker(Generic[Job, Result]):
    """One thread that does one write at a time."""

    def __init__(
        self,
        write: Callable[[Job], Result],
        done: Callable[["_Worker[Job, Result]", Job, Result], None],
        monotonic_ns: Callable[[], int],
    ) -> None:
        self._write = write
        self._done = done
        self._monotonic_ns = monotonic_ns
        self.took_ns = 0
        self._go = threading.Lock()
        self._started = threading.Lock()
        self._go.acquire()
        self._started.acquire()
        self._job: Job | None = None
        self._thread = start_thread("jetspark-committer", self._run)

    def start(self, job: Job) -> None:
        """Hand over a group, or several; returns just before the thread writes them."""
        self._job = job
        self._go.release()
        self._started.acquire()

    def stop(self) -> None:
        """End the thread after its current write."""
        self._job = None
        self._go.release()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._go.acquire()
            job, self._job = self._job, None
            if job is None:
                return
            self._started.release()
            started = self._monotonic_ns()
            result = self._write(job)
            self.took_ns = self._monotonic_ns() - started
            self._done(self, job, result)
            # A thread that waits must not keep a stream that was removed.
            del job, result


class Steps(Protocol):
    """Work that can be done in steps (``Task`` implements it)."""

    def step(self) -> bool:
        """Do a bounded piece of it; True when finished."""
        ...

    def pause_ns(self) -> int:
        """Return how long to wait before the next step, to leave the disk to others."""
        ...


class Housekeeper:
    """Runs the tasks of logs in one thread, one after the other; nothing waits for them.

    A compiled task holds the interpreter lock for at most one step, and releases it whenever it
    reads or writes. A task that must be throttled lets others pass; without a clock nothing waits.
    ``start`` and ``close`` belong to the thread in which ``hand_back`` runs callbacks.
    """

    def __init__(
        self,
        hand_back: Callable[[Callable[[], None]], object],
        monotonic_ns: Callable[[], int] | None = None,
    ) -> None:
        self._hand_back = hand_back
        self._monotonic_ns = monotonic_ns
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._open: list[_Job] = []
        # Waiting tasks; only the thread accesses them.
        self._slow: list[_Job] = []
        # When the next step of each kind of task is due.
        self._resume: dict[type, int] = {}
        self._closing = False
        self._thread: threading.Thread | None = start_thread("jetspark-housekeeper", self._run)

    def start(
        self,
        task: Steps,
        done: Callable[[bool], None],
        is_wanted: Callable[[], bool] = lambda: True,
        what: str = "upkeep",
    ) -> None:
        """Run a task; ``done(failed)`` is called once when it has ended.

        Errors are logged, as failure of ``what``, if the task ``is_wanted`` by then.
        """
        if self._closing:
            done(True)
            return
        job = _Job(task, done, is_wanted, what)
        self._open.append(job)
        self._queue.put(job)

    def close(self) -> None:
        """Stop after the current step; unfinished tasks count as failed."""
        self._closing = True
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        while self._open:
            self._finish(self._open[0])

    def _run(self) -> None:
        while (job := self._next()) is not None:
            if self._do(job):
                self._hand_back(partial(self._finish, job))
            else:
                self._slow.append(job)
            del job  # a thread that waits must not keep a stream that was removed

    def _next(self) -> "_Job | None":
        """Return the next job: a new one, or else one whose wait is over."""
        clock = self._monotonic_ns
        while clock is not None:
            first = min(self._slow, key=lambda job: job.resume_ns, default=None)
            wait = max(0, first.resume_ns - clock()) / 1e9 if first else None
            try:
                job = self._queue.get(timeout=wait)
            except Empty:
                assert first is not None, "a wait without a timeout ends with a new job"
                self._slow.remove(first)
                return first
            # Tasks of one kind share one pace, across all logs.
            if job is None or self._resume.get(type(job.task), 0) <= clock():
                return job
            job.wait_until(self._resume[type(job.task)])
            self._slow.append(job)
        return self._queue.get()

    def _do(self, job: "_Job") -> bool:
        """Run steps of a task; True when it has ended, False when it has to wait."""
        try:
            while not self._closing:
                if job.task.step():
                    job.succeeded()
                    return True
                pause = job.task.pause_ns()
                if pause > 0 and self._monotonic_ns is not None:
                    kind = type(job.task)
                    begin = max(self._monotonic_ns(), self._resume.get(kind, 0))
                    self._resume[kind] = begin + pause
                    job.wait_until(begin + pause)
                    return False
        except Exception as error:  # noqa: BLE001 - reported when it is finished
            # Nothing depends on a task, so its failure stops nothing else.
            job.raised(error)
        return True

    def _finish(self, job: "_Job") -> None:
        if job in self._open:
            self._open.remove(job)
            # A stream that is being removed deletes its folder while a task may use it.
            if job.error is not None and job.is_wanted():
                passing = isinstance(job.error, OSError | StorageFault)
                log.error(
                    "%s failed: %s; will be retried",
                    job.what,
                    job.error,
                    # Errors of the disk are self-explanatory. Others are bugs and need a
                    # traceback.
                    exc_info=None if passing else job.error,
                )
            job.done(job.failed)
        job.forget_error()


class _Job:
    """A task that was started."""

    def __init__(
        self,
        task: Steps,
        done: Callable[[bool], None],
        is_wanted: Callable[[], bool],
        what: str,
    ) -> None:
        self.what = what
        self.task = task
        self.done = done
        self.is_wanted = is_wanted
        self.failed = True
        self.error: Exception | None = None
        self.resume_ns = 0

    def succeeded(self) -> None:
        """Note that the task was finished."""
        self.failed = False

    def raised(self, error: Exception) -> None:
        """Note the error that ended it."""
        self.error = error

    def forget_error(self) -> None:
        """Drop a traceback that refers to the job: its stream may have been removed."""
        self.error = None

    def wait_until(self, resume_ns: int) -> None:
        """Set when the task continues."""
        self.resume_ns = resume_ns


def write_turn(
    files: Files,
    journal: Journal,
    turn: Sequence[Work],
    make_room: Callable[[], None] | None = None,
) -> list[OSError | None]:
    """Make groups durable that were written to their segments; return the error of each, if any.

    If the journal fails, each of them is written to its segment again, with a sync.
    """
    try:
        journal.write(cast("Sequence[JournalGroup[JournaledSegment]]", turn))
    except Exception as error:  # noqa: BLE001 - reported, never swallowed
        for work in turn:
            work.share(False)
        if journal.settled:
            return [write(files, work, make_room) for work in turn]
        # The frame may be on disk, and a start would apply it: nothing else may be written there
        # until it was invalidated. That is part of opening a failed log again.
        failure = OSError(errno.EIO, f"the journal failed: {error}")
        return [failure] * len(turn)
    return [None] * len(turn)


def write(files: Files, work: Work, make_room: Callable[[], None] | None = None) -> OSError | None:
    """Do the one write of a group, synced if requested; return the error, if any.

    ``make_room`` is called when the disk is full, before that is reported.

    An error that is not the disk's is a bug, but still one failed write like any other: its owner
    must be notified, and the thread must not die silently.
    """
    try:
        work.assemble()
        blobs = [work.blob, work.filler] if work.filler else [work.blob]
        if work.before is not None:
            work.prepare()
        if work.synced and work.segment is not None:
            with work.segment:
                files.write_synced(work.handle, blobs, work.offset)
        elif work.synced:
            files.write_synced(work.handle, blobs, work.offset)
        else:
            files.write(work.handle, blobs, work.offset)
    except OSError as error:
        if error.errno in NO_SPACE:
            work.truncate(files)
            if make_room is not None:
                make_room()
        return error
    except Exception as error:  # noqa: BLE001 - reported, never swallowed
        unexpected = OSError(errno.EIO, f"the write failed with {type(error).__name__}: {error}")
        unexpected.__cause__ = error
        return unexpected
    return None
