"""Sets of patterns: does one of them match a subject, overlap a pattern, or cover it.

A trie by token, so that a query costs about as much for three thousand patterns as for three. Only
a wildcard in the query visits all children of a node.
"""

from typing import Final

from mypy_extensions import i64

from jetspark.subjects.match import token_end, wildcard_at
from jetspark.subjects.tokens import GREATER, STAR, has_empty_token


class Place:
    """A node of the trie. Owners distinguish equal patterns.

    Rare fields are created only where needed: there may be very many nodes.
    """

    def __init__(self) -> None:
        self.children: dict[bytes, Place] = _NO_CHILDREN
        self.star: Place | None = None
        # The owners of patterns that continue with ``>``, and of those that end here.
        self.tails: list[object] = _NO_OWNERS
        self.ends: list[object] = _NO_OWNERS
        # The most nodes that a search for a subject visits from here on, and through one of the
        # children; more than that after patterns were removed.
        self.longest: i64 = 1
        self._longest_named: i64 = 0

    def note_longer(self, child: "Place") -> None:
        """Note that more nodes may be visited from a child on."""
        star = self.star
        if star is not child:
            self._longest_named = max(self._longest_named, child.longest)
        self.longest = 1 + self._longest_named
        if star is not None:
            self.longest += star.longest

    def is_empty(self) -> bool:
        """Return whether no pattern passes through or ends here."""
        return (
            self.star is None
            and len(self.tails) == 0
            and len(self.ends) == 0
            and len(self.children) == 0
        )

    def add_child(self, token: bytes, child: "Place") -> None:
        """Add a child for a literal token."""
        if len(self.children) == 0:
            self.children = {}
        self.children[token] = child


_NO_CHILDREN: Final[dict[bytes, Place]] = {}
_NO_OWNERS: Final[list[object]] = []


class PatternSet:
    """Patterns, each with an owner. A pattern with an empty token matches nothing."""

    def __init__(self) -> None:
        self.root: Place = Place()
        # The nodes that queries have visited: patterns that have much in common lead to very many.
        self._visited: i64 = 0

    def add(self, pattern: bytes, owner: object) -> None:
        """Add a pattern."""
        if has_empty_token(pattern):
            return
        place = self.root
        path: list[Place] = []
        end: i64 = len(pattern)
        start: i64 = 0
        while start < end:
            stop = token_end(pattern, start, end)
            wild = wildcard_at(pattern, start, stop)
            if wild == GREATER:
                break
            path.append(place)
            following = place.star if wild == STAR else place.children.get(pattern[start:stop])
            if following is None:
                following = Place()
                if wild == STAR:
                    place.star = following
                else:
                    place.add_child(pattern[start:stop], following)
            place = following
            start = stop + 1
        if start < end:
            if len(place.tails) == 0:
                place.tails = []
            place.tails.append(owner)
        else:
            if len(place.ends) == 0:
                place.ends = []
            place.ends.append(owner)
        while path:
            path[-1].note_longer(place)
            place = path.pop()

    def take_visited(self) -> int:
        """Return how much work the queries since the last call were, as a length in bytes.

        For ``Pace``: two nodes cost as much as one byte.
        """
        visited = self._visited
        self._visited = 0
        return int(visited >> 1)

    def longest_search(self) -> i64:
        """Return how many nodes ``matches`` visits at most.

        Patterns that differ from a subject only in their last token lead nowhere, and there may be
        very many of them.
        """
        return self.root.longest

    def remove(self, pattern: bytes, owner: object) -> None:
        """Remove a pattern, if its owner has it."""
        if has_empty_token(pattern):
            return
        path: list[Place] = [self.root]
        tokens: list[bytes] = []
        for token in pattern.split(b"."):
            if token == b">":
                path[-1].tails = _without(path[-1].tails, owner)
                break
            place = path[-1]
            following = place.star if token == b"*" else place.children.get(token)
            if following is None:
                return
            path.append(following)
            tokens.append(token)
        else:
            path[-1].ends = _without(path[-1].ends, owner)
        for depth in range(len(path) - 1, 0, -1):
            if not path[depth].is_empty():
                return
            parent = path[depth - 1]
            if tokens[depth - 1] == b"*":
                parent.star = None
            else:
                del parent.children[tokens[depth - 1]]

    def matches(self, subject: bytes) -> bool:
        """Return whether a pattern matches a literal subject; wildcards in it are literal."""
        if has_empty_token(subject):
            return False
        return self._walk(subject, None, True, False, None)

    def overlaps(self, pattern: bytes, but: object) -> bool:
        """Return whether ``pattern`` overlaps a pattern of an owner other than ``but``."""
        if has_empty_token(pattern):
            return False
        return self._walk(pattern, but, False, True, None)

    def covers(self, pattern: bytes, but: object) -> bool:
        """Return whether a pattern of an owner other than ``but`` covers ``pattern``."""
        if has_empty_token(pattern):
            return False
        return self._walk(pattern, but, False, False, None)

    def overlapping(self, pattern: bytes) -> list[object]:
        """Return the owners of all patterns that overlap ``pattern``, some more than once."""
        found: list[object] = []
        if not has_empty_token(pattern):
            self._walk(pattern, None, False, True, found)
        return found

    def _walk(
        self,
        pattern: bytes,
        but: object,
        literal: bool,
        overlapping: bool,
        found: list[object] | None,
    ) -> bool:
        """Visit every node that the pattern leads to, up to the first match.

        With ``found`` all of them are visited, and the owners of matches are appended to it.
        """
        end: i64 = len(pattern)
        place = self.root
        start: i64 = 0
        # Branches still to visit. Most queries have none.
        places: list[Place] | None = None
        starts: list[i64] | None = None
        while True:
            self._visited += 1
            following: Place | None = None
            if start > end:
                if found is not None:
                    found.extend(place.ends)
                elif _other(place.ends, but):
                    return True
            else:
                if found is not None:
                    found.extend(place.tails)
                elif _other(place.tails, but):
                    return True
                stop = token_end(pattern, start, end)
                wild: i64 = 0 if literal else wildcard_at(pattern, start, stop)
                if wild == GREATER:
                    if overlapping and self._anything_below(place, but, found):
                        return True
                else:
                    following = place.star
                    if wild == STAR:
                        if overlapping:
                            for child in place.children.values():
                                if following is not None:
                                    if places is None or starts is None:
                                        places = []
                                        starts = []
                                    places.append(following)
                                    starts.append(stop + 1)
                                following = child
                    elif len(place.children) > 0:
                        named = place.children.get(pattern[start:stop])
                        if named is not None:
                            if following is not None:
                                if places is None or starts is None:
                                    places = []
                                    starts = []
                                places.append(following)
                                starts.append(stop + 1)
                            following = named
                    start = stop + 1
            if following is None:
                if not places or not starts:
                    return False
                following = places.pop()
                start = starts.pop()
            place = following

    def _anything_below(self, place: Place, but: object, found: list[object] | None) -> bool:
        """Return whether a pattern continues from here."""
        places = list(place.children.values())
        if place.star is not None:
            places.append(place.star)
        while places:
            self._visited += 1
            place = places.pop()
            if found is not None:
                found.extend(place.ends)
                found.extend(place.tails)
            elif _other(place.ends, but) or _other(place.tails, but):
                return True
            if place.star is not None:
                places.append(place.star)
            places.extend(place.children.values())
        return False


