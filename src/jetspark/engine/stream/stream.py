"""One stream: what becomes of its messages when the disk has answered, and as time passes."""

from typing import Final

from mypy_extensions import i64

from jetspark.engine.batch import groups
from jetspark.engine.batch.intake import BatchIntake
from jetspark.engine.outbox import Outbox
from jetspark.engine.stream.expiry import PER_TURN, marker_block
from jetspark.engine.stream.held import Held
from jetspark.engine.stream.schedules import fired
from jetspark.engine.stream.ttl import SECOND
from jetspark.errors.bodies import error_body
from jetspark.errors.storage import ReadFailed
from jetspark.headers.status import NO_RESPONDERS, status_block
from jetspark.store.log.stream_log import Group

ACK_NOT_STORED: Final = status_block(NO_RESPONDERS, b"Acknowledgement Could Not Be Stored")
INSUFFICIENT_RESOURCES: Final = 10023
STORE_FAILED: Final = 10077


class Stream(BatchIntake):
    """A stream of one account."""

    # Commit ------------------------------------------------------------------------------------

    def take_group(self) -> Group | None:
        """What the committer gets next; the replies that wait for it travel along."""
        if (self.advanced or self.ended) and not self.log.access.read_only:
            groups.note_group(self)
        group = self.log.take_work()
        if group is not None:
            self.flying = self.filling
            self.filling = Held()
            self.flying_seq = self.log.staged.seq
            self.checks.group_taken()
        return group

    def committed(self, outbox: Outbox) -> None:
        """The group on its way is durable: its replies go out."""
        self.log.commit()
        self.checks.committed()
        held = self.flying
        self.flying = Held()
        if held.replies:
            outbox.acknowledge(self.ack_head, held.replies, held.sequences)
        outbox.now.extend(held.entries)
        for answer in held.answers:
            outbox.reply(answer[0], answer[1])
        self.purged = held.purges
        for to in held.acks:
            outbox.now.append((to, to, b"", b"", b""))
        self.published.extend(held.messages)
        if held.batches:
            groups.committed(self, held.batches, outbox)

    def failed(self, no_space: bool, outbox: Outbox) -> None:
        """The group on its way was not written, and what was staged behind it stands on it."""
        self.log.fail(no_space)
        self.checks.failed()
        self.expiry.start_again()
        if no_space:
            error = error_body(INSUFFICIENT_RESOURCES)
        else:
            error = error_body(STORE_FAILED, err="the message could not be written to disk")
        self.refuse_held(error, outbox)

    def refuse_held(self, error: bytes, outbox: Outbox) -> None:
        """Answer everything that waits with an error: what it stands on will never be durable."""
        body = self.failure(error)
        self.refuse_acks(outbox)
        for held in (self.flying, self.filling):
            for to in held.replies:
                outbox.now.append((to, to, b"", b"", body))
            for entry in held.entries:
                outbox.now.append((entry[0], entry[1], entry[2], b"", body))
            for answer in held.answers:
                outbox.reply(answer[0], answer[2](error))
        self.flying = Held()
        self.filling = Held()
        if self.rules.allow_batched:
            groups.failed(self, error, outbox)

    def answer_acks(self, outbox: Outbox) -> None:
        """There is no group to wait for: confirm acknowledgements, or refuse them.

        Those of consumers in memory leave no record, so all they stand on is there.
        """
        if self.log.access.read_only:
            self.refuse_acks(outbox)
        elif self.log.staged.position == self.log.index.position:
            for to in self.filling.acks:
                outbox.now.append((to, to, b"", b"", b""))
            self.filling.acks = []

    def refuse_acks(self, outbox: Outbox) -> None:
        """Tell clients that wait for it that no acknowledgement of theirs is stored now.

        With 503 and no body: clients take any other answer for a confirmation.
        """
        for held in (self.flying, self.filling):
            for to in held.acks:
                outbox.reply_status(to, ACK_NOT_STORED)
            held.acks = []

    # Time --------------------------------------------------------------------------------------

    def begin_time(self, now: i64, wall_lead: i64) -> None:
        """The stream is made or taken over at an engine time."""
        timeline = self.log.timeline
        timeline.begin(self.log.staged.time, now, wall_lead)
        self.expiry.follow_wall(int(wall_lead))
        for batch in self.fast.values():
            # Open when the server stopped: it was used some time before now, whatever the clock
            # says.
            batch.touched = max(min(timeline.engine_time(batch.touched), now), i64(0))
            due = batch.touched + self.batch_limits.idle_ns
            self.batch_due = min(self.batch_due, due)

    def follow_wall(self, now: i64, wall_lead: i64) -> None:
        """The wall clock was set: it is this far ahead of engine time."""
        self.log.timeline.follow(now, wall_lead)
        self.expiry.follow_wall(int(wall_lead))

    def ahead(self) -> int:
        """How far the times of new messages are ahead of the wall clock."""
        return int(self.log.timeline.lead) - self.expiry.wall_lead

    def next_deadline(self) -> i64:
        """When ``expire`` has something to do; 0 when there is nothing."""
        log = self.log
        if log.access.read_only or log.access.full:
            return self.tend_at
        deadline = self.expiry.next_deadline(self.rules)
        if self.tend_at > 0 and (deadline == 0 or self.tend_at < deadline):
            deadline = self.tend_at
        window = self.checks.window
        if window.due > 0:
            # Ids are forgotten when they are asked for; this is for a stream that nobody asks.
            idle = window.due + window.window
            if deadline == 0 or idle < deadline:
                deadline = idle
        if self.batch_due > 0 and (deadline == 0 or self.batch_due < deadline):
            deadline = self.batch_due
        return deadline

    def expire(self, now: i64, outbox: Outbox) -> bool:
        """Take out what is too old, some at a time; return whether something was staged."""
        if 0 < self.batch_due <= now and groups.expire(self, now, outbox):
            return True
        window = self.checks.window
        if window.due > 0:
            window.expire(now)
        rules = self.rules
        if self.log.access.read_only or (
            # Neither markers nor what schedules send can be stored.
            self.log.access.full and (rules.marker_ttl > 0 or rules.allow_schedules)
        ):
            return False
        expiry = self.expiry
        if now < expiry.held_until:
            return False
        before = self.log.staged.position
        try:
            return self.end_due(now)
        except ReadFailed:
            # Nothing ends unread; what was staged before that is there.
            expiry.hold(now)
            return self.log.staged.position > before

    def end_due(self, now: i64) -> bool:
        """Take out what is over, some at a time; raises ReadFailed when the disk refuses."""
        expiry = self.expiry
        if expiry.scanning(self.rules):
            expiry.scan(now)
            return False
        staged = False
        count: i64 = 0
        while count < PER_TURN:
            seq = expiry.next_message(now)
            if seq == 0:
                break
            try:
                staged = self.end_message(seq, now) or staged
            except ReadFailed:
                expiry.take_back(seq, now)
                raise
            count += 1
        if self.rules.allow_schedules:
            staged = self.fire(now) or staged
        if self.rules.max_age > 0:
            staged = self.end_old(now) or staged
        return staged

    def fire(self, now: i64) -> bool:
        """Send what the schedules that are due send."""
        expiry = self.expiry
        staged = False
        count: i64 = 0
        while count < PER_TURN:
            seq = expiry.next_schedule(now)
            if seq == 0:
                break
            count += 1
            try:
                message = fired(self.log, seq, int(now) + expiry.wall_lead)
            except ReadFailed:
                expiry.fire_again(int(seq), int(now))
                raise
            if message is None:
                continue
            if message.following is not None:
                expiry.schedule(int(seq), message.following)
            if self.checks.judge_fired(message.target, message.block, message.body):
                self.store(message.target, b"", now)
                staged = True
            if message.following is None:
                self.log.staged.purge(0, message.scheduler, 0)
                staged = True
        return staged

    def end_old(self, now: i64) -> bool:
        """Take out what is older than ``max_age``."""
        rules = self.rules
        log = self.log
        expiry = self.expiry
        due = expiry.oldest_due(rules)
        if due == 0 or due > now:
            return False
        if rules.marker_ttl <= 0 and not expiry.immortal:
            # No record: the log says when each message came, and that is enough.
            log.expire_before(log.timeline.stored_time(now - rules.max_age) + 1)
            return False
        staged = False
        seq = expiry.next_mortal(0)
        count: i64 = 0
        oldest = log.timeline.stored_time(now - rules.max_age)
        while seq > 0 and count < PER_TURN and log.reader.stored_at(seq, True) <= oldest:
            staged = self.end_message(seq, now) or staged
            seq = expiry.next_mortal(seq)
            count += 1
        return staged

    def end_message(self, seq: i64, now: i64) -> bool:
        """A message is over: take it out, or leave a marker when it was the subject's last."""
        if self.rules.marker_ttl <= 0:
            return self.log.staged.delete(seq)
        expiry = self.expiry
        subject = expiry.subject_to_mark(seq)
        if len(subject) == 0:
            return self.log.staged.delete(seq)
        seconds = self.rules.marker_ttl // SECOND
        block = marker_block(seconds)
        marker = self.log.staged.add_message(subject, len(block), block + b"\r\n", now)
        self.checks.last_id = b""
        expiry.learn(int(marker), seconds, self.log.staged.time)
        self.roll_up(subject, marker, seq, everything=False)
        return True
