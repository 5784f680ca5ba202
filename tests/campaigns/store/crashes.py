"""Power failures, kills and disk errors at every step of a store's life, on the simulated disk.

``run_crashes`` lives random lives of a store. Before every step that changes the disk it takes
images of what a power failure then may leave, starts a store on each of them and has the
model judge it. Some of these starts are cut short as well. The life continues through kills,
power failures, full disks and failing syncs. A failure names the seed; the same seed fails again.

More than half of the images are equal to one that was judged just before, when nothing was
recorded since: a store is not started on those again.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.support.disk.simulated import CHANGING, Operation, SimulatedDisk
from tests.support.store.changes import Changes
from tests.support.store.model import (
    Opened,
    StoreModel,
    StreamModel,
    Violation,
    consumers,
    sequences,
)
from tests.support.store.state import Restated

from jetspark.store.committer import write, write_turn
from jetspark.store.files import NO_SPACE
from jetspark.store.format.manifest import Identity
from jetspark.store.log.stream_log import Group, StreamLog
from jetspark.store.sharing import write_unsynced

SEGMENT_SIZE: Final = 3000  # a few records each, so that lives have many segments
CACHE_BUDGET: Final = 1500
ACTIONS: Final = 30
LEVELS: Final = ("durable", "durable", "durable", "interval", "async")
WRITTEN_MAX: Final = 2
STREAMS_MAX: Final = 3
KILL_CHANCE: Final = 0.02  # per step
TOGETHER: Final = 0.3


@dataclass
class Crashes:
    """What a run did."""

    states: int = 0
    # Of these, equal to one that was judged before by the same model.
    repeated: int = 0
    lives: int = 0
    acked: int = 0
    doubtful: int = 0
    torn: int = 0
    segments_dropped: int = 0
    batches: int = 0
    restated: int = 0
    reopened: int = 0
    # Groups that were written to the journal, and releases of its files.
    shared: int = 0
    releases: int = 0

    def __str__(self) -> str:
        return (
            f"{self.states} crash states ({self.repeated} of them again) of {self.lives} lives, "
            f"{self.acked} changes acknowledged: 0 lost, 0 phantoms; {self.torn} torn tails, "
            f"{self.doubtful} doubtful"
        )


def run_crashes(
    states: int,
    *,
    seed: int = 0,
    go_on: Callable[[Crashes], bool] = lambda _: True,
    segment_size: int = SEGMENT_SIZE,
    together: float = TOGETHER,
) -> Crashes:
    """Check at least this many crash states; raises Violation with the seed of the life.

    ``go_on`` is asked after each life and may end the run early, for runs by the clock. With a
    small ``segment_size`` lives have many segments, and most of them are rewritten. ``together``
    is how often several streams change at once, and share a write of the journal.
    """
    done = Crashes()
    while done.states < states and go_on(done):
        life = _Life(seed + done.lives, done, segment_size, together)
        try:
            life.live()
        except Exception as error:
            last = "\n  ".join(str(step) for step in list(life.disk.operations)[-12:])
            raise Violation(f"seed {life.seed}: {error!r}; last steps:\n  {last}") from error
        done.lives += 1
    return done


class _Ended(BaseException):
    """The process ends here, inside whatever it was doing; the disk is what it leaves."""

    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__()
        self.disk = disk


class _Life:
    """One store from its first start on."""

    def __init__(self, seed: int, done: Crashes, segment_size: int, together: float) -> None:
        self.seed = seed
        self._together = together
        self._segment_size = segment_size
        self._random = Random(seed)
        self._done = done
        self._model = StoreModel()
        self._changes = Changes(self._random)
        self._judged: set[object] = set()
        self._judged_by: tuple[object, ...] = ()
        self.disk = SimulatedDisk()
        self.disk.before_step = self._before_step

    def live(self) -> None:
        """Live it to its end."""
        self._restart(self.disk)
        for _ in range(ACTIONS):
            if self._random.random() < 0.12:
                error = self._random.choice((errno.ENOSPC, errno.ENOSPC, errno.EIO))
                self.disk.fail(self._random.randint(1, 12), error)
            try:
                self._act()
            except _Ended as ended:
                self._restart(ended.disk)
            self.disk.forget_failures()
        self.disk.before_step = None
        self._opened.close()
        self._done.batches += self._changes.batches

    # What happens ------------------------------------------------------------------------------

    def _act(self) -> None:
        logs = self._opened.logs
        chance = self._random.random()
        many = self._together > TOGETHER
        if not logs or (chance < (0.3 if many else 0.08) and len(logs) < STREAMS_MAX):
            self._create()
        elif chance < 0.11:
            self._drop(self._random.choice(logs))
        elif chance < 0.16 or any(log.access.read_only and not log.access.failed for log in logs):
            self._end()
        elif any(log.access.failed for log in logs):
            self._reopen(next(log for log in logs if log.access.failed))
        elif self._random.random() < self._together:
            self._turn()
        else:
            self._change(self._random.choice(logs))

    def _create(self) -> None:
        number = self._random.getrandbits(64)
        identity = Identity(stream_id=number, account="A", name=f"S{number}", created_ns=1)
        stream = self._model.streams[number] = StreamModel(identity)
        stream.level = self._random.choice(LEVELS)
        if self._together > TOGETHER and self._random.random() < 0.8:
            stream.level = "durable"
        try:
            log = self._opened.store.create(identity)
        except OSError as error:
            # With no space nothing is left; after another error no one can say.
            self._model.sync_failed |= error.errno not in NO_SPACE
            return
        stream.created = True
        log.durability.choose(stream.level)
        self._opened.logs.append(log)

    def _drop(self, log: StreamLog) -> None:
        stream = self._model.streams[log.identity.stream_id]
        stream.dropping = True
        self._opened.logs.remove(log)
        try:
            self._opened.store.drop(log)
        except OSError as error:
            self._model.sync_failed |= error.errno not in NO_SPACE
            if log.access.read_only:
                # Its name could not be undone, or it took no writes before: no one can say.
                log.close()
            else:
                # It is what it was.
                stream.dropping = False
                self._opened.logs.append(log)
            return
        stream.dropped = True

    def _change(self, log: StreamLog) -> None:
        stream = self._model.streams[log.identity.stream_id]
        staged = self._changes.stage(log, stream)
        if not staged:
            return
        try:
            group = log.take_group()
            if group is None:
                raise Violation("something was staged and there is no group")
            behind = self._changes.stage(log, stream) if self._random.random() < 0.2 else 0
            self._write(group)
        except OSError as error:
            self._failed(log, stream, error)
            return
        self._committed(log, stream, staged)
        if behind:
            self._write_rest(log, stream, behind)
        if not log.access.failed:
            self._keep_house(log, stream)

    def _turn(self) -> None:
        """Several streams change at once: the journal makes that durable with one write."""
        journal = self._opened.store.journal
        if journal.wants_file:
            with suppress(OSError):
                journal.prepare()
        shared: list[tuple[StreamLog, StreamModel, int, Group]] = []
        for log in list(self._opened.logs):
            stream = self._model.streams[log.identity.stream_id]
            staged = self._changes.stage(log, stream)
            if staged:
                try:
                    group = log.take_group()
                    if group is None:
                        raise Violation("something was staged and there is no group")
                except OSError as error:
                    self._failed(log, stream, error)
                    continue
                shared.append((log, stream, staged, group))
        self._share([each for each in shared if each[3].may_share])
        for each in shared:
            if not each[3].may_share:
                self._report(*each, write(self.disk, each[3]))
        for log, stream, *_ in shared:
            if not log.access.failed:
                self._keep_house(log, stream)
        if self._random.random() < 0.3:
            self._release()

    def _share(self, turn: list[tuple[StreamLog, StreamModel, int, Group]]) -> None:
        journal = self._opened.store.journal
        if not journal.takes(len(turn), sum(int(each[3].size) for each in turn)):
            for each in turn:
                self._report(*each, write(self.disk, each[3]))
            return
        written = []
        for each in turn:
            each[3].share(True)
            if write_unsynced(self.disk, each[3]):
                written.append(each)
            else:
                each[3].share(False)
                self._report(*each, write(self.disk, each[3]))
        if written:
            groups = [each[3] for each in written]
            errors = write_turn(self.disk, journal, groups)
            self._done.shared += len(groups)
            for each, error in zip(written, errors, strict=True):
                self._report(*each, error)

    def _report(
        self,
        log: StreamLog,
        stream: StreamModel,
        staged: int,
        _group: Group,
        error: OSError | None,
    ) -> None:
        if error is not None:
            self._failed(log, stream, error)
        else:
            self._committed(log, stream, staged)

    def _release(self) -> None:
        """Sync what is only in the journal."""
        self._done.releases += 1
        failed = self._opened.store.journal.release(everything=self._random.random() < 0.5)
        for segment in failed:
            if segment.error is not None:
                log = next(
                    log for log in self._opened.logs if log.identity.stream_id == segment.stream_id
                )
                segment.stop(segment.error)
                stream = self._model.streams[segment.stream_id]
                self._failed(log, stream, segment.error)

    def _keep_house(self, log: StreamLog, stream: StreamModel) -> None:
        before = len(log.index.segments)
        # Too much that may be there or not has too many outcomes to try them all.
        due = stream.written > WRITTEN_MAX or self._random.random() < 0.2
        log.durability.want_sync(log.durability.unsynced and due)
        while (log.durability.sync_due or self._random.random() < 0.8) and log.maintain():
            pass
        self._done.segments_dropped += before - len(log.index.segments)
        if log.durability.sync_error is not None:
            self._failed(log, stream, log.durability.sync_error)
            return
        if not log.durability.unsynced:
            stream.synced()
        if log.staged.position > log.index.position:
            stream.staged(Restated())
            self._done.restated += 1
            self._write_rest(log, stream, 1)

    def _reopen(self, log: StreamLog) -> None:
        """A failed log is verified and continues, or the process ends with it."""
        if self._random.random() < 0.4:
            self._end()
        elif log.reopen():
            stream = self._model.streams[log.identity.stream_id]
            stream.cut_off()
            stream.synced()
            self._check_open(log, stream)
            self._done.reopened += 1

    def _write_rest(self, log: StreamLog, stream: StreamModel, staged: int) -> None:
        try:
            group = log.take_group()
            if group is None:
                raise Violation("something was staged and there is no group")
            self._write(group)
        except OSError as error:
            self._failed(log, stream, error)
            return
        self._committed(log, stream, staged)

    def _write(self, group: Group) -> None:
        error = write(self.disk, group)
        if error is not None:
            raise error

    def _committed(self, log: StreamLog, stream: StreamModel, staged: int) -> None:
        log.commit()
        stream.acknowledge(staged, durable=not log.durability.unsynced)
        stream.document = bytes(log.identity.config)
        self._done.acked += staged
        self._check_open(log, stream)

    def _check_open(self, log: StreamLog, stream: StreamModel) -> None:
        """Compare an open log with what readers must see."""
        seen = stream.visible()
        if sequences(log) != list(seen.messages):
            raise Violation(f"{sequences(log)} instead of {sorted(seen.messages)}")
        if consumers(log) != seen.consumers or log.engine_state.fast_batches != seen.fast_batches:
            raise Violation(
                f"{consumers(log)}, {log.engine_state.fast_batches} instead of {seen.consumers}"
            )

    def _failed(self, log: StreamLog, stream: StreamModel, error: OSError) -> None:
        failed_before = self._model.sync_failed
        # The system may show these bytes to the next process and lose them later anyway.
        self._model.sync_failed = True
        log.fail(error.errno in NO_SPACE)
        if not log.access.read_only:
            self._model.sync_failed = failed_before
        stream.failed(cut=not log.access.read_only)

    def _end(self) -> None:
        chance = self._random.random()
        if chance < 0.4:
            self._opened.close()
            self._restart(self.disk)
        elif chance < 0.7:
            self._restart(self.disk.survivor())
        else:
            self._restart(self.disk.image(self._random))

    def _restart(self, disk: SimulatedDisk) -> None:
        """Start a store; when that is cut short or a disk error stops it, start it again."""
        while True:
            self.disk.before_step = None
            self.disk = disk
            disk.before_step = self._before_step
            try:
                self._opened = Opened(disk, self._segment_size, CACHE_BUDGET, self._key)
            except OSError:
                self._model.sync_failed = True
            except _Ended as ended:
                disk = ended.disk
            else:
                break
        self._model.adopt(self._model.check(self._opened))
        for log in self._opened.logs:
            log.durability.choose(self._model.streams[log.identity.stream_id].level)

    def _key(self) -> int:
        return self._random.getrandbits(64)

    # What is looked at -------------------------------------------------------------------------

    def _before_step(self, operation: Operation) -> None:
        if operation.kind not in CHANGING:
            return
        # A sync is where writes are torn: look at it more often.
        for _ in range(4 if operation.kind == "sync" else 1):
            image = self.disk.image(self._random)
            if self._random.random() < 0.1:
                image = self._cut_short(image)
            self._look(image)
        chance = self._random.random()
        if chance < KILL_CHANCE:
            raise _Ended(self.disk.survivor())
        if chance < KILL_CHANCE * 1.5:
            raise _Ended(self.disk.image(self._random))

    def _look(self, image: SimulatedDisk) -> None:
        self._done.states += 1
        # The steps of a start that may be cut short have to be made.
        if image.before_step is None and self._was_judged(image):
            self._done.repeated += 1
            return
        opened = Opened(image, self._segment_size, CACHE_BUDGET, self._key)
        self._model.check(opened)
        for recovery in opened.recoveries.values():
            self._done.doubtful += len(recovery.doubtful)
            self._done.torn += recovery.torn_bytes > 0
        # An image whose start is cut short takes this close for a part of it.
        opened.close(note=image.before_step is not None)

    def _was_judged(self, image: SimulatedDisk) -> bool:
        """Say whether an equal image was judged by a model that knew the same."""
        moment = self._model.moment()
        if moment != self._judged_by:
            self._judged_by = moment
            self._judged.clear()
        content = image.content()
        if content in self._judged:
            return True
        self._judged.add(content)
        return False

    def _cut_short(self, image: SimulatedDisk) -> SimulatedDisk:
        """An image of a start on the image that a power failure ended."""
        steps: list[int] = []
        left: list[SimulatedDisk] = []
        target = self._random.randrange(12)

        def stop(operation: Operation) -> None:
            if operation.kind in CHANGING:
                steps.append(0)
                if len(steps) == target + 1:
                    left.append(image.image(self._random))

        image.before_step = stop
        self._look(image)
        image.before_step = None
        return left[0] if left else image
