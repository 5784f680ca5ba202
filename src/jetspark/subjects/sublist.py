"""The subscription list: subscribers by pattern, with a cache of results by subject.

Patterns without wildcards are in one dict, so that an inbox for one request costs one insertion
and one removal. Patterns with wildcards are in a trie by token (``trie.py``).

Two caches keep results: one by subject, one by the part of a subject up to its last dot, for
subjects that are used once (hot-path.md, Rules). A change of a literal pattern drops one result of
the first; a change of a pattern with wildcards drops the results it may affect.

Subjects that are used once must not evict those that are used often: ``is_frequent`` says which
are worth an entry, and ``find`` answers for the others without one.

A search that visits too many nodes of the trie raises ``LongSearch``, which continues it in steps
(hot-path.md, Long searches).
"""

from typing import Final

from librt.strings import read_i32_le
from librt.vecs import vec
from mypy_extensions import i32, i64

from jetspark.subjects.linear_hash_dict import LinearHashDict
from jetspark.subjects.match import literal_head, matches
from jetspark.subjects.tokens import DOT, has_empty_token, is_literal, is_valid_subject
from jetspark.subjects.trie import (
    COMPLETE,
    CUT_OFF,
    SEVERAL,
    TOO_LONG,
    Leaf,
    LongWalk,
    Match,
    Node,
    Walks,
    collect,
    leaf_of,
    merge,
    only_leaf,
    remove_value,
)

__all__ = ["CACHE_SIZE", "WIDTH_MAX", "LongSearch", "Match", "Sublist"]

CACHE_SIZE: Final = 32_768
"""Results per cache, unless the constructor is given another number."""

WIDTH_MAX: Final = 32_768
"""Clients may not add patterns with which a search visits more nodes.

It takes up to 6 ms then, and not all searches are split into steps.
"""

# A full cache evicts one entry in this many, spread over all of them: with subjects used
# cyclically, evicting the oldest would evict exactly those needed next.
_EVICT_ONE_IN: Final = 8

# Scanning the cache for results that a wildcard affects is paid for by earlier fills: each one
# buys this many entries. When the budget is spent (a client with a thousand wildcards
# disconnects), the caches are cleared instead, so that scans never cost more than about a second
# fill per entry. The budget is capped: all scans together take at most two milliseconds.
_LOOKS_PER_FILL: Final = 32
_LOOKS_MAX: Final = 16 * CACHE_SIZE

# Subjects are recognised by one hash each: a subject is frequent if no other one with the same
# place was used since. So one is that comes back among fewer others than about this number, and
# none of a million that are used in a circle. An unlucky hash costs or wastes a cache entry.
_SEEN: Final[i64] = 1 << 14
# A product of two numbers of 31 bits does not overflow.
_FACTOR: Final[i64] = 0x5BD1E995
_HASH_MASK: Final[i64] = 0x7FFFFFFF

# Freeing tens of thousands of cold results takes tens of milliseconds: cleared caches are set
# aside, and each fill frees this many of their entries.
_FREED_PER_FILL: Final = 8
# As many at once take less than a millisecond.
_FREED_AT_ONCE: Final = 1024


# More nodes than any trie has.
_NO_LIMIT: Final[i64] = 1 << 60


class LongSearch(Exception):
    """A search visits more nodes than one turn allows: it is continued in steps.

    When ``step`` is done, the same question is asked again, and answered by what it found: the
    subscriptions that exist then and existed when the search began, and possibly some of those
    that were added in between.
    """

    def __init__(self, sublist: "Sublist", walk: LongWalk) -> None:
        super().__init__(f"the search for {walk.subject!r} takes several turns")
        self._sublist: Sublist = sublist
        self._walk: LongWalk = walk
        self._generation: i64 = sublist.generation

    def step(self, most: i64) -> i64:
        """Visit up to so many nodes; return how many were visited."""
        return self._walk.step(most)

    def is_over(self) -> bool:
        """Return whether ``apply`` may follow."""
        return self._walk.is_over()

    def apply(self) -> None:
        """Let the sublist answer by what was found, until its next change."""
        self._sublist.settle(self._walk, self._generation)