class OverlapSearch:
    """Finds the owners of all patterns that overlap one, in steps.

    A pattern that is added or removed meanwhile may or may not be found.
    """

    def __init__(self, patterns: PatternSet, pattern: bytes) -> None:
        self._pattern: bytes = pattern
        # Nodes still to visit, and where the token that leads on from each starts; if that is
        # negative, everything below the node overlaps.
        self._places: list[Place] = []
        self._starts: list[i64] = []
        self.owners: set[object] = set()
        if not has_empty_token(pattern):
            self._push(patterns.root, 0)

    def step(self, count: i64) -> bool:
        """Visit ``count`` nodes; True when none is left."""
        pattern = self._pattern
        end: i64 = len(pattern)
        while len(self._places) > 0:
            if count <= 0:
                return False
            place = self._places.pop()
            start = self._starts.pop()
            count -= 1
            if start < 0:
                self.owners.update(place.ends)
                self.owners.update(place.tails)
                count -= self._push_all(place, -1)
            elif start > end:
                self.owners.update(place.ends)
            else:
                self.owners.update(place.tails)
                stop = token_end(pattern, start, end)
                wild = wildcard_at(pattern, start, stop)
                if wild == GREATER:
                    count -= self._push_all(place, -1)
                elif wild == STAR:
                    count -= self._push_all(place, stop + 1)
                else:
                    if place.star is not None:
                        self._push(place.star, stop + 1)
                    named = place.children.get(pattern[start:stop])
                    if named is not None:
                        self._push(named, stop + 1)
        return True

    def _push(self, place: Place, start: i64) -> None:
        self._places.append(place)
        self._starts.append(start)

    def _push_all(self, place: Place, start: i64) -> i64:
        """Push all children of a node; return the cost."""
        if place.star is not None:
            self._push(place.star, start)
        for child in place.children.values():
            self._push(child, start)
        return i64(len(place.children)) >> 2


def _other(owners: list[object], but: object) -> bool:
    return len(owners) > 1 or (len(owners) == 1 and owners[0] is not but)


def _without(owners: list[object], owner: object) -> list[object]:
    """Return all owners but one."""
    for index in range(len(owners)):
        if owners[index] is owner:
            return owners[:index] + owners[index + 1 :]
    return owners
