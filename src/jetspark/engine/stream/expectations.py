"""Expectations of a publisher, compared with the staged state."""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from jetspark.store.log.index import QUICK_SUBJECTS
from jetspark.store.log.pattern_lasts import COMPARED_AT_ONCE, PatternLasts
from jetspark.store.log.pattern_search import UNKNOWN, LastSearch
from jetspark.store.log.staged_search import VISITED_AT_ONCE, StagedSearch
from jetspark.store.log.stream_log import StreamLog
from jetspark.subjects.tokens import is_literal

# An unreadable number equals no sequence.
NO_SEQUENCE: Final[i64] = -1
# A decision visits this many messages that were stored since a pattern was searched for.
CAUGHT_UP: Final[i64] = 4096
# A batch that expects something of more patterns compares all of them with every subject.
QUICK_PATTERNS: Final[i64] = 16
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
    log.staged.look_up()
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


class LongLook(Exception):
    """What decides about a message takes several turns to look up: ``step``, then ask again.

    ``look`` does as much as a turn allows, and returns True when the answer is known.
    """

    def __init__(self, what: str, look: Callable[[], bool]) -> None:
        super().__init__(f"{what} takes several turns")
        self._look: Callable[[], bool] = look

    def step(self) -> bool:
        """Look as far as this turn allows; True when the answer is known: ask now."""
        return self._look()


class PatternLook:
    """The search for the last message of a pattern."""

    def __init__(self, looks: "LastLooks", search: LastSearch) -> None:
        self._looks: LastLooks = looks
        self._search: LastSearch = search

    def step(self) -> bool:
        """Search as far as this turn allows; True when it is over."""
        if not self._search.step():
            return False
        # Another pattern may have been searched for meanwhile.
        self._looks.keep(self._search)
        return True


class StagedLook:
    """The search for the newest staged message of a pattern."""

    def __init__(self, looks: "LastLooks", search: StagedSearch) -> None:
        self._looks: LastLooks = looks
        self._search: StagedSearch = search

    def step(self) -> bool:
        """Search as far as this turn allows; True when it is over."""
        if not self._search.step(VISITED_AT_ONCE):
            return False
        self._looks.keep_staged(self._search)
        return True


class LastLooks:
    """The last sequences of patterns that no order helps with, for the decisions of one stream.

    What was found is kept for the next expectation of the same pattern.
    """

    def __init__(self, log: StreamLog) -> None:
        self._log: StreamLog = log
        self._search: LastSearch | None = None
        self._staged: StagedSearch | None = None

    def last_of(self, subject: bytes) -> i64:
        """Return what ``staged_last_of`` does; raises LongLook if that takes several turns."""
        log = self._log
        staged = log.staged
        if (
            is_literal(subject)
            or i64(len(log.index.entries)) <= QUICK_SUBJECTS
            or staged.batch is not None
        ):
            return staged_last_of(log, subject)
        found = self._newest_staged(subject)
        if found > 0:
            return found
        found = log.index.quick_last(subject)
        if found == UNKNOWN:
            found = self._searched(subject)
        if found > 0 and staged.deletions.any and staged.deletions.has_seq(log.index, found):
            # The newest one is being removed: every subject is checked.
            return staged_last_of(log, subject)
        return found

    def _newest_staged(self, subject: bytes) -> i64:
        """Return the newest staged message of a pattern; 0: none."""
        staged = self._log.staged
        found: i64 = -1 if staged.deletions.any else staged.newest_match(subject)
        if found >= 0:
            return found
        search = self._staged
        if search is None or search.staged is not staged or search.pattern != subject:
            search = StagedSearch(staged, subject)
        if not search.step(CAUGHT_UP):
            look = StagedLook(self, search)
            raise LongLook("the newest staged message of a pattern", look.step)
        return search.last

    def _searched(self, subject: bytes) -> i64:
        """Return the last durable message of a pattern, if a search has found it."""
        search = self._search
        if search is None or search.pattern != subject:
            search = LastSearch(self._log.index, subject)
        if not search.catch_up(CAUGHT_UP):
            raise LongLook("the last message of a pattern", PatternLook(self, search).step)
        return search.last

    def keep(self, search: LastSearch) -> None:
        """Keep the result of a search."""
        self._search = search

    def keep_staged(self, search: StagedSearch) -> None:
        """Keep the result of a search of the staged messages."""
        self._staged = search


class BatchLook:
    """The search for the last messages of the patterns of a batch."""

    def __init__(self, looks: "BatchLooks", search: PatternLasts) -> None:
        self._looks: BatchLooks = looks
        self._search: PatternLasts = search

    def step(self) -> bool:
        """Search as far as this turn allows; True when it is over."""
        if not self._search.step(COMPARED_AT_ONCE):
            return False
        # Another batch may have been committed meanwhile.
        self._looks.keep(self._search)
        return True


class BatchLooks:
    """The last sequences of the patterns that an atomic batch expects something of."""

    def __init__(self, log: StreamLog) -> None:
        self._log: StreamLog = log
        self._search: PatternLasts | None = None

    def lasts_of(self, patterns: set[bytes]) -> dict[bytes, int]:
        """Return the last sequence of each; raises LongLook if that takes several turns."""
        if not patterns:
            return {}
        staged = self._log.staged
        if i64(len(patterns)) <= QUICK_PATTERNS and not staged.deletions.any:
            quick = self._quick(patterns)
            if quick is not None:
                return quick
        search = self._search
        self._search = None
        if search is None or search.staged is not staged or search.patterns != patterns:
            search = PatternLasts(staged, patterns)
        if not search.step(COMPARED_AT_ONCE):
            raise LongLook("what a batch expects", BatchLook(self, search).step)
        return search.lasts()

    def _quick(self, patterns: set[bytes]) -> dict[bytes, int] | None:
        """Return them if none takes long."""
        log = self._log
        lasts: dict[bytes, int] = {}
        for pattern in patterns:
            last = log.staged.newest_match(pattern)
            if last == 0:
                last = log.index.quick_last(pattern)
            if last == UNKNOWN:
                return None
            lasts[pattern] = int(last)
        return lasts

    def keep(self, search: PatternLasts) -> None:
        """Keep the result of a search for the batch that waits for it."""
        self._search = search
