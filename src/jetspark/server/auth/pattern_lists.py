"""Allow lists and deny lists, and how their entries match (``permissions.py``)."""

from typing import Final

from jetspark.subjects.match import is_subset, matches, overlaps
from jetspark.subjects.sublist import Match, Sublist
from jetspark.subjects.tokens import is_literal, is_valid_subject

# Up to this many patterns are tried one after the other; more go through the trie of a sublist.
_LINEAR_MAX: Final = 6


class PatternList:
    """An allow list or a deny list. Raises ``ValueError`` for an invalid entry."""

    def __init__(self, entries: list[bytes], queues: bool) -> None:
        self.patterns: list[bytes] = []
        self.queues: list[bytes] = []
        self.has_queues: bool = False
        self._tree: Sublist = Sublist(0)
        for entry in entries:
            words = entry.split() if queues else [entry]
            problem = entry_problem(words)
            if problem:
                raise ValueError(f"permission {entry!r}: {problem}")
            queue = words[1] if len(words) == 2 else b""
            self.patterns.append(words[0])
            self.queues.append(queue)
            self.has_queues = self.has_queues or len(queue) > 0
            # The pattern is its own value: queries with a wildcard need to know what matched.
            self._tree.insert(words[0], queue, words[0])
        self._linear: bool = len(entries) <= _LINEAR_MAX and not self.has_queues

    def names(self, subject: bytes) -> bool:
        """Return whether an entry without a queue matches; wildcards in it are literal."""
        if self._linear:
            return any(matches(subject, pattern) for pattern in self.patterns)
        return len(self._tree.find(subject).plain) > 0

    def find(self, subject: bytes) -> Match:
        """Return the patterns that match, by queue; wildcards in ``subject`` are literal."""
        return self._tree.match(subject)

    def covers(self, subject: bytes) -> bool:
        """Return whether an entry matches everything that ``subject``, with wildcards, matches."""
        return any(is_subset(subject, pattern) for pattern in self.patterns)

    def touches(self, subject: bytes) -> bool:
        """Return whether ``subject``, which may have wildcards, overlaps an entry."""
        return any(overlaps(pattern, subject) for pattern in self.patterns)


def entry_problem(words: list[bytes]) -> str:
    """Return what is wrong with an entry, a subject and perhaps a queue; empty if valid."""
    if len(words) == 0 or len(words) > 2:
        return "expected a subject, or a subject and a queue"
    if not is_valid_subject(words[0]):
        return "the subject is not valid"
    if len(words) == 1:
        return ""
    if not is_valid_subject(words[1]):
        return "the queue is not valid"
    if not is_literal(words[1]):
        for token in words[1].split(b"."):
            if token.startswith(b"*") and len(token) > 1:
                # nats-server treats it as a wildcard here and as a name everywhere else.
                return f"{token!r} in a queue with wildcards; write * alone or a name"
    return ""


def pattern_list(entries: list[bytes] | None, queues: bool) -> PatternList | None:
    """Return the list of these entries; None stays None."""
    return None if entries is None else PatternList(entries, queues)


def _queue_is_named(queue: bytes, name: bytes) -> bool:
    return queue == name or (not is_literal(name) and is_subset(queue, name))


def _covers(patterns: list[object], subject: bytes) -> bool:
    for pattern in patterns:
        assert isinstance(pattern, bytes)
        if is_subset(subject, pattern):
            return True
    return False


def allows(found: Match, subject: bytes, queue: bytes) -> bool:
    """Return whether the entries of an allow list that match ``subject`` allow it in ``queue``."""
    plain = _covers(found.plain, subject)
    if len(queue) == 0 or len(found.groups) == 0:
        return plain
    for index in range(len(found.group_names)):
        if _queue_is_named(queue, found.group_names[index]) and (
            plain or _covers(found.groups[index], subject)
        ):
            return True
    return False


def denies(found: Match, queue: bytes) -> bool:
    """Return whether the entries of a deny list that match a subject deny it in ``queue``."""
    if len(found.plain) > 0:
        return True
    if len(queue) > 0:
        for name in found.group_names:
            if _queue_is_named(queue, name):
                return True
    return False
