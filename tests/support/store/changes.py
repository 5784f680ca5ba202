"""Random changes for the campaigns on the store: each is staged and recorded in the model."""

from random import Random
from typing import Final

from tests.support.store.model import StreamModel
from tests.support.store.state import (
    Batched,
    ConsumerChanged,
    ConsumerSet,
    Deleted,
    DeletedRange,
    FastBatchSet,
    Message,
    Published,
    Purged,
)

from jetspark.store.log.limits import Limits
from jetspark.store.log.stream_log import StreamLog

SIZES: Final = (0, 1, 17, 100, 350, 520, 900, 1600)
HEADERS: Final = (b"", b"", b"", b"NATS/1.0\r\nA: b\r\n\r\n")


class Changes:
    """Stages changes of all kinds; the same random numbers stage the same ones."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._now = 0
        self.batches: int = 0

    def stage(self, log: StreamLog, stream: StreamModel) -> int:
        """Stage a few changes; how many."""
        before = len(stream.changes)
        for _ in range(self._random.randint(1, 4)):
            chance = self._random.random()
            if chance < 0.55:
                stream.staged(self._stage_message(log))
            elif chance < 0.65:
                self._stage_batch(log, stream)
            elif chance < 0.75:
                self._stage_delete(log, stream)
            elif chance < 0.82:
                self._stage_purge(log, stream)
            elif chance < 0.95:
                self._stage_entry(log, stream)
            else:
                self._stage_limits(log, stream)
        return len(stream.changes) - before

    def _stage_message(self, log: StreamLog) -> Published:
        message = Message(
            b"s.%d" % self._random.randrange(5),
            self._random.choice(HEADERS),
            self._random.randbytes(self._random.choice(SIZES)),
        )
        self._now += self._random.randrange(3)
        tail = message.headers + message.body + b"\r\n"
        seq = log.staged.add_message(message.subject, len(message.headers), tail, self._now)
        return Published(int(seq), message)

    def _stage_batch(self, log: StreamLog, stream: StreamModel) -> None:
        log.staged.begin_batch()
        changes: list[Published | Deleted] = []
        for _ in range(self._random.randint(1, 4)):
            seq = self._random.randint(1, max(1, int(log.staged.seq)))
            if self._random.random() < 0.2 and log.staged.delete(seq):
                changes.append(Deleted(seq))
            else:
                changes.append(self._stage_message(log))
        if self._random.random() < 0.2:
            log.staged.abort_batch()
            return
        log.staged.end_batch()
        self.batches += 1
        stream.staged(Batched(tuple(changes)))

    def _stage_delete(self, log: StreamLog, stream: StreamModel) -> None:
        first = self._random.randint(1, max(1, int(log.staged.seq)))
        if self._random.random() < 0.6:
            if log.staged.delete(first):
                stream.staged(Deleted(first))
            return
        last = first + self._random.randrange(6)
        if log.staged.delete_range(first, last):
            # What is given out later is not meant.
            stream.staged(DeletedRange(first, min(last, int(log.staged.seq))))

    def _stage_entry(self, log: StreamLog, stream: StreamModel) -> None:
        """Stage a consumer, the state of one, or a fast batch."""
        chance = self._random.random()
        known = list(log.staged.engine_state.consumers)
        body = b"%d" % self._random.randrange(10**6) * self._random.choice((1, 7, 50))
        if chance < 0.2:
            batch_id = b"b%d" % self._random.randrange(3)
            body = body if self._random.random() < 0.7 else b""
            log.staged.set_fast_batch(batch_id, body)
            stream.staged(FastBatchSet(batch_id, body))
        elif not known or chance < 0.4:
            number = log.staged.last_consumer_id + 1
            log.staged.set_consumer(number, body)
            stream.staged(ConsumerSet(number, body))
        elif chance < 0.5:
            number = self._random.choice(known)
            body = body if self._random.random() < 0.5 else b""
            log.staged.set_consumer(number, body)
            stream.staged(ConsumerSet(number, body))
        else:
            number = self._random.choice(known)
            whole = self._random.random() < 0.3
            log.staged.set_consumer_state(number, whole, body)
            stream.staged(ConsumerChanged(number, whole, body))

    def _stage_purge(self, log: StreamLog, stream: StreamModel) -> None:
        pattern = self._random.choice((b"", b"s.1", b"s.*", b"s.>", b"nobody"))
        before = keep = 0
        if self._random.random() < 0.5:
            before = self._random.randint(1, int(log.staged.seq) + 3)
        else:
            keep = self._random.randrange(4)
        log.staged.purge(before, pattern, keep)
        stream.staged(Purged(before, pattern, keep))

    def _stage_limits(self, log: StreamLog, stream: StreamModel) -> None:
        limits = (
            self._random.choice((0, 0, 3, 8)),
            self._random.choice((0, 0, 1500, 4000)),
            self._random.choice((0, 0, 1, 2)),
        )
        document = b'{"n":%d}' % self._random.randrange(1000)
        stream.documents.add(document)
        stream.staged(limits)
        log.staged.configure(document, Limits(*limits))
