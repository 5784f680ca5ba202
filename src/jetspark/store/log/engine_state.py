"""The engine's state in a log, besides messages: consumers, fast batches, sources.

Bodies of the records, in 64-bit words; the first word of each is the last sequence assigned when
the record was staged, as in ``deletion.py``:

- consumer: as-of sequence, id, document (the rest; empty: the consumer was deleted)
- consumer state: as-of sequence, id, 1 for a complete state and 0 for a change, state
- fast batch: as-of sequence, length of the id, id, state (the rest; empty: the batch is over)
- source, its progress: a fast batch record whose id is ``SOURCE``, which no client can send,
  followed by the key of the source

The store never interprets documents and states. A log has this state twice: durable, and as
decided. Segments are removed oldest first, so state must not be in the oldest one alone: it is
*restated*, staged again as decided now, and the segment is removed once that is durable. If a
state is damaged, a consumer falls back to what was known before, so a change must be a fact whose
loss causes a redelivery and nothing else.

Not compiled: a group has few such records.
"""

from typing import Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from jetspark.store.format.record import CONSUMER, CONSUMER_STATE, FAST_BATCH

# Ends a header line and cannot be in a subject: no batch id starts with it.
SOURCE: Final = b"\r\n"


class ConsumerRecords:
    """The records of one consumer."""

    def __init__(self) -> None:
        self.document = b""
        # The last complete state, and the changes since, oldest first.
        self.state = b""
        self.changes: list[bytes] = []
        # The oldest segments that contain the document, and the state with its changes.
        self.document_in = ""
        self.state_in = ""

    def copy(self) -> "ConsumerRecords":
        """Return an independent copy."""
        other = ConsumerRecords()
        other.document, other.state = self.document, self.state
        other.changes = list(self.changes)
        other.document_in, other.state_in = self.document_in, self.state_in
        return other

    def lies_in(self, segment: str) -> bool:
        """Return whether this depends on a segment or one before it."""
        return "" < self.document_in <= segment or "" < self.state_in <= segment


class EngineState:
    """The consumers and fast batches of one stream, from the records applied so far."""

    def __init__(self) -> None:
        self.consumers: dict[int, ConsumerRecords] = {}
        self.fast_batches: dict[bytes, bytes] = {}
        # The progress of sources, by their keys.
        self.sources: dict[bytes, bytes] = {}
        # The segments of those two, by the id in the record.
        self.fast_batches_in: dict[bytes, str] = {}
        # The highest id that a consumer of the stream ever had.
        self.last_consumer_id: int = 0

    def copy(self) -> "EngineState":
        """Return an independent copy."""
        other = EngineState()
        other.consumers = {
            consumer_id: records.copy() for consumer_id, records in self.consumers.items()
        }
        other.fast_batches = dict(self.fast_batches)
        other.sources = dict(self.sources)
        other.fast_batches_in = dict(self.fast_batches_in)
        other.last_consumer_id = self.last_consumer_id
        return other

    def apply(self, kind: int, body: bytes, segment: str) -> None:
        """Apply a record of one of the three kinds; it is in ``segment``."""
        word = read_i64_le(body, 8)
        if kind == FAST_BATCH:
            self._apply_fast_batch(body[16 : 16 + word], body[16 + word :], segment)
            return
        self.last_consumer_id = max(self.last_consumer_id, word)
        if kind == CONSUMER and len(body) == 16:
            self.consumers.pop(word, None)
            return
        records = self.consumers.get(word)
        if records is None:
            records = self.consumers[word] = ConsumerRecords()
        if kind == CONSUMER:
            records.document = body[16:]
            records.document_in = segment
        elif read_i64_le(body, 16):
            records.state = body[24:]
            records.changes = []
            records.state_in = segment
        else:
            records.changes.append(body[24:])
            records.state_in = records.state_in or segment

    def _apply_fast_batch(self, name: bytes, state: bytes, segment: str) -> None:
        states, key = self._place(name)
        if state:
            states[key] = state
            self.fast_batches_in[name] = segment
        else:
            states.pop(key, None)
            self.fast_batches_in.pop(name, None)

    def _place(self, name: bytes) -> tuple[dict[bytes, bytes], bytes]:
        """Return the dict that holds the state of an id, and its key."""
        if name.startswith(SOURCE):
            return self.sources, name[len(SOURCE) :]
        return self.fast_batches, name

    def state_of(self, name: bytes) -> bytes:
        """Return the state of an id; empty if there is none."""
        states, key = self._place(name)
        return states.get(key, b"")

    def holds(self, segment: str) -> bool:
        """Return whether this state depends on a segment or one before it."""
        return any(records.lies_in(segment) for records in self.consumers.values()) or any(
            place <= segment for place in self.fast_batches_in.values()
        )

    def lies_in(self, segments: set[str]) -> bool:
        """Return whether this state depends on some of these segments."""
        return any(
            {records.document_in, records.state_in} & segments
            for records in self.consumers.values()
        ) or any(place in segments for place in self.fast_batches_in.values())

    def moved(self, names: list[str]) -> None:
        """Note that segments were merged into one with the name of the first."""
        others = set(names[1:])
        for records in self.consumers.values():
            if records.document_in in others:
                records.document_in = names[0]
            if records.state_in in others:
                records.state_in = names[0]
        for name, place in self.fast_batches_in.items():
            if place in others:
                self.fast_batches_in[name] = names[0]

    def restated(
        self, segment: str, as_of: int, decided: "EngineState"
    ) -> list[tuple[int, bytes]]:
        """Return records (kind, body) that state again what would be lost with a segment.

        ``decided`` is what is staged: decisions since then are not undone.
        """
        found: list[tuple[int, bytes]] = []
        for consumer_id, durable in self.consumers.items():
            records = decided.consumers.get(consumer_id)
            if records is None or not durable.lies_in(segment):
                continue
            found.append((int(CONSUMER), consumer_body(as_of, consumer_id, records.document)))
            # A complete state even if there is none: earlier changes must not count twice.
            bodies = [(True, records.state), *((False, change) for change in records.changes)]
            found += [
                (int(CONSUMER_STATE), consumer_state_body(as_of, consumer_id, whole, body))
                for whole, body in bodies
            ]
        found += [
            (int(FAST_BATCH), fast_batch_body(as_of, name, state))
            for name, place in self.fast_batches_in.items()
            if place <= segment and (state := decided.state_of(name))
        ]
        return found

    def reserve_consumer_ids(self, consumer_id: int) -> None:
        """Reserve consumer ids up to this one: none is assigned again."""
        self.last_consumer_id = max(self.last_consumer_id, consumer_id)

    def drop_nameless(self) -> list[int]:
        """Forget consumers whose document was lost; return their ids."""
        lost = [
            consumer_id for consumer_id, records in self.consumers.items() if not records.document
        ]
        for consumer_id in lost:
            del self.consumers[consumer_id]
        return lost


