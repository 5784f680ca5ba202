"""Runs an engine on the event loop: requests in, outbox out, groups to the committer, one timer.

Everything is per chunk or per loop turn, never per message. A turn is scheduled when a chunk left
something for the disk or an unfinished read, so all sockets that are ready are read before the
groups of all dirty streams go to the committer together (hot-path.md, Disk).
"""

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from jetspark.api.advisory import StreamDamaged
from jetspark.clock import Clock
from jetspark.engine.advisories import Requester
from jetspark.engine.commits import Reported, for_disk
from jetspark.engine.engine import Engine
from jetspark.engine.operations import Finish
from jetspark.engine.outbox import Outbox, Outlet
from jetspark.engine.ports import EnginePorts
from jetspark.engine.requests.dispatch import handle
from jetspark.engine.stream.stream import Stream
from jetspark.engine.target import DIRECT_GET, TRANSFER, Target
from jetspark.server.jetstream.account_turns import AccountTurns
from jetspark.server.net.freed_memory import FREED_MIN, FreedMemory
from jetspark.server.routing.outlets import push_outlet, reply_outlet
from jetspark.server.routing.router import Router
from jetspark.store.commit_counts import CommitCounts
from jetspark.store.committer import Committer, Housekeeper, write
from jetspark.store.log.group import Group
from jetspark.store.reserve import Reserve
from jetspark.store.threads import DiskThreads
from jetspark.turn import UNIT_NS

log: logging.Logger = logging.getLogger("jetspark.server")

# What groups take together in one turn of the loop until the others wait for the next one.
LANDING_NS: Final = 3_000_000
HOUSE_PERIOD: Final = 30.0  # seconds
HOUSE_STREAMS: Final = 100  # in one turn of the loop
# While the disk is full: streams are asked to free space.
SPACE_PERIOD: Final = 1.0
# The timers of the loop do not notice that the clock was set or the machine suspended: no deadline
# is waited for longer than this without checking the clock.
LOOK_PERIOD: Final = 60.0  # seconds


