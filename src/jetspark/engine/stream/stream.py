"""One stream: publishing, commits, and expiry."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec
from mypy_extensions import i64

from jetspark.api.enums import Retention
from jetspark.api.stream import StreamConfig
from jetspark.engine.batch.batches import Batches
from jetspark.engine.batch.limits import BatchLimits
from jetspark.engine.consumer.attached import AttachedConsumers
from jetspark.engine.direct.pages import Pages
from jetspark.engine.limits import DUPLICATE_IDS_MAX
from jetspark.engine.outbox import Outbox
from jetspark.engine.stream.checks import Checks
from jetspark.engine.stream.expiry import Expiry
from jetspark.engine.stream.ingest import Ingest
from jetspark.engine.stream.lifetimes import Lifetimes
from jetspark.engine.stream.maintenance import Maintenance
from jetspark.engine.stream.quota import Quota
from jetspark.engine.stream.replies import GroupReplies, Replies
from jetspark.engine.stream.rules import Rules
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode
from jetspark.frame import Frame
from jetspark.headers.block import strip_status
from jetspark.store.format.record import SUBJECT_MAX
from jetspark.store.log.stream_log import Group, StreamLog

if TYPE_CHECKING:
    from jetspark.engine.consumer.state import ConsumerState

INSUFFICIENT_RESOURCES: Final = 10023
STORE_FAILED: Final = 10077
# The end of the reply subject of a fast batch (ADR-50).
FAST_BATCH_END: Final = b".$FI"
_UPPER_I: Final = 0x49


class Stream:
    """A stream of one account.

    ``checks`` validates messages, ``ingest`` stages them, ``batches`` has open batches,
    ``replies`` has the answers that wait for the disk, ``expiry`` removes expired messages,
    ``maintenance`` syncs and reopens the log.
    """

    def __init__(
        self,
        config: StreamConfig,
        created_ns: int,
        log: StreamLog,
        batch_limits: BatchLimits,
        advise: Callable[[bytes, str, int, Outbox], None],
    ) -> None:
        self.config: StreamConfig = config
        self.created_ns: int = created_ns
        self.log: StreamLog = log
        self.allow_direct: bool = config.allow_direct
        self.name: bytes = config.name.encode()
        self.dirty: bool = False
        self.dropped: bool = False
        # The queued deadline; 0: none.
        self.deadline: i64 = 0
        # Whether messages that no consumer needs are removed.
        self.removes_unneeded: bool = config.retention is not Retention.LIMITS
        # What ``take_growth`` has returned in total.
        self.counted_bytes: i64 = 0
        # When the group in flight was taken and became durable, to measure the disk.
        self.taken_ns: i64 = 0
        self.committed_ns: i64 = 0
        # By name; their type is not known here (``engine/consumer/consumer.py``).
        self.consumers: dict[str, Any] = {}
        self.attached: AttachedConsumers = AttachedConsumers()
        # Where clients are who read it in pages.
        self.pages: Pages = Pages(log.index)
        # Copies that write to this stream, and that read it (``engine/replicate``).
        self.copies: list[Any] = []
        self.followers: list[Any] = []

        rules = Rules(config, log.identity.stream_id)
        self.rules: Rules = rules
        self.checks: Checks = Checks(rules, log, DUPLICATE_IDS_MAX)
        self.replies: Replies = Replies(log, msgspec.json.encode(config.name))
        lifetimes = Lifetimes(log)
        self.ingest: Ingest = Ingest(
            rules, log, self.checks, self.replies, lifetimes, self.attached
        )
        self.expiry: Expiry = Expiry(self.ingest)
        self.batches: Batches = Batches(self.ingest, batch_limits, advise)
        self.maintenance: Maintenance = Maintenance(log)
        if config.first_seq > 1 and log.staged.seq == 0:
            # It is in the configuration, so it needs no record.
            log.staged.begin_after(config.first_seq - 1)

    def add_consumer(self, name: str, consumer: Any, state: "ConsumerState") -> None:
        """Add a consumer; the stream keeps the messages that it needs."""
        self.consumers[name] = consumer
        self.attached.add(state)
        self.log.index.track(True)

    def remove_consumer(self, name: str, state: "ConsumerState") -> None:
        """Remove a consumer."""
        self.consumers.pop(name, None)
        self.attached.remove(state)
        self.log.index.track(bool(self.attached.all))

    def take_consumers(self) -> list[Any]:
        """Remove and return all consumers: the stream itself was removed."""
        taken = list(self.consumers.values())
        self.consumers.clear()
        return taken

    def mark_dirty(self, dirty: bool) -> None:
        """Set whether the engine has it in its list of streams with staged records."""
        self.dirty = dirty

    def queue_deadline(self, deadline: i64) -> None:
        """Set the queued deadline; 0: none."""
        self.deadline = deadline

    def set_copies(self, copies: list[Any]) -> None:
        """Set the copies that write to this stream."""
        self.copies = copies

    def add_follower(self, copy: Any) -> None:
        """Add a copy that reads this stream."""
        self.followers.append(copy)

    def remove_follower(self, copy: Any) -> None:
        """Remove a copy that read this stream."""
        self.followers.remove(copy)

    def drop(self) -> None:
        """Mark the stream as removed: what still refers to it finds nothing."""
        self.dropped = True

    def configure(self, config: StreamConfig) -> None:
        """Apply a configuration; messages checked before are not checked again."""
        self.config = config
        self.allow_direct = config.allow_direct
        self.removes_unneeded = config.retention is not Retention.LIMITS
        self.guard(self.checks.quota)

    def guard(self, quota: Quota | None) -> None:
        """Check a quota for every message from now on, or none."""
        rules = Rules(self.config, self.log.identity.stream_id, guarded=quota is not None)
        self.rules = rules
        self.checks.configure(rules, quota)
        self.ingest.configure(rules)
        self.batches.configure(rules)

    def settle_rules(self) -> None:
        """Let messages and ids expire by the configuration, which is durable now.

        By one that cannot be written in the end, nothing may: their removal is not recorded.
        """
        self.expiry.configure(self.rules)
        self.checks.settle()

    # Publishing --------------------------------------------------------------------------------

    def publish(self, subject: bytes, frame: Frame, now: i64, outbox: Outbox) -> bool:
        """Accept a message as received; return whether something was staged.

        ``subject`` is that of the frame: the caller has it already.
        """
        data = frame.data
        rs = frame.rs
        re = frame.re
        hs = frame.hs
        ps = frame.ps
        if (
            len(subject) > SUBJECT_MAX
            or not self.rules.open
            or self.log.access.read_only
            or self.log.access.full
            or (re > rs and data[re - 1] == _UPPER_I)
            or (ps > hs and not self.checks.take_headers(data, hs, ps, now))
        ):
            if re > rs and self.batches.append(subject, frame, now):
                return True
            return self.publish_checked(
                subject, data[rs:re], data[hs:ps], frame.ending(), now, outbox
            )
        if ps == hs:
            self.checks.stored_without_id()
        # Without the payload if that is large.
        tail = data[hs : frame.pe + 2]
        seq = self.log.staged.add_message(subject, ps - hs, tail, now, frame.body)
        if re > rs:
            self.replies.acknowledge(data[rs:re], seq)
        return True

    def publish_checked(
        self, subject: bytes, reply: bytes, block: bytes, body: bytes, now: i64, outbox: Outbox
    ) -> bool:
        """Accept a message that has headers or needs checks; ``body`` ends with its CRLF."""
        rules = self.rules
        replies = self.replies
        asked = reply
        if rules.no_ack:
            reply = b""
        if self.log.access.read_only:
            error = error_body(STORE_FAILED, err="stream is read-only after a disk error")
            replies.refuse(reply, error, False, outbox)
            return False
        if self.log.access.full:
            error = error_body(ErrCode.INSUFFICIENT_RESOURCES)
            replies.refuse(reply, error, False, outbox)
            return False
        if rules.transform is not None:
            mapped = rules.transform.apply(subject)
            if mapped is not None:
                subject = mapped
        block = strip_status(block)
        if asked.endswith(FAST_BATCH_END):
            return self.batches.publish_fast(subject, asked, block, body, now, outbox)
        judged = self.checks.judge(subject, block, body, now, False)
        if judged.batched:
            return self.batches.publish(judged, subject, reply, now, outbox)
        if len(judged.error) > 0:
            replies.refuse(reply, judged.error, judged.on_state, outbox)
            return False
        if judged.duplicate_of > 0:
            replies.acknowledge_duplicate(reply, judged.duplicate_of, outbox)
            return False
        self.ingest.store(judged, subject, reply, now)
        return True

    # Commit ------------------------------------------------------------------------------------

    def take_group(self, now: i64) -> Group | None:
        """Return the next group for the committer; the replies that depend on it wait for it."""
        self.taken_ns = now
        if not self.log.access.read_only:
            self.batches.note_group()
        group = self.log.take_work()
        if group is not None:
            self.replies.group_taken()
            self.checks.group_taken()
        return group

    def committed(self, outbox: Outbox, now: i64) -> GroupReplies:
        """Apply the group in flight, which is durable: send its replies; return the rest of it.

        ``now`` is 0 if unknown.
        """
        self.committed_ns = now
        group = self.log.staged.group_in_flight()
        before = group.applied_messages
        self.log.commit()
        self.checks.committed(group, before)
        held = self.replies.committed(outbox)
        if held.batches:
            measured = self.taken_ns > 0 and now > 0
            self.batches.committed(held.batches, now - self.taken_ns if measured else -1, outbox)
        return held

    def takes_turns(self) -> bool:
        """Return whether the group in flight is too much for one turn, applied and answered."""
        return self.log.takes_turns() or self.replies.takes_turns()

    def apply_some(self) -> bool:
        """Apply some of the group in flight, which is durable; True if that was all of it."""
        group = self.log.staged.group_in_flight()
        before = group.applied_messages
        done = self.log.apply_some()
        self.checks.applied(group, before)
        return done

    def commits_alone(self) -> bool:
        """Return whether nothing but its publishers depends on the group in flight.

        And it is so small that it is applied at once.
        """
        return not (
            self.dropped
            or self.log.takes_turns()
            or len(self.consumers) > 0
            or len(self.followers) > 0
            or len(self.copies) > 0
            or self.log.durability.sync_error is not None
            or not self.replies.in_flight.has_only_acks()
        )

    def take_growth(self) -> i64:
        """Return by how many bytes it has grown since the last call, with staged messages."""
        size = self.log.staged.size
        grown = size - self.counted_bytes
        self.counted_bytes = size
        return grown

    def take_counted(self) -> i64:
        """Return what ``take_growth`` has returned in total, which starts again."""
        counted = self.counted_bytes
        self.counted_bytes = 0
        return counted

    def failed(self, no_space: bool, outbox: Outbox) -> bool:
        """Undo the group in flight, which failed, and everything staged after it.

        False: ``refuse_some`` refuses the rest.
        """
        self.log.fail(no_space)
        self.checks.failed()
        self.expiry.lifetimes.start_again()
        if no_space:
            error = error_body(INSUFFICIENT_RESOURCES)
        else:
            error = error_body(STORE_FAILED, err="the message could not be written to disk")
        return self.refuse_held(error, outbox)

    def refuse_held(self, error: bytes, outbox: Outbox) -> bool:
        """Answer everything that waits with an error: what it depends on will never be durable.

        False: ``refuse_some`` answers the rest.
        """
        done = self.replies.refuse_all(error, outbox)
        self.batches.failed(error, outbox)
        return done

    def refuse_some(self, outbox: Outbox) -> bool:
        """Continue after ``failed`` or ``refuse_held``, in another turn; True if that was all."""
        return self.replies.refuse_some(outbox)

    # Time --------------------------------------------------------------------------------------

    def begin_time(self, now: i64, wall_lead: i64) -> None:
        """Start at an engine time: the stream was created or adopted."""
        self.log.timeline.begin(self.log.staged.time, now, wall_lead)
        self.expiry.lifetimes.follow_wall(int(wall_lead))
        self.batches.begin_time(now)

    def follow_wall(self, now: i64, wall_lead: i64) -> None:
        """Set how far the wall clock is ahead of engine time: it was set."""
        self.log.timeline.follow(now, wall_lead)
        self.expiry.lifetimes.follow_wall(int(wall_lead))

    def ahead(self) -> int:
        """Return how far the times of new messages are ahead of the wall clock."""
        return int(self.log.timeline.lead) - self.expiry.lifetimes.wall_lead

    def next_deadline(self) -> i64:
        """Return when ``expire`` has something to do; 0 if nothing."""
        log = self.log
        tend_at = self.maintenance.due
        if log.access.read_only or log.access.full:
            return tend_at
        deadline = self.expiry.next_deadline()
        if tend_at > 0 and (deadline == 0 or tend_at < deadline):
            deadline = tend_at
        idle = self.batches.timer.due
        if idle > 0 and (deadline == 0 or idle < deadline):
            deadline = idle
        return deadline

    def has_earlier_deadline(self) -> bool:
        """Return whether the next deadline is earlier than the queued one."""
        deadline = self.next_deadline()
        return deadline > 0 and (self.deadline == 0 or deadline < self.deadline)

    def expire(self, now: i64, outbox: Outbox) -> bool:
        """Remove expired messages, some at a time; return whether something was staged."""
        return self.batches.expire(now, outbox) or self.expiry.expire(now)
