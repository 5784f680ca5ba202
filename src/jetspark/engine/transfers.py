"""Snapshots and restores in progress: dispatches their messages, and ends them."""

from functools import partial
from typing import TYPE_CHECKING, Final

from jetspark.api.advisory import StreamActed
from jetspark.api.enums import Action
from jetspark.engine.failures import BODY
from jetspark.engine.limits import READ_BYTES_PER_TURN, READ_RECORDS_PER_TURN
from jetspark.engine.long_work import Work
from jetspark.engine.operations import Postponed
from jetspark.engine.outbox import Budget, Outbox
from jetspark.engine.ports import EnginePorts
from jetspark.engine.refusal import Refusal
from jetspark.engine.restore import Restore
from jetspark.engine.snapshot import ACK_PREFIX, Snapshot
from jetspark.engine.stream.stream import Stream
from jetspark.engine.wanted_subjects import AT_ONCE_MAX, Claim
from jetspark.errors.codes import ErrCode
from jetspark.steps import Steps
from jetspark.store.log.long_read import LongRead

if TYPE_CHECKING:
    from jetspark.engine.engine import Engine

# Each has a part of an archive in memory, or a group in flight.
SNAPSHOTS_MAX: Final = 64
RESTORES_MAX: Final = 16


class Transfers:
    """The snapshots and restores of one account."""

    def __init__(self, engine: "Engine", ports: EnginePorts) -> None:
        self._engine = engine
        self._ports = ports
        self._snapshots: dict[bytes, Snapshot] = {}
        self._restores: dict[bytes, Restore] = {}
        self.by_stream: dict[Stream, Restore] = {}

    # Beginning ---------------------------------------------------------------------------------

    def add_snapshot(self, snapshot: Snapshot) -> None:
        """Start a snapshot; raises Refusal if too many are in progress."""
        if len(self._snapshots) >= SNAPSHOTS_MAX:
            text = f"{SNAPSHOTS_MAX} snapshots are in progress already; try again later"
            raise Refusal(ErrCode.SNAPSHOT_FAILED, err=text)
        self._snapshots[snapshot.id] = snapshot
        if self._ports.is_subscribed(snapshot.deliver):
            snapshot.start()

    def check_room(self) -> None:
        """Raise Refusal if too many restores are in progress."""
        if len(self._restores) >= RESTORES_MAX:
            text = f"{RESTORES_MAX} restores are in progress already; try again later"
            raise Refusal(ErrCode.RESTORE_FAILED, err=text)

    def add_restore(self, restore: Restore) -> None:
        """Start a restore."""
        self._restores[restore.subject] = restore
        self.by_stream[restore.stream] = restore
        self._engine.routes_changed()

    # Messages ----------------------------------------------------------------------------------

    def knows(self, subject: bytes) -> bool:
        """Return whether a message on this subject is for a snapshot or a restore."""
        if subject.startswith(ACK_PREFIX):
            return self._snapshot(subject) is not None
        return subject in self._restores

    def handle(self, subject: bytes, body: bytes, reply: bytes, now: int, outbox: Outbox) -> None:
        """Handle a chunk of a restore, or the acknowledgement of a chunk."""
        restore = self._restores.get(subject)
        if restore is not None:
            self._take(restore, body, reply, now, outbox)
            return
        snapshot = self._snapshot(subject)
        number = subject.rpartition(b".")[2]
        if snapshot is not None and number.isdigit() and len(number) < 20:
            snapshot.acknowledged(int(number), now)

    def _snapshot(self, subject: bytes) -> Snapshot | None:
        tokens = subject[len(ACK_PREFIX) :].split(b".")
        return self._snapshots.get(tokens[1]) if len(tokens) == 4 else None

    def _take(self, restore: Restore, body: bytes, reply: bytes, now: int, outbox: Outbox) -> None:
        if restore.has_ended():
            return
        if not body:
            restore.end(reply)
        elif restore.chunk(body, reply, now, outbox):
            self._engine.mark_dirty(restore.stream)
        if restore.ending is not None and not restore.is_busy():
            self._end(restore, restore.ending, now, outbox)

    def _end(self, restore: Restore, reply: bytes, now: int, outbox: Outbox) -> None:
        """Finish a restore: everything has arrived, and was processed."""
        if restore.finish(reply, now, self._engine.consumers.recorded) and self._fits(restore):
            self._engine.mark_dirty(restore.stream)
        else:
            self._give_up(restore, now, outbox)

    def _fits(self, restore: Restore, claim: Claim | None = None) -> bool:
        """Check again what may have changed since the start."""
        engine, config = self._engine, restore.config
        try:
            if config.name in engine.streams:
                raise Refusal(ErrCode.RESTORE_NAME_IN_USE)
            engine.usage.admit(config)
            engine.usage.check_room(config.storage, int(restore.stream.log.staged.size))
            # Very many are claimed in steps when everything is durable.
            if claim is None and len(config.subjects) <= AT_ONCE_MAX:
                engine.check_free(config)
        except Postponed:
            return True  # checked again when everything is durable
        except Refusal as refusal:
            restore.refuse(refusal.body)
            return False
        return True

    # The disk ----------------------------------------------------------------------------------

    def committed(self, stream: Stream, outbox: Outbox) -> bool:
        """Note that a group of a stream is durable; False if it is not of a restore."""
        restore = self.by_stream.get(stream)
        if restore is None:
            return False
        log = stream.log
        if restore.problem:
            self._give_up(restore, restore.now, outbox)
        elif restore.finishing is not None and log.index.position == log.staged.position:
            if len(restore.config.subjects) <= AT_ONCE_MAX and self._is_next(restore):
                self._reveal(restore, None, outbox)
            else:
                self._claim(restore, outbox)
        return True

    def _is_next(self, restore: Restore) -> bool:
        """Return whether no other operation is about to get the name or the subjects."""
        operations, config = self._engine.operations, restore.config
        if operations.claims.is_taken() or operations.is_in_progress(config.name):
            return False
        return len(config.subjects) > AT_ONCE_MAX or not self._engine.is_contested(config)

    def _claim(self, restore: Restore, outbox: Outbox) -> None:
        """Claim the subjects in the following turns, then show the stream."""
        operations = self._engine.operations
        claiming = Steps(self._engine.claiming(restore.config))
        begun = False

        def step() -> bool:
            nonlocal begun
            if not begun:
                if not self._is_next(restore):
                    return False
                operations.claims.take()
                begun = True
            if not claiming.step():
                return False
            try:
                claim = claiming.result()
            except Postponed:
                self._engine.abandon(None)
                self._claim(restore, outbox)  # a stream with some of them is being created
            except Refusal as refusal:
                self._engine.abandon(None)
                restore.refuse(refusal.body)
                self._give_up(restore, restore.now, outbox)
            except Exception as failure:  # noqa: BLE001 - one restore, not those who wait for it
                self._engine.abandon(None)
                self._fail(restore, failure, outbox)
            else:
                self._reveal(restore, claim, outbox)
            return True

        operations.aside(step)

    def failed(self, stream: Stream, outbox: Outbox) -> bool:
        """Note that a group of a stream could not be written; False if it is not of a restore."""
        restore = self.by_stream.get(stream)
        if restore is None:
            return False
        restore.fail("the disk could not store it; free some space and restore again")
        if restore.finishing is not None:
            self._give_up(restore, restore.now, outbox)
        return True

    def _reveal(self, restore: Restore, claim: Claim | None, outbox: Outbox) -> None:
        """Make the stream visible: everything is durable."""
        if not self._fits(restore, claim):
            if claim is not None:
                self._engine.abandon(claim)
            self._give_up(restore, restore.now, outbox)
            return
        engine, now = self._engine, restore.now
        try:
            answer = engine.reveal(restore.config, restore.stream, now, claim)
        except Exception as failure:  # noqa: BLE001 - one restore, not those who wait for it
            self._fail(restore, failure, outbox)
            return
        self._forget(restore)
        created = StreamActed(stream=restore.config.name, action=Action.CREATE)
        engine.advisories.send(created, now, outbox)
        outbox.reply(restore.finishing or b"", answer)
        engine.advisories.send(restore.completed(now), now, outbox)

    def _fail(self, restore: Restore, failure: Exception, outbox: Outbox) -> None:
        """Handle an unexpected error."""
        self._engine.failures.note(f"restoring stream {restore.config.name!r}", failure)
        restore.refuse(BODY)
        self._give_up(restore, restore.now, outbox)

    def _give_up(self, restore: Restore, now: int, outbox: Outbox) -> None:
        """Remove the hidden stream, and report why."""
        self._forget(restore)

        def finish(_error: OSError | None, now: int, outbox: Outbox) -> None:
            if restore.finishing is not None:
                outbox.reply(restore.finishing, restore.refused())
            self._engine.advisories.send(restore.completed(now), now, outbox)

        restore.stream.drop()
        self._engine.discard(restore.stream.log, finish, now, outbox)

    def _forget(self, restore: Restore) -> None:
        del self._restores[restore.subject]
        del self.by_stream[restore.stream]
        self._engine.routes_changed()

    # Time --------------------------------------------------------------------------------------

    def advance(self, now: int, outbox: Outbox) -> bool:
        """Send chunks and process received ones, for one turn; True while there is more."""
        for restore in [each for each in self._restores.values() if each.is_busy()]:
            if restore.step(b"", outbox):
                self._engine.mark_dirty(restore.stream)
            if restore.ending is not None and not restore.is_busy():
                self._end(restore, restore.ending, now, outbox)
            break  # the next one in the next turn: each step takes milliseconds
        if not self._snapshots:
            return self.may_send()
        budget = Budget(READ_RECORDS_PER_TURN, READ_BYTES_PER_TURN)
        for snapshot in list(self._snapshots.values()):
            try:
                ended = snapshot.step(budget, now, outbox)
            except LongRead as read:
                snapshot.read_later(True)
                self._engine.long_work.wait(read, partial(self._was_read, snapshot))
                ended = None
            if ended is not None:
                del self._snapshots[snapshot.id]
                self._engine.advisories.send(ended, now, outbox)
            else:
                # Start with the next one next time, so that a large one does not block the others.
                self._snapshots[snapshot.id] = self._snapshots.pop(snapshot.id)
        return self.may_send()

    def _was_read(self, snapshot: Snapshot, _work: Work) -> None:
        """Continue a snapshot whose next message was read."""
        snapshot.read_later(False)

    def may_send(self) -> bool:
        """Return whether there is something to do: a snapshot may send, or chunks wait."""
        if any(restore.is_busy() for restore in self._restores.values()):
            return True
        if not self._snapshots:
            return False
        return any(snapshot.may_send for snapshot in self._snapshots.values())

    def next_deadline(self) -> int | None:
        """Return when ``expire`` has something to do."""
        if not (self._snapshots or self._restores):
            return None
        deadlines = [each.deadline for each in self._snapshots.values() if each.deadline]
        deadlines += [each.deadline for each in self._restores.values() if each.deadline]
        return min(deadlines, default=None)

    def expire(self, now: int, outbox: Outbox) -> None:
        """End what waited too long, and check for new subscribers."""
        for snapshot in list(self._snapshots.values()):
            if not 0 < snapshot.deadline <= now:
                continue
            subscribed = self._ports.is_subscribed(snapshot.deliver)
            listens = subscribed or self._ports.listens(snapshot.deliver)
            ended = snapshot.expire(now, subscribed, listens, outbox)
            if ended is not None:
                del self._snapshots[snapshot.id]
                self._engine.advisories.send(ended, now, outbox)
        for restore in list(self._restores.values()):
            if 0 < restore.deadline <= now:
                restore.fail("no chunk arrived for too long")
                self._give_up(restore, now, outbox)

    def close(self) -> None:
        """Remove the hidden streams of unfinished restores."""
        for restore in list(self._restores.values()):
            self._forget(restore)
            self._engine.discard_now(restore.stream)