class Settled:
    """What a long search found, for the same question; ``exact``: nothing changed meanwhile."""

    def __init__(self, walk: LongWalk, generation: i64, exact: bool) -> None:
        self.subject: bytes = walk.subject
        self.leaves: list[Leaf] = walk.leaves
        self.generation: i64 = generation
        self.exact: bool = exact


class Sublist:
    """Subscriptions by pattern. Values are compared by identity and keep their order.

    A value inserted twice counts twice. ``generation`` increases with every change and ``count``
    is the number of subscriptions. With ``nodes_max``, a search through more nodes raises
    ``LongSearch``.
    """

    def __init__(self, cache_size: int = CACHE_SIZE, nodes_max: i64 = _NO_LIMIT) -> None:
        self.generation: i64 = 0
        self.count: i64 = 0
        self._cache_size: i64 = cache_size
        self._cache: dict[bytes, Match] = {}
        self._prefixes: dict[bytes, Match] = {}
        # The number of results that changes have scanned so far. Cold ones take 80 ns each:
        # callers with many changes count them as work of their turn.
        self.looks: i64 = 0
        # The nodes that long searches have visited so far, likewise.
        self.walks: Walks = Walks(nodes_max)
        # The last long search that is complete.
        self._settled: Settled | None = None
        self._emptied: list[dict[bytes, Match]] = []
        self._looks_left: i64 = 0
        self._evictions: i64 = 0
        self._literals: LinearHashDict = LinearHashDict()
        # How many of those start with an underscore: if clients share one inbox there are none,
        # and replies need not be looked up there.
        self._literal_inboxes: i64 = 0
        self._root: Node = Node()
        # The result of all subjects without subscribers that ``find`` is asked for.
        self._none: Match = merge([])
        # The hash of the last subject at each place; empty until the first question.
        self._seen: vec[i32] = vec[i32]()
        # The last prefix and its result: replies come in runs for one client.
        self._last_prefix: bytes = b""
        self._last_wild: Match = merge([])

    def insert(self, pattern: bytes, queue: bytes, value: object) -> None:
        """Add a subscriber: of every message if ``queue`` is empty, else a member of that group.

        Raises ``ValueError`` for a pattern that is not valid.
        """
        if not is_valid_subject(pattern):
            raise ValueError(
                f"bad subject {pattern!r}: expected tokens separated by dots, without blanks, "
                "'>' only as the last one"
            )
        if is_literal(pattern):
            leaf: Leaf | None = self._literals.get(pattern)
            if leaf is None:
                leaf = Leaf()
                self._literals.set(pattern, leaf)
                if pattern.startswith(b"_"):
                    self._literal_inboxes += 1
            leaf.add(queue, value)
            _forget(self._cache, pattern)
        else:
            leaf_of(self._root, pattern).add(queue, value)
            self._forget_matching(pattern)
        self.count += 1
        self.generation += 1

    def remove(self, pattern: bytes, queue: bytes, value: object) -> bool:
        """Remove a subscriber; False if it does not exist."""
        if is_literal(pattern):
            leaf: Leaf | None = self._literals.get(pattern)
            if leaf is None or not leaf.remove(queue, value):
                return False
            if leaf.is_empty():
                self._literals.pop(pattern)
                if pattern.startswith(b"_"):
                    self._literal_inboxes -= 1
            _forget(self._cache, pattern)
        else:
            if not remove_value(self._root, pattern, queue, value):
                return False
            self._forget_matching(pattern)
        self.count -= 1
        self.generation += 1
        return True

    def has_literal(self, subject: bytes) -> bool:
        """Return whether a client subscribed to exactly this subject, not counting wildcards."""
        return subject in self._literals

    def cached(self, subject: bytes) -> Match | None:
        """Return the cached result of a subject."""
        return self._cache.get(subject)

    def is_frequent(self, subject: bytes) -> bool:
        """Note that a subject is used; return whether it was used before, not long ago."""
        if len(self._seen) == 0:
            if self._cache_size <= 0:
                return False
            self._seen = vec[i32]([-1] * int(_SEEN))
        size: i64 = len(subject)
        value: i64 = size
        mixed: i64 = 0
        at: i64 = 0
        while at < size:
            if at + 4 <= size:
                mixed = (value ^ i64(read_i32_le(subject, at))) * _FACTOR
                at += 4
            else:
                mixed = (value ^ i64(subject[at])) * _FACTOR
                at += 1
            value = (mixed ^ (mixed >> 29)) & _HASH_MASK
        place = value & (_SEEN - 1)
        if i64(self._seen[place]) == value:
            return True
        self._seen[place] = i32(value)
        return False

    def find(self, subject: bytes) -> Match:
        """Return the same as ``match``, for a subject that is not worth a cache entry.

        Subjects that the same single pattern matches share a result, as do those that none does.
        The caller may keep a ``route`` in it that does not depend on the subject.
        """
        literals = self._literals.whole
        known: Leaf | None = (
            literals.get(subject) if literals is not None else self._literals.get(subject)
        )
        leaf = only_leaf(self._root, subject, known, self.walks)
        if leaf is None:
            return self._none
        if leaf is SEVERAL:
            return self._find(subject)
        if has_empty_token(subject):
            return self._none
        if leaf is TOO_LONG:
            leaves = self._settled_leaves(subject)
            if len(leaves) == 0:
                return self._none
            return leaves[0].share() if len(leaves) == 1 else merge(leaves)
        return leaf.share()

    def find_at_once(self, subject: bytes) -> Match:
        """Do what ``find`` does, however long it takes."""
        while True:
            try:
                return self.find(subject)
            except LongSearch as search:
                search.step(_NO_LIMIT)
                search.apply()

    def match_at_once(self, subject: bytes) -> Match:
        """Do what ``match_once`` does, however long it takes."""
        while True:
            try:
                return self.match_once(subject)
            except LongSearch as search:
                search.step(_NO_LIMIT)
                search.apply()

    def settle(self, walk: LongWalk, generation: i64) -> None:
        """Answer the question of a long search by what it found; it began at ``generation``."""
        self._settled = Settled(walk, self.generation, generation == self.generation)

    def match(self, subject: bytes) -> Match:
        """Return the subscribers of ``subject``; wildcard characters in it are literal.

        A subject with an empty token has none (wire.md, Core protocol: such a publish is
        accepted).
        """
        hit = self._cache.get(subject)
        if hit is not None:
            return hit
        result = self._find(subject)
        settled = self._settled
        if settled is None or settled.exact or settled.subject != subject:
            self._keep(self._cache, subject, result)
        return result

    def match_unshared(self, subject: bytes) -> Match:
        """Return a result that is not shared with other subjects."""
        _forget(self._cache, subject)
        return self.match(subject)

    def share(self, subject: bytes, result: Match) -> None:
        """Cache one result for many subjects that have the same subscribers."""
        if subject in self._cache:
            self._cache[subject] = result

    def match_once(self, subject: bytes) -> Match:
        """Return the subscribers of a subject that is rarely used twice, such as a reply inbox.

        The result is that of ``match``, but only the wildcard part is cached, by the prefix up to
        the last dot, so that the inboxes of one client share an entry. Use it immediately.
        """
        size: i64 = len(subject)
        cut = size
        while cut > 0 and subject[cut - 1] != DOT:
            cut -= 1
        if cut in (0, size):
            return self.find(subject)
        wild = self._last_wild
        if cut != len(self._last_prefix) or not subject.startswith(self._last_prefix):
            prefix = subject[:cut]
            found = self._prefixes.get(prefix)
            if found is None:
                if not self.is_frequent(prefix):
                    return self.find(subject)
                found = self._find_prefix(subject, cut)
                if found is None:
                    return self.find(subject)
            wild = found
            self._last_wild = wild
            self._last_prefix = prefix
        if self._literal_inboxes == 0 and subject.startswith(b"_"):
            return wild
        leaf: Leaf | None = self._literals.get(subject)
        if leaf is None:
            return wild
        if len(wild.plain) == 0 and len(wild.groups) == 0:
            return leaf.share()
        return self._find(subject)

    def width(self) -> i64:
        """Return how many nodes the longest search for a subject may visit."""
        return self._root.width

    def has_interest(self, subject: bytes) -> bool:
        """Return whether any subscription matches ``subject``."""
        literals = self._literals.whole
        known: Leaf | None = (
            literals.get(subject) if literals is not None else self._literals.get(subject)
        )
        leaf = only_leaf(self._root, subject, known, self.walks)
        if leaf is TOO_LONG:
            found = self.find_at_once(subject)
            return len(found.plain) > 0 or len(found.groups) > 0
        return leaf is not None and not has_empty_token(subject)

    def _find(self, subject: bytes) -> Match:
        """Compute a result."""
        leaves: list[Leaf] = []
        if has_empty_token(subject):
            return merge(leaves)
        leaf: Leaf | None = self._literals.get(subject)
        if leaf is not None:
            leaves.append(leaf)
        if collect(self._root, subject, leaves, len(subject), self.walks) == CUT_OFF:
            leaves = self._settled_leaves(subject)
        return merge(leaves)

    def _settled_leaves(self, subject: bytes) -> list[Leaf]:
        """Return the leaves that a long search found, or start it: raises ``LongSearch``."""
        settled = self._settled
        if settled is None or settled.generation != self.generation or settled.subject != subject:
            raise LongSearch(self, LongWalk(self._root, subject))
        leaf: Leaf | None = self._literals.get(subject)
        return settled.leaves if leaf is None else [leaf, *settled.leaves]

    def _find_prefix(self, subject: bytes, cut: i64) -> Match | None:
        """Compute and cache the wildcard matches of any last token after ``subject[:cut]``.

        None if that depends on the last token, or if a token is empty.
        """
        if has_empty_token(subject):
            return None
        leaves: list[Leaf] = []
        if collect(self._root, subject, leaves, cut, self.walks) != COMPLETE:
            return None
        result = leaves[0].share() if len(leaves) == 1 else merge(leaves)
        self._keep(self._prefixes, subject[:cut], result)
        return result

    def _keep(self, cache: dict[bytes, Match], key: bytes, result: Match) -> None:
        if self._cache_size <= 0:
            return
        if self._emptied:
            self._free_some()
        if len(cache) >= self._cache_size:
            self._make_room(cache)
        if self._looks_left < _LOOKS_MAX:
            self._looks_left += _LOOKS_PER_FILL
        cache[key] = result

    def keeps(self, subject: bytes, result: Match) -> bool:
        """Return whether ``match`` would return this result again."""
        return self._cache.get(subject) is result

    def _forget_matching(self, pattern: bytes) -> None:
        """Drop the results that a wildcard pattern affects, or all if that is less work."""
        self._last_prefix = b""
        looks: i64 = len(self._cache) + len(self._prefixes)
        if looks == 0:
            return
        head = literal_head(pattern)
        if len(head) == 0 or looks > self._looks_left:
            self._set_aside()
            return
        self._looks_left -= looks
        self.looks += looks
        for subject in [
            subject
            for subject in self._cache
            if subject.startswith(head) and matches(subject, pattern)
        ]:
            _forget(self._cache, subject)
        for prefix in [prefix for prefix in self._prefixes if prefix.startswith(head)]:
            _forget(self._prefixes, prefix)

    def forget_results(self) -> None:
        """Drop all results: their subjects may be those of a large stream that was removed.

        Few are enough to keep most of its memory: each one keeps the block that contains it.
        """
        self._last_prefix = b""
        self._set_aside()
        freed = 0
        while self._emptied and freed < _FREED_AT_ONCE:
            self._free_some()
            freed += _FREED_PER_FILL

    def _set_aside(self) -> None:
        """Clear the caches; their entries are freed later."""
        self._emptied += [self._cache, self._prefixes]
        self._cache = {}
        self._prefixes = {}
        self._looks_left = 0

    def _free_some(self) -> None:
        """Free some entries of the cleared caches."""
        cache = self._emptied[-1]
        for _ in range(min(len(cache), _FREED_PER_FILL)):
            cache.popitem()
        if not cache:
            self._emptied.pop()

    def _make_room(self, cache: dict[bytes, Match]) -> None:
        """Evict some entries of a full cache."""
        self._evictions += 1
        self._last_prefix = b""
        index = self._evictions
        found: list[bytes] = []
        for subject in cache:
            if index % _EVICT_ONE_IN == 0:
                found.append(subject)
            index += 1
        if not found:
            cache.clear()
        for subject in found:
            _forget(cache, subject)


def _forget(cache: dict[bytes, Match], key: bytes) -> None:
    cache.pop(key, None)
