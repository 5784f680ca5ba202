"""A stream on disk behaves as a plain dict of sequence to message, through crashes too."""

import errno
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.disk.paths import KeptPath
from tests.support.disk.simulated import Operation, SimulatedDisk
from tests.support.store.model import Message, messages

from jetspark.store.committer import write
from jetspark.store.format.manifest import Identity
from jetspark.store.format.record import record_time
from jetspark.store.log.stream_log import Group, StreamLog
from jetspark.store.memory import MemoryFiles
from jetspark.store.recovery.replay import Recovery
from jetspark.store.store import FileStore
from jetspark.subjects.match import matches

SUBJECTS = (b"a", b"a.b", b"a.c", b"b.c.d")
PATTERNS = (*SUBJECTS, b">", b"a.*", b"*.c.>", b"nothing")
message_lists = st.lists(
    st.builds(
        Message,
        st.sampled_from(SUBJECTS),
        st.sampled_from((b"", b"NATS/1.0\r\nA: b\r\n\r\n")),
        st.binary(max_size=300),
    ),
    min_size=1,
    max_size=4,
)


class _Stop(BaseException):
    """The world ends inside a write."""


class StoreMachine(RuleBasedStateMachine):
    """One stream of a FileStore; ``durable`` is what readers may see, and must."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.durable: dict[int, Message] = {}
        self.times: dict[int, int] = {}
        # Staged, in order: what flies was taken as a group, what waits was staged after it.
        self.in_flight: dict[int, Message] = {}
        self.waiting: dict[int, Message] = {}
        self.group: Group | None = None
        # Of writes that failed with an error: the disk may show them and lose them anyway.
        self.ghosts: dict[int, Message] = {}
        self.highest = 0
        self.now = 0
        self.recovery = Recovery()

    @initialize(
        segment_size=st.sampled_from((600, 2_000, 100_000)), cache=st.sampled_from((1, 500, 10**6))
    )
    def begin(self, segment_size: int, cache: int) -> None:
        self.store = FileStore(
            self.disk, KeptPath("/store"), segment_size=segment_size, cache_budget=cache
        )
        self.segment_size = segment_size
        self.cache = cache
        self.store.open(self._hear)
        self.log = self.store.create(
            Identity(stream_id=2**63 + 12345, account="A", name="S", created_ns=1)
        )

    def _hear(self, _: Identity, recovery: Recovery) -> None:
        self.recovery = recovery

    # Writing -----------------------------------------------------------------------------------

    @precondition(lambda self: not self.log.access.read_only)
    @rule(staged=message_lists, later=st.integers(0, 3))
    def stage(self, staged: list[Message], later: int) -> None:
        self.now += later
        for message in staged:
            tail = message.headers + message.body + b"\r\n"
            seq = self.log.staged.add_message(
                message.subject, len(message.headers), tail, self.now
            )
            assert seq > self.highest
            self.highest = int(seq)
            self.ghosts.pop(self.highest, None)
            self.waiting[self.highest] = message
            self.times[self.highest] = int(self.log.staged.time)

    @precondition(lambda self: self.waiting and self.group is None)
    @rule()
    def take(self) -> None:
        self.group = self.log.take_group()
        assert self.group is not None
        self.in_flight, self.waiting = self.waiting, {}

    @precondition(lambda self: self.group is not None)
    @rule()
    def commit(self) -> None:
        assert self.group is not None
        self.disk.write_synced(int(self.group.handle), [self.group.blob], int(self.group.offset))
        self.log.commit()
        self.durable |= self.in_flight
        self.in_flight, self.group = {}, None

    @precondition(lambda self: self.group is not None)
    @rule(step=st.integers(1, 2), no_space=st.booleans())
    def fail(self, step: int, no_space: bool) -> None:
        assert self.group is not None
        self.disk.fail(step, errno.ENOSPC if no_space else errno.EIO)
        try:
            self.disk.write_synced(
                int(self.group.handle), [self.group.blob], int(self.group.offset)
            )
        except OSError as error:
            self.log.fail(error.errno == errno.ENOSPC)
        assert self.log.access.read_only != no_space
        if not no_space:
            self.ghosts |= self.in_flight
        self.in_flight, self.waiting, self.group = {}, {}, None

    @precondition(lambda self: self.log.access.failed)
    @rule()
    def reopen(self) -> None:
        """The log is verified and written to again; what had failed is truncated for good."""
        assert self.log.reopen()
        assert not self.log.access.read_only
        self.ghosts = {}

    # Ends --------------------------------------------------------------------------------------

    @rule()
    def restart(self) -> None:
        """Stop and start; what was staged and not committed may be there or not."""
        self.log.close()
        if self.group is not None:
            self.log.fail(no_space=False)
        self.store.close()
        assert self.disk.open_handles == 0
        self._start(self.disk)

    @rule(seed=st.integers(0, 2**32), power=st.booleans())
    def crash(self, seed: int, power: bool) -> None:
        """The process or the power ends, inside a write if there is one to make."""
        random = Random(seed)
        left: list[SimulatedDisk] = []

        def stop(operation: Operation) -> None:
            if operation.kind == "sync":
                left.append(self.disk.image(random) if power else self.disk.survivor())
                raise _Stop

        if self.group is None:
            left.append(self.disk.image(random) if power else self.disk.survivor())
        else:
            self.disk.before_step = stop
            try:
                self.disk.write_synced(
                    int(self.group.handle), [self.group.blob], int(self.group.offset)
                )
            except _Stop:
                self.disk.before_step = None
        self._start(left[0])

    def _start(self, disk: SimulatedDisk) -> None:
        staged = self.in_flight | self.waiting
        self.disk = disk
        self.store = FileStore(
            disk, KeptPath("/store"), segment_size=self.segment_size, cache_budget=self.cache
        )
        (self.log,) = self.store.open(self._hear)
        found = messages(self.log)
        # Everything that was acknowledged; of the rest only what was staged.
        assert found.items() >= self.durable.items()
        assert found.items() <= (self.durable | staged | self.ghosts).items()
        self.durable = found
        # Whatever a start shows it has put on the disk: from now on it must stay, or stay away.
        self.ghosts = {}
        self.in_flight, self.waiting, self.group = {}, {}, None
        self.highest = max(found, default=0)

    # What holds --------------------------------------------------------------------------------

    @invariant()
    def readers_see_what_is_durable_and_nothing_else(self) -> None:
        if not hasattr(self, "log"):
            return
        assert messages(self.log) == self.durable
        assert self.log.index.messages == len(self.durable)
        assert self.log.index.last_seq <= self.log.staged.seq

    @rule(pattern=st.sampled_from(PATTERNS), seq=st.integers(0, 60))
    def filters_agree(self, pattern: bytes, seq: int) -> None:
        index = self.log.index
        wanted = [s for s, m in sorted(self.durable.items()) if matches(m.subject, pattern)]
        mask = index.mask_for(pattern)
        assert index.next_seq(seq, mask) == min((s for s in wanted if s >= seq), default=0)
        assert index.count_from(seq, mask) == sum(s >= seq for s in wanted)
        assert index.last_match(pattern) == max(wanted, default=0)

    @rule(time=st.integers(-1, 40))
    def times_agree(self, time: int) -> None:
        log: StreamLog = self.log
        times = {seq: record_time(*log.reader.locate(seq)) for seq in sorted(self.durable)}
        assert times == {seq: self.times[seq] for seq in sorted(self.durable)}
        expected = min(
            (seq for seq, at in times.items() if at >= time), default=int(log.index.last_seq) + 1
        )
        assert log.reader.first_at(time) == expected


class MemoryMachine(RuleBasedStateMachine):
    """The same promises over files in memory: nothing fails there, and nothing is ever lost."""

    def __init__(self) -> None:
        super().__init__()
        self.files = MemoryFiles()
        self.store = FileStore(self.files, KeptPath("/store"), segment_size=600, cache_budget=0)
        self.store.open(lambda *_: None)
        self.log = self.store.create(
            Identity(stream_id=2**63 + 12345, account="A", name="S", created_ns=1)
        )
        self.model: dict[int, Message] = {}
        self.staged: dict[int, Message] = {}

    @rule(staged=message_lists)
    def stage(self, staged: list[Message]) -> None:
        for message in staged:
            tail = message.headers + message.body + b"\r\n"
            seq = self.log.staged.add_message(message.subject, len(message.headers), tail, 1)
            self.staged[int(seq)] = message

    @rule()
    def commit(self) -> None:
        group = self.log.take_group()
        if group is not None:
            assert write(self.log.segments.files, group) is None
            self.log.commit()
        self.model |= self.staged
        self.staged = {}

    @rule(seq=st.integers(1, 40), count=st.integers(1, 4))
    def delete(self, seq: int, count: int) -> None:
        self.commit()
        known = [one for one in range(seq, seq + count) if one in self.model]
        assert self.log.staged.delete_range(seq, seq + count - 1) == len(known)
        for one in known:
            del self.model[one]
        self.commit()

    @rule()
    def keep_house(self) -> None:
        while self.log.maintain():
            pass

    @rule()
    def restart(self) -> None:
        self.commit()
        self.log.close()
        self.store.close()
        assert self.files.open_handles == 0
        self.store = FileStore(self.files, KeptPath("/store"), segment_size=600, cache_budget=0)
        (self.log,) = self.store.open(lambda *_: None)

    @invariant()
    def readers_see_what_is_there(self) -> None:
        assert messages(self.log) == self.model


StoreMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestStore = StoreMachine.TestCase
MemoryMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
TestMemory = MemoryMachine.TestCase
