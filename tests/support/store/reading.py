"""Reading a whole log, and comparing what it counts with what exists."""

from tests.support.store.state import Consumer, Message

from jetspark.errors.storage import CorruptRecord, ReadFailed
from jetspark.store.format.record import FIXED, body_end, headers_end, record_time, subject_end
from jetspark.store.log.stream_log import StreamLog


class Violation(AssertionError):
    """A store broke a promise."""


def sequences(log: StreamLog) -> list[int]:
    """Every sequence that has a message, without reading one."""
    found = []
    seq = log.index.next_seq(1, b"")
    while seq:
        found.append(int(seq))
        seq = log.index.next_seq(seq + 1, b"")
    return found


def consumers(log: StreamLog) -> dict[int, Consumer]:
    """What a log says of every consumer."""
    return {
        number: (records.document, records.state, tuple(records.changes))
        for number, records in log.engine_state.consumers.items()
    }


def messages(log: StreamLog, unreadable: set[int] | None = None) -> dict[int, Message]:
    """Every message of a log by its sequence, read as a consumer would.

    Those that cannot be read are added to ``unreadable``; without it they are an error.
    """
    found = {}
    time = 0
    for seq in sequences(log):
        try:
            data, at = log.reader.locate(seq)
        except (CorruptRecord, ReadFailed):
            if unreadable is None:
                raise
            unreadable.add(seq)
            continue
        found[seq] = Message(
            data[at + FIXED : subject_end(data, at)],
            data[subject_end(data, at) : headers_end(data, at)],
            data[headers_end(data, at) : body_end(data, at)],
        )
        if record_time(data, at) < time:
            raise Violation(f"time goes back at sequence {seq}")
        time = int(record_time(data, at))
    return found


def check_counts(log: StreamLog, visible: dict[int, Message]) -> None:
    """Compare everything the index counts with the messages that exist."""
    index = log.index
    last: dict[bytes, list[int]] = {}
    for seq, message in visible.items():
        last.setdefault(message.subject, []).append(seq)
    counted = {
        "messages": (index.messages, len(visible)),
        "bytes": (index.bytes, sum(message.size for message in visible.values())),
        "subjects": (index.subject_count, len(last)),
        "first": (index.first_seq, min(visible, default=index.first_seq)),
        "live": (sum(columns.live for columns in index.segments), len(visible)),
    }
    wrong = {name: pair for name, pair in counted.items() if pair[0] != pair[1]}
    if wrong:
        raise Violation(f"counted and there: {wrong}")
    for subject, sequences in last.items():
        entry = index.subjects.get(subject)
        if entry is None or (entry.count, entry.first, entry.last) != (
            len(sequences),
            sequences[0],
            sequences[-1],
        ):
            raise Violation(f"{subject!r} has {sequences}, its entry says otherwise")
        for seq, following in zip(sequences, [*sequences[1:], 0], strict=True):
            if index.next_in_subject(seq) != following:
                raise Violation(f"behind {seq} of {subject!r} comes {following}")