class EngineDriver:
    """Connects one router and one engine, which gets it as its ports.

    ``flush`` writes what was queued for clients.
    """

    def __init__(
        self,
        make_engine: Callable[[EnginePorts], Engine],
        router: Router,
        clock: Clock,
        turns: AccountTurns,
        committer: Committer,
        flush: Callable[[Router], object],
        housekeeper: Housekeeper,
        counts: CommitCounts,
        threads: DiskThreads,
        reserve: Reserve,
        commit_delay_ns: int = 0,
    ) -> None:
        self.counts = counts
        self._reserve = reserve
        self._threads = threads
        self._housekeeper = housekeeper
        self._router = router
        self._outbox = router.outbox
        self._clock = clock
        self._wall_lead_ns = 0
        self._committer = committer
        self._flush = flush
        self._loop = asyncio.get_running_loop()
        self._turns = turns
        self._turn_due = False
        self._committing = False
        # How long a group may wait for more before it goes to the disk (decisions.md).
        self._commit_delay_ns = commit_delay_ns
        self._delayed: asyncio.TimerHandle | None = None
        self._closing = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: int | None = None
        self._house: asyncio.Handle | None = None
        self._freed_memory = FreedMemory()
        self._looks_for_space = False
        self._in_flight = 0
        # Streams of which a group is on disk and not applied yet, or not to its end.
        self._landing: deque[Stream] = deque()
        self._idle = asyncio.Event()
        self.engine: Engine = make_engine(self)
        # Called for messages of subjects that are new to the router: no call in between.
        self.resolve: Callable[[bytes], Target | None] = self.engine.resolve
        router.serve(
            self,
            self.engine.consumers.acks,
            self.engine.consumer_services.watched,
            self.engine.stored_subjects(),
        )
        self._follow_clock()
        self.follow_streams()

    def keep_house(self) -> None:
        """Start upkeep of all streams: a start finds what was left undone before it."""
        if self._house is None:
            self._keep_all(list(self.engine.streams.values()))

    def follow_streams(self) -> None:
        """Handle created or deleted streams: earlier routes are invalid, deadlines may be new."""
        self._router.follow_streams(
            self.engine.generation, stores_inboxes=self.engine.wants_inboxes()
        )
        self.wake()

    def _follow_if_needed(self) -> None:
        if self._router.generation != self.engine.generation:
            self.follow_streams()

    # Called by clients (``AccountEngine``) ------------------------------------------------------

    def request(
        self, target: Target, reply: bytes, headers: bytes, body: bytes, requester: Requester, /
    ) -> None:
        """Handle a request, and count its cost as work of its sender."""
        began = self._clock.monotonic_ns()
        try:
            self._take_request(target, reply, headers, body, requester)
        finally:
            self._router.turn.spend((self._clock.monotonic_ns() - began) // UNIT_NS)

    def _take_request(
        self, target: Target, reply: bytes, headers: bytes, body: bytes, requester: Requester
    ) -> None:
        now = self._clock.now_ns()
        if target.kind == DIRECT_GET:
            assert target.stream is not None
            self.engine.direct.get(
                target.stream, target.subject, body, reply, now, self._outbox, headers, requester
            )
        elif target.kind == TRANSFER:
            self.engine.transfers.handle(target.subject, body, reply, now, self._outbox)
            self._follow_if_needed()
            self.wake()
        else:
            outbox = self._outbox
            handle(self.engine, target.subject, body, reply, now, outbox, headers, requester)
            self._follow_if_needed()
        if self.engine.has_work() or self.engine.next_deadline() != self._timer_at:
            self.wake()

    def pull(self, key: bytes, headers: bytes, body: bytes, reply: bytes, /) -> bool:
        """Handle a pull request; False if the consumer does not exist."""
        now = int(self._router.now)
        return self.engine.deliveries.pull(key, headers, body, reply, now, self._outbox)

    def mark_dirty(self, stream: Stream, /) -> None:
        """Note that a stream has staged records: they go to the committer in the next turn."""
        self.engine.mark_dirty(stream)
        self.wake()

    def resumed(self) -> None:
        """Continue runs for a client whose output has room again."""
        if self.engine.is_stalled():
            self.wake()

    def interest_changed(self, subject: bytes, /) -> None:
        """Handle added or removed subscriptions to a deliver subject."""
        # By the clock: a client leaves without a chunk, and the last one may be minutes ago.
        self.engine.deliveries.interest_changed(subject, self._clock.now_ns())

    def confirmed(self, key: bytes, subject: bytes, /) -> None:
        """Handle the answer of a receiver to flow control."""
        self.engine.deliveries.confirmed(key, subject)

    # Called by the engine (``EnginePorts``) -----------------------------------------------------

    def reply_outlet(self, subject: bytes, /) -> Outlet | None:
        """Return the receiver of a reply subject."""
        return reply_outlet(self._router, subject)

    def push_outlet(self, subject: bytes, group: bytes, /) -> Outlet | None:
        """Return the receivers of a deliver subject, as members of a group."""
        return push_outlet(self._router, subject, group)

    def listens(self, subject: bytes, /) -> bool:
        """Return whether a client or a stream receives messages of a subject."""
        return self._router.listens(subject)

    def is_subscribed(self, subject: bytes, /) -> bool:
        """Return whether a subject itself is subscribed to; wildcards do not count."""
        return self._router.sublist.has_literal(subject)

    def wake(self) -> None:
        """Schedule a turn."""
        if not self._turn_due:
            self._turn_due = True
            self._turns.add(self._turn)

    def run(self, work: Callable[[], None], finish: Finish, _now: int, _outbox: Outbox, /) -> None:
        """Run disk work in the background; ``finish`` follows on the loop."""
        self._in_flight += 1
        self._threads.run(work, partial(self._worked, finish))

    def _worked(self, finish: Finish, error: OSError | None) -> None:
        self._in_flight -= 1
        now = self._clock.now_ns()
        self._router.set_time(now)
        try:
            finish(error, now, self._outbox)
        except Exception as failure:  # noqa: BLE001 - the loop continues
            self.engine.failures.note("background work", failure)
        self._follow_if_needed()
        if self.engine.has_work() or self.engine.next_deadline() != self._timer_at:
            self.wake()
        if self._in_flight == 0:
            self._idle.set()
        self._flush(self._router)

    # Turns -------------------------------------------------------------------------------------

    def _follow_clock(self) -> None:
        """Notify the engine if the system clock was set."""
        self._wall_lead_ns = self._clock.wall_lead_ns
        self.engine.follow_wall(self._clock.now_ns(), self._wall_lead_ns)

    def _turn(self) -> None:
        self._turn_due = False
        self._router.set_time(self._clock.now_ns())
        if self._clock.wall_lead_ns != self._wall_lead_ns:
            self._follow_clock()
        if self._landing:
            self._land_some()
        if self.engine.dirty and not self._waits():
            self._commit()
        try:
            if self.engine.operations.has_ready():
                self.engine.operations.handle_ready(self._router.now, self._outbox)
                self._follow_if_needed()
            more = self.engine.transfers.advance(self._router.now, self._outbox)
            more = more or self.engine.operations.has_ready()
            if self.engine.advance(int(self._router.now), self._outbox) or more:
                self.wake()
        except Exception as error:  # noqa: BLE001 - the loop continues
            self.engine.failures.note(f"a turn of account {self.engine.account!r}", error)
        if self._may_commit():
            self.wake()
        self._flush(self._router)
        if self.engine.is_stalled() and self.engine.unstall():
            self.wake()
        self._rearm()

    def _may_commit(self) -> bool:
        """Return whether a group could go to the committer: deliveries stage records, too."""
        if self._delayed is not None or not self.engine.dirty:
            return False
        return any(stream.log.staged.in_flight is None for stream in self.engine.dirty)

    def delay_commits(self, delay_ns: int) -> None:
        """Change how long open groups wait for more messages."""
        self._commit_delay_ns = delay_ns

    def _waits(self) -> bool:
        """Return whether open groups wait for more messages."""
        if self._commit_delay_ns <= 0 or self._closing:
            return False
        if self._delayed is None:
            self._delayed = self._loop.call_later(self._commit_delay_ns / 1e9, self._waited)
        return True

    def _waited(self) -> None:
        self._delayed = None
        self._commit()
        self._flush(self._router)
        self._rearm()

    def _commit(self) -> None:
        self._committing = True
        try:
            self._submit_groups()
        finally:
            self._committing = False

    def _submit_groups(self) -> None:
        taken = self.engine.take_groups(self._router.now, self._outbox)
        turn, rest, messages = for_disk(taken, self)
        self._in_flight += len(turn)
        self.counts.submitted(messages)
        for stream, group in rest:
            if isinstance(group, OSError):
                self.engine.failed(stream, group, self._outbox)
                self.wake()  # requests may be waiting for it
                continue
            self._in_flight += 1
            self.counts.submitted(len(group.entries))
            if group.parts is None:
                self.report(stream, write(stream.log.segments.files, group))
            else:
                self._threads.run(group.assemble, partial(self._assembled, stream, group))
        if turn:
            self._submit(turn)

    def _submit(self, turn: list[tuple[object, Group]]) -> None:
        """Hand over the groups of one turn: together if possible."""
        try:
            turn = self._committer.share(turn)
        except Exception as error:  # noqa: BLE001 - the loop continues
            self.engine.failures.note("writing several streams", error)
        for owner, group in turn:
            try:
                self._committer.submit(owner, group)
            except Exception as error:  # noqa: BLE001 - one group, not those after it
                assert isinstance(owner, tuple), "the driver and the stream"
                stream: Stream = owner[1]
                self.engine.failures.note(f"writing stream {stream.config.name!r}", error)
                self.report(stream, OSError(errno.EIO, "the group could not be submitted"))

    def _assembled(self, stream: Stream, group: Group, error: OSError | None) -> None:
        """Report a group with large messages of a stream in memory that was assembled."""
        self.report(stream, error or write(stream.log.segments.files, group))

    def report(self, stream: Stream, error: OSError | None) -> None:
        """Handle the committer's report of a stream's group."""
        group = stream.log.staged.in_flight
        # A group in the journal is on disk, whatever became of those before it in the segment.
        if group is None or not group.shared:
            error = error or stream.log.durability.sync_error
        again = self.engine.again(stream, error) if error is not None else None
        if again is not None:
            self._committer.submit((self, stream), again)
            return
        if error is None:
            self._land(stream, self._clock.now_ns())
            self._follow_if_needed()
        else:
            self._in_flight -= 1
            log.error(
                "Writing stream %r failed: %s; nothing of it was acknowledged; %s",
                stream.config.name,
                error,
                "messages are refused until there is space"
                if error.errno == errno.ENOSPC
                else "the stream is read-only until its files have been verified",
            )
            self.engine.failed(stream, error, self._outbox)
        if self.engine.has_work():
            self.wake()
        if self._in_flight == 0:
            self._idle.set()
        if not self._committing:
            # Otherwise it was written inline: the caller does the rest once, at its end.
            self._flush(self._router)
            self._rearm()

    def _land(self, stream: Stream, now: int) -> None:
        """Apply a group that is on disk, or some of it: the rest follows in the next turns."""
        done = True
        try:
            done = self.engine.committed(stream, self._outbox, now)
        except Exception as failure:  # noqa: BLE001 - the loop continues
            what = f"after a commit of stream {stream.config.name!r}"
            self.engine.failures.note(what, failure)
        if not done:
            self._land_later(stream)
            return
        self._in_flight -= 1
        self._keep_house(stream)
        if stream.log.durability.sync_error is not None:
            # It was in the journal, or the sync failed meanwhile: what follows is not written.
            self._in_flight += 1
            self.report(stream, stream.log.durability.sync_error)

    def _land_later(self, stream: Stream) -> None:
        """Continue with a group that is on disk in the next turn."""
        self._landing.append(stream)
        self.wake()

    def _land_some(self) -> None:
        """Continue with groups that are on disk, as long as there is time."""
        inside, self._committing = self._committing, True
        now = self._clock.now_ns()
        began = self._clock.monotonic_ns()
        try:
            for _ in range(len(self._landing)):
                self._land(self._landing.popleft(), now)
                if self._clock.monotonic_ns() - began >= LANDING_NS:
                    break
        finally:
            self._committing = inside
        if self._landing:
            self.wake()
        self._follow_if_needed()
        if self.engine.has_work():
            self.wake()
        if self._in_flight == 0:
            self._idle.set()

    def report_turn(self, reported: Reported) -> None:
        """Handle the reports of the groups of one frame.

        What is done once per turn is done at the end: a frame may have thousands of groups.
        """
        inside, self._committing = self._committing, True
        now = self._clock.now_ns()
        try:
            written = reported.written
            began = self._clock.monotonic_ns()
            others, kept = self.engine.committed_together(written, self._outbox, now)
            self._in_flight -= len(written) - len(others)
            for stream in kept:
                self._keep_house(stream)
            for stream in others:
                if stream.log.durability.sync_error is not None:
                    self.report(stream, None)
                elif self._clock.monotonic_ns() - began >= LANDING_NS:
                    self._land_later(stream)
                else:
                    self._land(stream, now)
            for stream, error in reported.failed:
                self.report(stream, error)
        finally:
            self._committing = inside
        self._follow_if_needed()
        if self.engine.has_work():
            self.wake()
        if self._in_flight == 0:
            self._idle.set()
        if not inside:
            self._flush(self._router)
            self._rearm()

    def _keep_all(self, streams: list[Stream]) -> None:
        """Maintain and scrub idle streams as well.

        Some at a time, so that many of them do not block the loop.
        """
        short = self._reserve.is_short(self._clock.now_ns())
        for stream in streams[:HOUSE_STREAMS]:
            if not stream.dropped:
                if short:
                    stream.log.upkeep.want_space()
                else:
                    stream.log.upkeep.want_note(True)
                self._keep_house(stream)
        left = streams[HOUSE_STREAMS:]
        if left:
            self._house = self._loop.call_soon(self._keep_all, left)
        else:
            self._note_freed(self.engine.take_freed())
            self._looks_for_space = short
            self._keep_all_later(SPACE_PERIOD if short else HOUSE_PERIOD)

    def _note_freed(self, size: int) -> None:
        """Have the memory of removed streams returned to the system, if it is much."""
        if size >= FREED_MIN:
            self._router.forget_routes()
        self._freed_memory.note(size)

    def _keep_all_later(self, wait: float) -> None:
        self._house = self._loop.call_later(
            wait, lambda: self._keep_all(list(self.engine.streams.values()))
        )

    def look_for_space(self) -> None:
        """Make every stream free what it can, because the disk is full.

        Not immediately: there may be many streams, and each of their writes may find it full.
        """
        if self._house is not None and not self._looks_for_space:
            self._looks_for_space = True
            self._house.cancel()
            self._keep_all_later(SPACE_PERIOD)

    def _keep_house(self, stream: Stream) -> None:
        """Run upkeep of a stream in the background."""
        if stream.log.quarantine.news:
            self._report_damage(stream)
        if stream.log.reader.refused_reads:
            stream.log.reader.read_refused_again()
        staged = stream.log.staged.position
        task = stream.log.take_task(self._clock.now_ns())
        if stream.log.staged.position > staged:
            # A segment can be removed once its consumer records are durable elsewhere.
            self.mark_dirty(stream)
        if task is not None:
            self._housekeeper.start(
                task,
                lambda failed: self._task_done(stream, failed),
                lambda: not (stream.dropped or stream.log.closed or stream.log.held),
                f"Upkeep of stream {stream.config.name!r} ({task.purpose})",
            )

    def _report_damage(self, stream: Stream) -> None:
        """Report new damage, in the log and by an advisory."""
        now = self._clock.now_ns()
        for damage in stream.log.quarantine.take_news():
            if damage.doubtful:
                log.warning(
                    "Stream %r: %d bytes at offset %d of %s are the rest of an interrupted write, "
                    "or were damaged since; they are kept in its quarantine",
                    stream.config.name, damage.length, damage.offset, damage.segment,
                )  # fmt: skip
            elif damage.offset < 0 and not damage.length and not damage.messages:
                name = stream.config.name
                log.error("Stream %r: %s (%s)", name, damage.reason, damage.segment)
            elif damage.offset < 0:
                log.error(
                    "Stream %r: %s (%s); %d messages are lost",
                    stream.config.name, damage.reason, damage.segment, damage.messages,
                )  # fmt: skip
            else:
                log.error(
                    "Stream %r: %d bytes at offset %d of %s are damaged (%s); "
                    "%d messages are lost",
                    stream.config.name, damage.length, damage.offset, damage.segment,
                    damage.reason, damage.messages,
                )  # fmt: skip
            advisory = StreamDamaged(
                stream=stream.config.name,
                first_seq=damage.first_seq,
                last_seq=damage.last_seq,
                messages=damage.messages,
                bytes=damage.length,
                reason=damage.reason,
                doubtful=damage.doubtful,
            )
            self.engine.advisories.send(advisory, now, self._outbox)

    def _task_done(self, stream: Stream, failed: bool) -> None:
        was_failed = stream.log.access.failed
        stream.log.end_task(failed)
        error = stream.log.durability.sync_error
        if error is not None and stream.log.staged.in_flight is None:
            # Otherwise the report of the group in flight does it.
            self._in_flight += 1
            self.report(stream, error)
        elif was_failed and not stream.log.access.failed:
            log.info("Stream %r was verified and accepts writes again", stream.config.name)
            self.engine.reopened(stream)
        self.engine.may_remove(stream, self._clock.now_ns(), self._outbox)
        if not failed:
            self._keep_house(stream)

    def _rearm(self) -> None:
        deadline = self.engine.next_deadline()
        if deadline == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = deadline
        if deadline is not None:
            wait = max(0, deadline - self._clock.now_ns()) / 1e9
            self._timer = self._loop.call_later(min(wait, LOOK_PERIOD), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_at = None
        self._router.set_time(self._clock.now_ns())
        if self._clock.wall_lead_ns != self._wall_lead_ns:
            self._follow_clock()
        try:
            for stream in self.engine.expire(self._router.now, self._outbox):
                self._keep_house(stream)
        except Exception as error:  # noqa: BLE001 - the loop continues
            self.engine.failures.note(f"deadlines of account {self.engine.account!r}", error)
        self._follow_if_needed()
        if self.engine.has_work():
            self.wake()
        self._flush(self._router)
        self._rearm()

    def look(self) -> None:
        """Do what is due by the clock, which was moved: no timer of the loop knows that."""
        if self._timer is not None:
            self._timer.cancel()
        self._on_timer()

    @property
    def is_busy(self) -> bool:
        """Whether a turn is due, or groups are not on disk yet."""
        return self._turn_due or self._in_flight > 0 or bool(self.engine.dirty)

    async def settle(self) -> None:
        """Wait until everything staged is on disk and acknowledged."""
        self._closing = True
        self.engine.operations.close()
        self.engine.consumers.save_all()
        while self._turn_due or self._in_flight or self.engine.dirty:
            self._idle.clear()
            self.wake()
            await asyncio.sleep(0)
            if self._in_flight:
                await self._idle.wait()

    def close(self, until_ns: int) -> None:
        """Stop the timer and close the streams; write manifests until a time (monotonic)."""
        for timer in (self._timer, self._delayed, self._house):
            if timer is not None:
                timer.cancel()
        self._freed_memory.close()
        self.engine.close(lambda: self._clock.monotonic_ns() < until_ns)
