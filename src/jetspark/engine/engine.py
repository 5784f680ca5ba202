"""The engine: the streams of an account, their requests, and work that waits for disk or time.

The driver resolves subjects to targets, passes messages and requests with ``now``, takes the
groups of dirty streams once per loop turn, and reports their results. ``next_deadline`` and
``expire`` replace timers, ``work`` is for reads that need more than one turn.
"""

import errno
from collections.abc import Callable, Generator
from functools import partial

import msgspec

from jetspark.api.account import AccountLimits
from jetspark.api.base import encode
from jetspark.api.enums import Retention, Storage
from jetspark.api.stream import STREAM_CREATE, StreamConfig, StreamCreateResponse
from jetspark.engine.advisories import Advisories
from jetspark.engine.batch.limits import BatchLimits
from jetspark.engine.commits import Commits, Taken
from jetspark.engine.consumer.config import Ceilings
from jetspark.engine.consumer.consumers import Consumers
from jetspark.engine.consumer.delivery_loop import DeliveryLoop
from jetspark.engine.consumer.interest import Interest
from jetspark.engine.consumer.services import ConsumerServices
from jetspark.engine.deadlines import Deadlines
from jetspark.engine.direct.gate import HeldReads
from jetspark.engine.direct.gets import DirectGets
from jetspark.engine.failures import Failures
from jetspark.engine.limits import READ_BYTES_PER_TURN, READ_RECORDS_PER_TURN
from jetspark.engine.long_work import LongWork
from jetspark.engine.operations import Finish, Operation, Operations, Postponed, nameless
from jetspark.engine.outbox import Budget, Entry, Outbox
from jetspark.engine.ports import EnginePorts, Standalone
from jetspark.engine.purges import Purges
from jetspark.engine.refusal import Refusal
from jetspark.engine.replicate.copies import Copies, level_of
from jetspark.engine.replicate.upstream import NoUpstreams, Upstreams
from jetspark.engine.restore import is_marked
from jetspark.engine.settings import EngineSettings, ceilings_of
from jetspark.engine.stream.config import decode_config, evicting
from jetspark.engine.stream.expectations import LongLook
from jetspark.engine.stream.state import stream_info
from jetspark.engine.stream.stream import Stream
from jetspark.engine.target import DIRECT_GET, NEXT, PUBLISH, REQUEST, TRANSFER, Target
from jetspark.engine.transfers import Transfers
from jetspark.engine.usage import AccountUsage
from jetspark.engine.wall import Wall
from jetspark.engine.wanted_subjects import Claim, WantedSubjects
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.ids import Nuid
from jetspark.steps import Pace
from jetspark.store.format.manifest import Identity
from jetspark.store.log.limits import Limits
from jetspark.store.log.stream_log import Group, StreamLog
from jetspark.store.store import FileStore
from jetspark.subjects.sublist import Sublist
from jetspark.turn import Turn
from jetspark.units import bounded

API_PREFIX = b"$JS.API."
TRANSFER_PREFIX = b"$JS.SNAPSHOT."
DIRECT_PREFIX = b"$JS.API.DIRECT.GET."
NEXT_PREFIX = b"$JS.API.CONSUMER.MSG.NEXT."
# This many subjects of a removed stream are freed per turn.
GIVEN_BACK = 16_384
# What a stream, a subject and a message take in memory, about (docs/store.md, Memory).
STREAM_BYTES = 16 * 1024
SUBJECT_BYTES = 142
MESSAGE_BYTES = 20


class NewStream:
    """A stream that is being created; ``make`` blocks on the disk."""

    def __init__(self, store: FileStore, identity: Identity, config: StreamConfig) -> None:
        self._store = store
        self.identity = identity
        self.config = config
        self.log: StreamLog | None = None

    def make(self) -> None:
        """Create it, durably; raises OSError, and then the stream does not exist."""
        in_memory = self.config.storage == "memory"
        create = self._store.create_in_memory if in_memory else self._store.create
        self.log = create(self.identity)


class Change:
    """A new configuration of a stream that the disk may still fail to store.

    What it gives up stays reserved until ``revision`` is durable, so that it can be restored.
    """

    def __init__(self, revision: int, operation: Operation) -> None:
        self.revision = revision
        self.operation = operation


class ApiCounter:
    """`$JS.API` answers of an account so far, and those that were errors.

    Direct gets are not counted, and message reads only if they failed, as in nats-server.
    """

    def __init__(self) -> None:
        self.total: int = 0
        self.errors: int = 0

    def count(self, *, failed: bool, is_read: bool = False) -> None:
        """Count an answered request."""
        self.errors += failed
        self.total += failed or not is_read


