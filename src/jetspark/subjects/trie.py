"""The trie of patterns with wildcards, and the subscribers at its leaves.

A node has literal children, a ``*`` child, the subscribers of ``>`` below it, and the subscribers
of the pattern that ends there. ``sublist.py`` puts it to use.
"""

from typing import Final

from mypy_extensions import i64

from jetspark.subjects.match import token_end, wildcard_at
from jetspark.subjects.tokens import GREATER, STAR

# What all results share that have no subscribers: most subjects that only a stream wants.
_NOBODY: Final[list[object]] = []
_NO_GROUPS: Final[list[list[object]]] = []
_NO_NAMES: Final[list[bytes]] = []


class Match:
    """The subscribers of one subject. Results are shared: callers read them, never change them.

    A result is true when it is returned and stays true until the next change. One that the cache
    keeps stays true until ``stale`` is set; then ask again. ``route`` is free for the caller to
    keep what it made of a result of ``Sublist.match``, for all its subjects if it shares one.
    """

    def __init__(
        self, plain: list[object], groups: list[list[object]], group_names: list[bytes]
    ) -> None:
        self.plain: list[object] = plain
        self.groups: list[list[object]] = groups
        self.group_names: list[bytes] = group_names
        self.stale: bool = True
        self.route: object = None


class Leaf:
    """The subscribers of one pattern.

    Its lists are lent to results that come from this pattern alone, and copied before the first
    change after that.
    """

    def __init__(self) -> None:
        self.plain: list[object] = []
        self.groups: list[list[object]] = []
        self.group_names: list[bytes] = []
        self.is_lent: bool = False

    def add(self, queue: bytes, value: object) -> None:
        """Append a subscriber."""
        self._take_back()
        if not queue:
            self.plain.append(value)
            return
        slot = _find_name(self.group_names, queue)
        if slot < 0:
            self.group_names.append(queue)
            self.groups.append([value])
        else:
            self.groups[slot].append(value)

    def remove(self, queue: bytes, value: object) -> bool:
        """Take a subscriber away; False if it was not there."""
        self._take_back()
        if not queue:
            return _drop_value(self.plain, value)
        slot = _find_name(self.group_names, queue)
        if slot < 0 or not _drop_value(self.groups[slot], value):
            return False
        if not self.groups[slot]:
            del self.groups[slot]
            del self.group_names[slot]
        return True

    def lend(self) -> Match:
        """Return a result that has the subscribers of this pattern and no others."""
        self.is_lent = True
        return Match(self.plain, self.groups, self.group_names)

    def add_to(self, result: Match) -> None:
        """Append the subscribers to a result that has lists of its own."""
        result.plain.extend(self.plain)
        for index in range(len(self.group_names)):
            name = self.group_names[index]
            slot = _find_name(result.group_names, name)
            if slot < 0:
                result.group_names.append(name)
                result.groups.append(self.groups[index].copy())
            else:
                result.groups[slot].extend(self.groups[index])

    def is_empty(self) -> bool:
        """Tell whether nobody is subscribed."""
        return len(self.plain) == 0 and len(self.groups) == 0

    def _take_back(self) -> None:
        if self.is_lent:
            self.plain = self.plain.copy()
            self.groups = [members.copy() for members in self.groups]
            self.group_names = self.group_names.copy()
            self.is_lent = False


class Node:
    """One place in the trie of the patterns with wildcards."""

    def __init__(self) -> None:
        self.children: dict[bytes, Node] = {}
        self.star: Node | None = None
        self.tail: Leaf | None = None
        self.leaf: Leaf | None = None

    def is_empty(self) -> bool:
        """Tell whether the place can be taken out of its parent."""
        return (
            self.star is None
            and self.tail is None
            and self.leaf is None
            and len(self.children) == 0
        )


def leaf_of(root: Node, pattern: bytes) -> Leaf:
    """Return the subscribers of a pattern; its place in the trie is made if it is not there."""
    node = root
    end: i64 = len(pattern)
    start: i64 = 0
    while start < end:
        stop = token_end(pattern, start, end)
        wild = wildcard_at(pattern, start, stop)
        if wild == GREATER:
            tail = node.tail
            if tail is None:
                tail = Leaf()
                node.tail = tail
            return tail
        token = pattern[start:stop]
        child = node.star if wild == STAR else node.children.get(token)
        if child is None:
            child = Node()
            if wild == STAR:
                node.star = child
            else:
                node.children[token] = child
        node = child
        start = stop + 1
    leaf = node.leaf
    if leaf is None:
        leaf = Leaf()
        node.leaf = leaf
    return leaf


def remove_value(root: Node, pattern: bytes, queue: bytes, value: object) -> bool:
    """Take a subscriber out of the trie, and the places that are empty then."""
    path: list[Node] = [root]
    tokens = pattern.split(b".")
    for token in tokens:
        node = path[-1]
        if token == b">":
            if len(path) != len(tokens):
                return False
            break
        child = node.star if token == b"*" else node.children.get(token)
        if child is None:
            return False
        path.append(child)
    node = path[-1]
    is_tail = len(path) == len(tokens)
    leaf = node.tail if is_tail else node.leaf
    if leaf is None or not leaf.remove(queue, value):
        return False
    if leaf.is_empty():
        if is_tail:
            node.tail = None
        else:
            node.leaf = None
    for depth in range(len(path) - 1, 0, -1):
        if not path[depth].is_empty():
            break
        parent = path[depth - 1]
        if tokens[depth - 1] == b"*":
            parent.star = None
        else:
            del parent.children[tokens[depth - 1]]
    return True


def collect(root: Node, subject: bytes, leaves: list[Leaf], cut: i64) -> bool:
    """Append the leaves of the patterns that match ``subject``.

    When ``cut`` is where the last token begins, that token stands for any other: only wildcards
    match it, and the answer is False if a literal could match it as well.
    """
    end: i64 = len(subject)
    node = root
    start: i64 = 0
    # Branches still to be walked. Most subjects need none. A recursion would be as deep as a
    # client's longest pattern, which may have two thousand tokens.
    nodes: list[Node] | None = None
    starts: list[i64] | None = None
    while True:
        following: Node | None = None
        if start > end:
            if node.leaf is not None:
                leaves.append(node.leaf)
        else:
            if node.tail is not None:
                leaves.append(node.tail)
            following = node.star
            stop = end
            if len(node.children) > 0:
                if start == cut:
                    return False
                stop = token_end(subject, start, end)
                child = node.children.get(subject[start:stop])
                if child is not None:
                    if following is not None:
                        if nodes is None or starts is None:
                            nodes = []
                            starts = []
                        nodes.append(following)
                        starts.append(stop + 1)
                    following = child
            elif following is not None:
                stop = token_end(subject, start, end)
            start = stop + 1
        if following is None:
            if not nodes or not starts:
                return True
            following = nodes.pop()
            start = starts.pop()
        node = following


def merge(leaves: list[Leaf]) -> Match:
    """Return the result that has the subscribers of all ``leaves``."""
    if len(leaves) == 1:
        return leaves[0].lend()
    if not leaves:
        return Match(_NOBODY, _NO_GROUPS, _NO_NAMES)
    result = Match([], [], [])
    for leaf in leaves:
        leaf.add_to(result)
    return result


def _find_name(names: list[bytes], name: bytes) -> i64:
    for index in range(len(names)):
        if names[index] == name:
            return index
    return -1


def _drop_value(values: list[object], value: object) -> bool:
    for index in range(len(values)):
        if values[index] is value:
            del values[index]
            return True
    return False