class EngineStateFilter:
    """Decides which records of consumers and fast batches a compaction has to keep."""

    def __init__(self, state: EngineState, names: list[str], *, oldest: bool) -> None:
        last = names[-1]
        self._oldest = oldest
        self._documents = {n for n, r in state.consumers.items() if r.document_in <= last}
        self._states = {n for n, r in state.consumers.items() if r.state_in <= last}
        self._batches = {name for name, place in state.fast_batches_in.items() if place <= last}

    def keeps(self, kind: int, body: bytes) -> bool:
        """Return whether a record has to be kept.

        A record that ends something is kept as long as there are segments before it.
        """
        word = int(read_i64_le(body, 8))
        if kind == CONSUMER:
            over = len(body) == 16
            return word in self._documents or (over and not self._oldest)
        if kind == CONSUMER_STATE:
            return word in self._states
        assert kind == FAST_BATCH, "no other kind exists"
        over = len(body) == 16 + word
        return body[16 : 16 + word] in self._batches or (over and not self._oldest)


def consumer_body(as_of: i64, consumer_id: i64, document: bytes) -> bytes:
    """Return the body of a consumer record, without its CRLF."""
    body = BytesWriter()
    write_i64_le(body, as_of)
    write_i64_le(body, consumer_id)
    body.write(document)
    return body.getvalue()


def consumer_state_body(as_of: i64, consumer_id: i64, whole: bool, state: bytes) -> bytes:
    """Return the body of a consumer state record, without its CRLF."""
    body = BytesWriter()
    write_i64_le(body, as_of)
    write_i64_le(body, consumer_id)
    write_i64_le(body, 1 if whole else 0)
    body.write(state)
    return body.getvalue()


def fast_batch_body(as_of: i64, name: bytes, state: bytes) -> bytes:
    """Return the body of a fast batch record, without its CRLF."""
    body = BytesWriter()
    write_i64_le(body, as_of)
    write_i64_le(body, len(name))
    body.write(name)
    body.write(state)
    return body.getvalue()
