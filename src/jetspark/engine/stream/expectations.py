"""Expectations of a publisher, compared with the staged state."""

from typing import Final

from mypy_extensions import i64

from jetspark.store.log.stream_log import StreamLog
from jetspark.subjects.tokens import is_literal

# An unreadable number equals no sequence.
NO_SEQUENCE: Final[i64] = -1
_ZERO: Final = 0x30
_NINE: Final = 0x39
# The largest number of 19 digits that fits; all with fewer digits do.
_LARGEST: Final = b"9223372036854775807"


def expected_sequence(value: bytes) -> i64:
    """Return the sequence in a header; NO_SEQUENCE if invalid, which then is a mismatch."""
    size: i64 = len(value)
    if size > 18:
        value = value.lstrip(b"0")
        size = len(value)
        if size > 19 or (size == 19 and value > _LARGEST):
            return NO_SEQUENCE
        if size == 0:
            return 0
    number: i64 = 0
    i: i64 = 0
    while i < size:
        digit: i64 = value[i]
        if digit < _ZERO or digit > _NINE:
            return NO_SEQUENCE
        number = number * 10 + digit - _ZERO
        i += 1
    return number


def staged_last(log: StreamLog) -> i64:
    """Return the last sequence of the stream as decisions see it.

    After a failed group its sequences are used, but no message has them: until the next one is
    staged, the last sequence is the one that readers see, so that their expectations hold.
    """
    if log.staged.skip_needed:
        return log.index.last_seq
    return log.staged.seq


def staged_last_of(log: StreamLog, subject: bytes) -> i64:
    """Return the last sequence of a subject or pattern; 0 if it has no message."""
    if is_literal(subject):
        found = log.index.known(subject)
        return 0 if found is None else found.staged_last
    if not log.staged.deletions.any and log.staged.batch is None:
        found_staged = log.staged.newest_match(subject)
        if found_staged > 0:
            return found_staged
        # Staged messages do not match: the newest of the others is the last.
        if found_staged == 0:
            return log.index.last_match(subject)
    last: i64 = 0
    for entry in log.index.entries_like(subject):
        last = max(last, entry.staged_last)
    return last