class Engine:
    """JetStream for one account."""

    def __init__(
        self,
        store: FileStore,
        *,
        account: str,
        random_id: Callable[[], int],
        ports: EnginePorts | None = None,
        settings: EngineSettings | None = None,
        held_reads: HeldReads | None = None,
        leader: str = "",
        next_id: Callable[[], str] | None = None,
        usage: AccountUsage | None = None,
        batch_limits: BatchLimits | None = None,
        upstreams: Upstreams | None = None,
        failures: Failures | None = None,
        turn: Turn | None = None,
    ) -> None:
        ports = ports or Standalone()
        self.failures: Failures = failures or Failures()
        self.turn: Turn = turn or Turn()
        self.account = account
        self.settings: EngineSettings = settings or EngineSettings()
        self.next_id: Callable[[], str] = next_id or Nuid().next
        self.random_id = random_id
        # The name of the server, which answers as the leader of all its streams.
        self.leader = leader
        self.usage: AccountUsage = usage or AccountUsage()
        self.ceilings: Ceilings = ceilings_of(self.settings, self.usage.limits)
        self.upstreams: Upstreams = upstreams or NoUpstreams()
        self.api: ApiCounter = ApiCounter()
        self.streams: dict[str, Stream] = {}
        # Names of streams that exist on disk and could not be opened: they are reserved.
        self.unserved: set[str] = set()
        self.generation: int = 0
        # How much memory removed streams had: it is returned to the system when it is much.
        self._freed = 0
        # The names of all streams in order, at a generation.
        self._names: tuple[int, list[str]] = (-1, [])
        self.dirty: list[Stream] = []
        self._store = store
        # Shared by all accounts of a server.
        self._batch_limits = batch_limits or BatchLimits()
        self._subjects = WantedSubjects()
        # Subjects that no stream stores any more are being removed.
        self._cleaning: Operation | None = None
        self._targets: dict[str, Target] = {}
        self._deadlines: Deadlines[Stream] = Deadlines()
        # Streams that are removed once nothing of them is in flight.
        self._removals: dict[Stream, Operation] = {}
        # Streams with a new configuration that is not durable yet.
        self._changes: dict[Stream, Change] = {}
        # Streams that are being created.
        self._creations: dict[str, Operation] = {}

        self.consumer_services: ConsumerServices = ConsumerServices(
            account, self.next_id, random_id(), ports, self.mark_dirty
        )
        self.wall: Wall = self.consumer_services.wall
        self.advisories: Advisories = Advisories(
            self.publish_own, self.next_id, self.wall, ports, server=leader
        )
        self.operations: Operations = Operations(self.failures, ports, self.turn)
        self.long_work: LongWork = LongWork(ports, self.operations)
        self.direct: DirectGets = DirectGets(
            ports,
            self.settings.min_last_seq_wait,
            held_reads or HeldReads(),
            self.failures,
            self.long_work,
        )
        self.interest: Interest = Interest(self.consumer_services.run_queue, self.mark_dirty)
        self.consumers: Consumers = Consumers(
            self.consumer_services, self.interest, self.advisories, self.failures
        )
        self.deliveries: DeliveryLoop = DeliveryLoop(
            self.consumer_services, self.consumers, self.interest, self.failures, self.long_work
        )
        self.transfers: Transfers = Transfers(self, ports)
        self.purges: Purges = Purges(self.mark_dirty)
        self.copies: Copies = Copies(
            self.streams,
            self.mark_dirty,
            self.consumer_services.run_queue,
            self.upstreams,
            self.interest,
            self.failures,
            self.long_work,
        )
        self._commits = Commits(
            self.consumer_services.run_queue,
            self.failures,
            self.consumers.save,
            self._deadlines.note,
            self._begin_index_work,
        )

    # Streams -----------------------------------------------------------------------------------

    def reserve_name(self, name: str) -> None:
        """Refuse requests to a stream that exists on disk and is not served."""
        self.unserved.add(name)

    def release_served_names(self) -> None:
        """Answer requests to reserved names whose streams are served now."""
        self.unserved.difference_update(self.streams)

    def adopt(self, log: StreamLog, now: int) -> bool:
        """Adopt a recovered stream; False: its restore was incomplete, and it is removed.

        Messages that expired while the server was down are not shown again.
        """
        if is_marked(bytes(log.identity.config)):
            self._store.discard(log)
            return False
        config = decode_config(bytes(log.identity.config))
        stream = self._stream(config, log.identity.created_ns, log)
        stream.begin_time(now, self.wall.lead)
        if config.max_age > 0 and not config.allow_msg_ttl:
            # With TTLs some may be kept forever: those streams are read first (expiry.py).
            oldest = log.timeline.stored_time(now - bounded(config.max_age))
            log.expire_before(oldest + 1)
        try:
            self._add(stream)
            if log.access.full:
                stream.maintenance.soon()
                self._deadlines.note(stream)
            self.consumers.adopt_all(stream, now)
        except Exception:
            self._forget(stream)
            raise
        return True

    def take_freed(self) -> int:
        """Return how much memory streams had that were removed since the last call."""
        freed, self._freed = self._freed, 0
        return freed

    def names(self) -> list[str]:
        """Return the names of all streams, in order."""
        if self._names[0] != self.generation:
            self._names = (self.generation, sorted(self.streams))
        return self._names[1]

    def obstacle_to(self, log: StreamLog) -> str:
        """Return why a stream opened while others are served cannot be adopted; or empty."""
        name = log.identity.name
        if name in self.streams:
            return ""  # adopting it reports that
        if self.operations.claims.is_taken() or self._subjects.needs_cleaning():
            return "the subjects of another stream are changing"
        try:
            self.operations.check(name)
            config = decode_config(bytes(log.identity.config))
        except Postponed:
            return f"a stream {name!r} is being created"
        except msgspec.MsgspecError:
            return ""  # adopting it reports this
        try:
            self.check_free(config)
        except Postponed:
            return f"another stream with some of the subjects of {name!r} is changing"
        except Refusal:
            return f"another stream has some of the subjects of {name!r}: change or remove that"
        return ""

    def _forget(self, stream: Stream) -> None:
        """Forget a partly adopted stream; its files stay as they are."""
        name = stream.config.name
        self._subjects.remove(stream)
        self._clean_subjects()
        if self.streams.pop(name, None) is not None:
            self.usage.remove(stream)
        self._targets.pop(name, None)
        stream.drop()
        dropped = self.consumers.drop_all(stream)
        while not self.consumers.close_some(dropped):
            pass
        self.copies.dropped(stream)
        self.interest.forget(stream)
        self.dirty = [other for other in self.dirty if other is not stream]
        self.generation += 1

    def create_stream(self, config: StreamConfig, now: int) -> Stream:
        """Create a stream durably from a prepared configuration, here and now; raises OSError."""
        new = NewStream(self._store, self._identity(config, now), config)
        new.make()
        return self.show(new, now)

    def start_creation(
        self,
        config: StreamConfig,
        now: int,
        outbox: Outbox,
        finish: Callable[["NewStream", OSError | None, int, Outbox], None],
        *,
        marked_as: StreamConfig | None = None,
        claimed: bool = False,
    ) -> None:
        """Create a stream durably in the background; ``finish`` follows, and it is hidden before.

        ``marked_as`` is its configuration until it is complete. Its subjects may have been claimed
        before.
        """
        first = marked_as or config
        new = NewStream(self._store, self._identity(first, now), first)

        def made(error: OSError | None, now: int, outbox: Outbox) -> None:
            del self._creations[config.name]
            finish(new, error, now, outbox)

        operation = Operation(config.name, None if claimed else config, made)
        self.operations.announce(operation)
        self._creations[config.name] = operation
        in_memory = config.storage == Storage.MEMORY
        self.operations.do(operation, new.make, now, outbox, at_once=in_memory)

    def show(self, new: "NewStream", now: int, claim: Claim | None = None) -> Stream:
        """Make a created stream visible; its subjects may have been claimed.

        Whatever this raises, the stream is unknown then, and others may have its subjects.
        """
        try:
            stream = self.hidden(new, now)
        except Exception:
            if claim is not None:
                self.abandon(claim)
            raise
        self._show(stream, now, claim)
        return stream

    def _show(self, stream: Stream, now: int, claim: Claim | None) -> None:
        try:
            self._add(stream, claim)
            self.consumers.adopt_all(stream, now)
        except Exception:
            was_given = claim is not None and claim.stream is not None
            self._forget(stream)
            if claim is not None and not was_given:
                self.abandon(claim)
            raise

    def hidden(self, new: "NewStream", now: int) -> Stream:
        """Return a created stream that is still hidden."""
        assert new.log is not None, "it was created"
        stream = self._stream(new.config, new.identity.created_ns, new.log)
        stream.begin_time(now, self.wall.lead)
        return stream

    def _stream(self, config: StreamConfig, created_ns: int, log: StreamLog) -> Stream:
        advise = self.advisories.of_batches(config.name)
        return Stream(config, created_ns, log, self._batch_limits, advise)

    def _identity(self, config: StreamConfig, now: int) -> Identity:
        return Identity(
            stream_id=self.random_id(),
            account=self.account,
            name=config.name,
            created_ns=self.wall.at(now),
            config=msgspec.Raw(encode(config)),
            max_msgs=evicting(config)[0],
            max_bytes=evicting(config)[1],
            max_per_subject=evicting(config)[2],
        )

    def reveal(
        self, config: StreamConfig, stream: Stream, now: int, claim: Claim | None = None
    ) -> bytes:
        """Make a restored stream visible; return the answer to the client that restored it.

        Whatever this raises, the stream is unknown then, and others may have its subjects.
        """
        try:
            stream.log.begin_again()
            shown = self._stream(config, stream.created_ns, stream.log)
            shown.begin_time(now, self.wall.lead)
        except Exception:
            if claim is not None:
                self.abandon(claim)
            raise
        self._show(shown, now, claim)
        return STREAM_CREATE.ok(stream_info(shown, now, StreamCreateResponse))

    def discard(self, log: StreamLog, finish: Finish, now: int, outbox: Outbox) -> None:
        """Remove the log of a hidden stream in the background; ``finish`` follows.

        If it cannot be removed now it keeps its mark, and the next start discards it.
        """
        log.access.stop()
        log.close()
        self.operations.run_in_background(partial(self._store.sweep, log), finish, now, outbox)

    def discard_now(self, stream: Stream) -> None:
        """Remove a hidden stream, here and now."""
        stream.drop()
        self._store.discard(stream.log)

    def update_stream(
        self, stream: Stream, config: StreamConfig, claim: Claim | None = None
    ) -> None:
        """Change the configuration of a stream; raises StoreReadOnly.

        Its subjects may have been claimed. What it gives up is free once that is durable, and
        requests about the stream wait for that.
        """
        log = stream.log
        log.staged.configure(encode(config), Limits(*evicting(config)))
        self.mark_dirty(stream)
        operation = self.operations.begin(config.name)
        self._changes[stream] = Change(int(log.staged.revision), operation)
        self.usage.keep(stream, stream.config.max_bytes)
        if config.subjects != stream.config.subjects:
            self._store_subjects(stream, config.subjects, claim, operation)
        self._configure(stream, config)

    def _settle_change(self, stream: Stream, now: int, outbox: Outbox) -> None:
        """Release what a change of a stream gave up, once it is durable."""
        change = self._changes.get(stream)
        if change is None or stream.log.identity.revision < change.revision:
            return
        del self._changes[stream]
        stream.settle_rules()
        self.usage.settle(stream)
        self._subjects.settle(stream)
        self._clean_subjects()
        self.operations.end(change.operation, now, outbox)

    def _take_change_back(self, stream: Stream) -> None:
        """Undo a configuration that the stream staged and that could not be written."""
        self.usage.settle(stream)
        self._subjects.take_back(stream)
        self._clean_subjects()
        durable = decode_config(bytes(stream.log.identity.config))
        self._configure(stream, durable)
        stream.settle_rules()

    def _configure(self, stream: Stream, config: StreamConfig) -> None:
        stream.configure(config)
        self.usage.reserve(stream)
        stream.log.upkeep.pack(config.compression == "s2")
        stream.log.segments.fit(config.max_bytes)
        if stream.copies or config.sources:
            self._store.choose_level(stream.log, level_of(config))
        self._deadlines.note(stream)
        self.generation += 1
        self.consumers.stream_changed(stream)
        self.copies.changed(stream)

    def change_settings(self, settings: EngineSettings) -> None:
        """Apply other settings from now on."""
        self.settings = settings
        self.direct.change_wait(settings.min_last_seq_wait)
        self._set_ceilings()

    def change_limits(self, limits: AccountLimits) -> None:
        """Apply other limits to the account from now on."""
        self.usage.change(limits)
        self._set_ceilings()

    def _set_ceilings(self) -> None:
        self.ceilings = ceilings_of(self.settings, self.usage.limits)

    def find(self, name: str) -> StreamConfig | None:
        """Return the configuration of a stream; raises Postponed while that changes."""
        making = self._creations.get(name)
        if making is not None:
            raise Postponed(making)
        stream = self.streams.get(name)
        if stream is None:
            return None
        change = self._changes.get(stream)
        if change is not None:
            raise Postponed(change.operation)
        return stream.config

    def admit(self, config: StreamConfig, old: StreamConfig | None = None) -> None:
        """Raise Refusal if a stream cannot be created, or changed, within the limits.

        Raises Postponed if that may change once a change of another stream is durable.
        """
        try:
            self.usage.admit(config, old)
        except Refusal:
            for stream, change in self._changes.items():
                if self.usage.frees(stream):
                    raise Postponed(change.operation) from None
            raise

    def start_removal(self, stream: Stream, now: int, outbox: Outbox, finish: Finish) -> None:
        """Remove a stream, durably, in the background; ``finish`` follows.

        Until then it exists for all readers, and nothing is written to it. OSError: it is
        unchanged, or read-only until it has been opened again.
        """

        def removed(error: OSError | None, now: int, outbox: Outbox) -> None:
            stream.log.release()
            if error is None:
                self._drop(stream, now, outbox)
            elif stream.log.access.failed:
                self._write_failed(stream, no_space=False)
            finish(error, now, outbox)

        operation = Operation(stream.config.name, None, removed)
        self.operations.announce(operation)
        self._removals[stream] = operation
        self.may_remove(stream, now, outbox)

    def may_remove(self, stream: Stream, now: int, outbox: Outbox) -> None:
        """Start the removal that waits, if nothing that needs the folder is in flight."""
        log = stream.log
        if stream not in self._removals or log.staged.in_flight is not None or log.is_reopening:
            return
        operation = self._removals.pop(stream)
        log.hold()
        mark_dropped = partial(self._store.mark_dropped, log)
        self.operations.do(operation, mark_dropped, now, outbox, at_once=log.segments.in_memory)

    def _drop(self, stream: Stream, now: int, outbox: Outbox) -> None:
        """Forget a removed stream, and notify what waits for it."""
        self._subjects.remove(stream)
        self._clean_subjects()
        del self.streams[stream.config.name]
        self.usage.remove(stream)
        self._targets.pop(stream.config.name).clear()
        stream.drop()
        self._deadlines.forget()
        stream.batches.drop_with_stream()
        dropped = self.consumers.drop_all(stream)
        if not self.consumers.close_some(dropped):
            self.operations.aside(partial(self.consumers.close_some, dropped))
        self.copies.dropped(stream)
        self.generation += 1
        index = stream.log.index
        size = len(index.entries) * SUBJECT_BYTES + int(index.messages) * MESSAGE_BYTES
        size += STREAM_BYTES
        size += int(stream.log.reader.cache.size)
        # Nothing of it has to be written to disk any more.
        stream.log.access.stop()
        stream.log.close()
        # If the server stops first, the next start removes the rest.
        remove_dropped = partial(
            self.operations.unless_closed, partial(self._store.remove_dropped, stream.log)
        )
        remains = index.entries.copy()
        window = stream.checks.window

        def give_back() -> bool:
            """Free some of its subjects, or ids: a million objects are not freed in one turn."""
            del remains[-GIVEN_BACK:]
            if remains or not window.free_some():
                return False
            self._freed += size
            return True

        def folder_removed(_error: OSError | None, _now: int, _outbox: Outbox) -> None:
            self.operations.aside(give_back)

        self.operations.run_in_background(remove_dropped, folder_removed, now, outbox)
        if not stream.refuse_held(error_body(ErrCode.STREAM_NOT_FOUND), outbox):
            self._refuse_rest(stream, outbox)
        self.purges.end(stream)
        self.direct.refuse_dropped(stream, outbox)

    # Subjects of streams -----------------------------------------------------------------------

    def overlaps(self, config: StreamConfig) -> bool:
        """Return whether a stream of another name stores some of the subjects."""
        own = self.streams.get(config.name)
        return any(self._subjects.overlap(subject.encode(), own) for subject in config.subjects)

    def check_free(self, config: StreamConfig) -> None:
        """Raise Refusal if another stream has some of the subjects, Postponed if it may get them.

        For a few subjects: ``claiming`` is for many.
        """
        own = self.streams.get(config.name)
        self._subjects.check_width(config.subjects, own)
        for subject in config.subjects:
            pattern = subject.encode()
            if self._subjects.overlap(pattern, own):
                if self._cleaning is not None:
                    raise Postponed(self._cleaning)
                raise self._taken(pattern, own)
        self.operations.check_subjects(config)

    def is_contested(self, config: StreamConfig) -> bool:
        """Return whether the owner of some of a few subjects is being decided."""
        try:
            self.check_free(config)
        except Postponed:
            return True
        except Refusal:
            return False
        return False

    def _taken(self, pattern: bytes, own: Stream | None) -> Refusal | Postponed:
        """Return why a stream cannot have a subject: another one has it, or is giving it up."""
        change = self._subjects.unsettled(pattern, own) if self._changes else None
        return Refusal(ErrCode.SUBJECTS_OVERLAP) if change is None else Postponed(change)

    def claiming(self, config: StreamConfig) -> Generator[None, None, Claim]:
        """Claim very many subjects for a stream, in steps, while other streams wait for theirs.

        That is while ``claims`` of the operations is taken; ``abandon`` or the stream takes the
        claim, and leaves it. Raises Refusal if another stream has some of the subjects, and
        Postponed if it may get them.
        """
        claim = Claim(config.subjects)
        own = self.streams.get(config.name)
        pace = Pace()
        try:
            self._subjects.check_width(config.subjects, own)
            for subject in config.subjects:
                pattern = subject.encode()
                while self._subjects.overlap(pattern, own):
                    if not self._subjects.needs_cleaning():
                        raise self._taken(pattern, own)
                    yield  # it may overlap one that is being removed
                self.operations.check_subject(pattern)
                if pace.is_due(len(pattern) + self._subjects.take_visited()):
                    yield
            # No other stream gets subjects meanwhile. If they do not overlap now they never will:
            # they are entered after that, so that they are not mistaken for those of another.
            yield from self._subjects.entering(claim)
        except BaseException:
            self._subjects.abandon(claim)
            self._clean_subjects()
            raise
        return claim

    def abandon(self, claim: Claim | None) -> None:
        """Give up a claim, if any, that no stream gets; other streams continue."""
        if claim is not None:
            self._subjects.abandon(claim)
            self._clean_subjects()
        self.operations.claims.leave()

    def overlapping(self, subject: bytes) -> Generator[None, None, list[Stream]]:
        """Return the streams whose subjects overlap a pattern, in steps."""
        return self._subjects.overlapping(subject)

    def _store_subjects(
        self,
        stream: Stream,
        subjects: tuple[str, ...],
        claim: Claim | None,
        change: Operation | None = None,
    ) -> None:
        """Replace the subjects of a stream; they may be claimed.

        With ``change`` it may get its previous ones back.
        """
        given = claim if claim is not None else self._subjects.entered(subjects)
        if change is None:
            self._subjects.give(stream, given)
        else:
            self._subjects.exchange(stream, given, change)
        if claim is not None:
            self.operations.claims.leave()
        self._clean_subjects()

    def _clean_subjects(self) -> None:
        """Remove, in the following turns, subjects that streams do not store any more."""
        if self._cleaning is not None or not self._subjects.needs_cleaning():
            return
        cleaning = self._cleaning = nameless()

        def step() -> bool:
            if not self._subjects.clean():
                return False
            self._cleaning = None
            self.operations.release(cleaning)
            return True

        self.operations.aside(step)

    def _add(self, stream: Stream, claim: Claim | None = None) -> None:
        self._store.choose_level(stream.log, level_of(stream.config))
        self.streams[stream.config.name] = stream
        self.usage.add(stream)
        self._targets[stream.config.name] = Target(PUBLISH, stream, b"")
        stream.log.index.count_work(self.turn)
        stream.log.apply_at_most(self.settings.applied_per_turn)
        stream.log.upkeep.pack(stream.config.compression == "s2")
        stream.log.segments.fit(stream.config.max_bytes)
        self._store_subjects(stream, stream.config.subjects, claim)
        self.generation += 1
        self._deadlines.note(stream)
        self.copies.added(stream)

    # Messages ----------------------------------------------------------------------------------

    def resolve(self, subject: bytes) -> Target | None:
        """Return the target of a subject, if any; valid until ``generation`` changes."""
        if subject.startswith(DIRECT_PREFIX):
            name, _, appended = subject[len(DIRECT_PREFIX) :].partition(b".")
            stream = self.copies.answering(name.decode(errors="replace"))
            return Target(DIRECT_GET, stream, appended) if stream is not None else None
        if subject.startswith(TRANSFER_PREFIX) and self.transfers.knows(subject):
            return Target(TRANSFER, None, subject)
        if subject.startswith(NEXT_PREFIX):
            return Target(NEXT, None, subject[len(NEXT_PREFIX) :])
        if subject.startswith(API_PREFIX):
            return Target(REQUEST, None, subject[len(API_PREFIX) :])
        wanting = self._subjects.find(subject)
        return None if wanting is None else self._targets[wanting.config.name]

    def stored_subjects(self) -> Sublist:
        """Return the subjects of streams: ``resolve`` is None for all others outside ``$JS.``.

        The result of ``resolve`` for a subject that one pattern matches is that of every subject
        that only this pattern matches.
        """
        return self._subjects.claims

    def routes_changed(self) -> None:
        """Invalidate earlier results of ``resolve``: subjects have other targets from now on."""
        self.generation += 1

    def wants_inboxes(self) -> bool:
        """Return whether a stream has subjects that start with an underscore, as inboxes do."""
        return self._subjects.has_inboxes()

    def mark_dirty(self, stream: Stream) -> None:
        """Note that a stream has staged records for the committer."""
        if not stream.dirty:
            stream.mark_dirty(True)
            self.dirty.append(stream)

    # Commit ------------------------------------------------------------------------------------

    def take_groups(self, now: int = 0, outbox: Outbox | None = None) -> list[Taken]:
        """Return the next group of each dirty stream without one in flight; or why there is none.

        Acknowledgements that need no group are answered through ``outbox``.
        """
        groups, self.dirty = self._commits.take(self.dirty, now, outbox)
        return groups

    def again(self, stream: Stream, error: OSError) -> Group | None:
        """Return the group in flight if it may be written again, now that there is space."""
        if stream.dropped or not stream.maintenance.find_room(self._store.reserve, error):
            return None
        self._deadlines.note(stream)
        return stream.log.staged.in_flight

    def committed_together(
        self, streams: list[Stream], outbox: Outbox, now: int
    ) -> tuple[list[Stream], list[Stream]]:
        """Apply durable groups of streams on disk of which nothing else depends on a commit.

        Returns the other streams, of which ``committed`` must be called, and the streams of this
        call with upkeep to do.
        """
        if (
            self._changes
            or self._removals
            or self.transfers.by_stream
            or self.direct.gate.by_stream
            or self.purges.by_stream
        ):
            return streams, []
        others, kept, grown = self._commits.apply(streams, now, outbox)
        self.usage.count(Storage.FILE, grown)
        return others, kept

    def _begin_index_work(self, stream: Stream) -> None:
        """Start what the index of a stream wants to do in steps."""
        index = stream.log.index
        if index.take_order_wanted():
            self.operations.aside(index.order_step)
        if index.take_sweep_wanted():
            self.operations.aside(stream.log.sweep_step)

    def committed(self, stream: Stream, outbox: Outbox, now: int = 0) -> bool:
        """Apply a durable group of a stream: readers see it, its replies are sent.

        ``now`` is when its last message was stored unless it is given. False: that was some of it,
        and this is called again in a following turn; the group is in flight until then.
        """
        if stream.dropped:
            stream.log.commit()  # closes the file that the group was written to
            return True
        if stream.takes_turns() and not self._land_some(stream, outbox, now):
            return False
        # Once per stream and turn: what concerns few streams is not called for all others.
        held = stream.committed(outbox, now)
        index = stream.log.index
        now = now or int(stream.log.timeline.engine_time(index.last_time))
        if stream in self.transfers.by_stream and self.transfers.committed(stream, outbox):
            return True
        self.usage.note(stream)
        if self._changes:
            self._settle_change(stream, now, outbox)
        stream.maintenance.committed()
        self._deadlines.note(stream)
        if held.messages:
            self.publish_own(held.messages, now, outbox)
        if self.direct.gate.by_stream:
            self.direct.answer_held(stream, outbox)
        if self.purges.by_stream:
            self.purges.next_step(stream)
        self._begin_index_work(stream)
        if stream.followers or stream.copies:
            self.copies.committed(stream)
        if stream.consumers:
            self.consumers.committed(stream, held.purges, now)
        if self._removals:
            self.may_remove(stream, now, outbox)
        return True

    def _land_some(self, stream: Stream, outbox: Outbox, now: int) -> bool:
        """Apply some of a group, or send some of its replies; True: the rest is little."""
        if not stream.apply_some():
            # As after a group of its own.
            self.consumers.note_removals(stream, [], now)
            stream.attached.wake()
            return False
        messages = stream.replies.send_some(outbox)
        if messages is None:
            return True
        self.publish_own(messages, now, outbox)
        return False

    def publish_own(self, entries: list[Entry], now: int, outbox: Outbox) -> None:
        """Send the engine's own messages, to subscribers and to streams that store them."""
        outbox.send_all(entries)
        for route, _, _, headers, payload in entries:
            target = self.resolve(route)
            if target is None or target.kind != PUBLISH:
                continue
            other = target.stream
            assert other is not None
            if self._publish_at_once(other, route, headers, payload + b"\r\n", now, outbox):
                self.mark_dirty(other)

    def _publish_at_once(
        self, stream: Stream, subject: bytes, headers: bytes, body: bytes, now: int, outbox: Outbox
    ) -> bool:
        """Store a message of the engine's own, however long its checks take."""
        while True:
            try:
                return stream.publish_checked(subject, b"", headers, body, now, outbox)
            except LongLook as look:
                while not look.step():
                    pass

    def failed(self, stream: Stream, error: OSError, outbox: Outbox) -> None:
        """Handle a group of a stream that could not be written."""
        no_space = error.errno in {errno.ENOSPC, errno.EDQUOT}
        if stream.dropped:
            stream.log.fail(no_space)
            return
        if not stream.failed(no_space, outbox):
            self._refuse_rest(stream, outbox)
        if self.transfers.failed(stream, outbox):
            return
        self.usage.note(stream)
        self.purges.end(stream)
        self._write_failed(stream, no_space=no_space)
        change = self._changes.pop(stream, None)
        if change is not None:
            self._take_change_back(stream)
        self.consumers.failed(stream)
        self.copies.failed(stream)
        if change is not None:
            self.operations.end(change.operation, stream.committed_ns, outbox)
        if self._removals:
            self.may_remove(stream, stream.committed_ns, outbox)

    def _refuse_rest(self, stream: Stream, outbox: Outbox) -> None:
        """Answer, in the following turns, what waited for a group that failed."""
        if self.operations.closed:
            while not stream.refuse_some(outbox):
                pass
        else:
            self.operations.aside(partial(stream.refuse_some, outbox))

    def _write_failed(self, stream: Stream, *, no_space: bool) -> None:
        by_interest = stream.config.retention != Retention.LIMITS
        stream.maintenance.failed(self._store.reserve, no_space=no_space, by_interest=by_interest)
        self._deadlines.note(stream)

    def find_disk_full(self) -> None:
        """Refuse messages to streams on disk until there is space, as after a failed write."""
        for stream in self.streams.values():
            if not stream.log.segments.in_memory:
                self._write_failed(stream, no_space=True)

    def reopened(self, stream: Stream) -> None:
        """Note that the log of a failed stream was verified and accepts writes again."""
        stream.maintenance.reopened()
        self._deadlines.note(stream)

    # Time --------------------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        """Return when ``expire`` has something to do."""
        # Called once per turn: plain comparisons cost a third of a generator.
        first: int | None = None
        for each in (
            self.direct.next_deadline(),
            self._deadlines.next(),
            self.transfers.next_deadline(),
            self.consumers.next_deadline(),
            self.copies.next_deadline(),
        ):
            if each is not None and (first is None or each < first):
                first = each
        return first

    def expire(self, now: int, outbox: Outbox) -> list[Stream]:
        """Do what is due; return the streams that had something."""
        self.direct.refuse_expired(now, outbox)
        self.transfers.expire(now, outbox)
        due = self._deadlines.due(now)
        for stream in due:
            try:
                self._expire(stream, now, outbox)
            except Exception as error:  # noqa: BLE001 - one stream, not all
                self.failures.note(f"deadlines of stream {stream.config.name!r}", error)
        self.consumers.expire(now, outbox)
        self.copies.expire(now)
        return due

    def _expire(self, stream: Stream, now: int, outbox: Outbox) -> None:
        if 0 < stream.maintenance.due <= now and stream.maintenance.tend(self._store.reserve, now):
            self.interest.changed(stream)
        if stream.log.is_applying():
            return  # the deadline is noted again when that is done
        if stream.expire(now, outbox):
            # Staged messages are still visible: checked again once they are durable.
            self.mark_dirty(stream)
        else:
            self._deadlines.note(stream)
            self.usage.note(stream)
        self.consumers.note_removals(stream, [], now)

    def follow_wall(self, now: int, lead: int) -> None:
        """Set how far the wall clock is ahead of engine time: it may have been set."""
        if not self.wall.follow(lead):
            return
        for stream in self.streams.values():
            stream.follow_wall(now, lead)
            self._deadlines.note(stream)
        self.consumers.follow_wall(now)

    def advance(self, now: int = 0, outbox: Outbox | None = None) -> bool:
        """Continue reads, deliveries and copies, within one turn's budget; True: some remain.

        Without time and outbox no consumer delivers.
        """
        self.consumer_services.reached(now)
        more = False
        if self.direct.work or self.interest.is_changing() or self.deliveries.has_turn():
            budget = Budget(READ_RECORDS_PER_TURN, READ_BYTES_PER_TURN)
            self.direct.advance(budget)
            if outbox is not None:
                self.deliveries.advance(budget, now, outbox)
            more = self.interest.sweep()
            more = more or bool(self.direct.work) or self.deliveries.can_deliver()
        more = self.copies.advance(now) or more
        if self.long_work.has_ready():
            more = self.long_work.start(now, outbox or Outbox()) or more
        return more

    def has_work(self) -> bool:
        """Return whether something waits for the next turn."""
        if self.dirty or self.direct.work or self.operations.has_ready():
            return True
        return self.transfers.may_send()

    def is_stalled(self) -> bool:
        """Return whether reads or consumers wait for their receivers to have room."""
        return bool(self.direct.stalled or self.deliveries.stalled)

    def unstall(self) -> bool:
        """Continue those whose receivers have room again; False if there are none."""
        reads = self.direct.unstall()
        return self.deliveries.unstall() or reads

    def close(self, in_time: Callable[[], bool] | None = None) -> None:
        """Close the files of all streams.

        ``in_time`` is called for each one: whether there is time to record its state.
        """
        self.transfers.close()
        for stream in self.streams.values():
            stream.log.close(note=in_time is None or in_time())
