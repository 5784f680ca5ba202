"""The trie of wildcard patterns, with subscribers at its leaves.

A node has literal children, a ``*`` child, the subscribers of ``>`` below it, and the subscribers
of the pattern that ends there. ``sublist.py`` uses it.
"""

from typing import Final

from mypy_extensions import i64

from jetspark.subjects.linear_hash_dict import PART_SIZE, LinearHashDict
from jetspark.subjects.match import token_end

# Shared by all results without subscribers: most subjects of streams have none.
_NO_SUBSCRIBERS: Final[list[object]] = []
_NO_GROUPS: Final[list[list[object]]] = []
_NO_NAMES: Final[list[bytes]] = []

# A node with at most this many children has exactly their first bytes after a removal.
_FIRSTS_EXACT: Final = 8
# The width of the widest child is found again after a removal if there are at most this many.
_WIDTHS_COMPARED: Final = 64

# Up to this many subscribers of one pattern are searched linearly; more are found by identity.
_SEARCHED_MAX: Final = 32


class Match:
    """The subscribers of one subject. Results are shared: callers must not change them.

    A result is correct until the next change; then ask again. ``route`` is for the caller, to keep
    what it derived from a result of ``Sublist.match``, for all subjects that share it.
    """

    def __init__(
        self, plain: list[object], groups: list[list[object]], group_names: list[bytes]
    ) -> None:
        self.plain: list[object] = plain
        self.groups: list[list[object]] = groups
        self.group_names: list[bytes] = group_names
        self.route: object = None

    def keep_route(self, route: object) -> None:
        """Keep what the caller derived from the result."""
        self.route = route


class Repeated:
    """A value that subscribed more than once, where there are very many."""

    def __init__(self, value: object) -> None:
        self.value: object = value
        self.times: i64 = 2


class Members:
    """Subscribers in order of subscription; the same value may occur more than once.

    A few are kept in a list that is searched. Many are also indexed by identity: removing one
    costs the same for twenty as for a million. The list is lent to results and rebuilt before the
    next result if it changed.
    """

    def __init__(self) -> None:
        self.size: i64 = 0
        self._values: list[object] = []
        self._is_lent: bool = False
        # Once there are many: the index by identity.
        self._found: dict[int, object] | None = None
        # Whether ``_values`` matches ``_found``.
        self._is_listed: bool = True

    def add(self, value: object) -> None:
        """Append a subscriber."""
        self.size += 1
        found = self._found
        if found is not None:
            _file(found, value)
            if self._is_listed and not self._is_lent:
                self._values.append(value)
            else:
                self._is_listed = False
            return
        if self._is_lent:
            self._values = self._values.copy()
            self._is_lent = False
        self._values.append(value)
        if self.size > _SEARCHED_MAX:
            found = {}
            for each in self._values:
                _file(found, each)
            self._found = found

    def remove(self, value: object) -> bool:
        """Remove a subscriber; False if it does not exist."""
        found = self._found
        if found is not None:
            there = found.get(id(value))
            if there is None:
                return False
            if isinstance(there, Repeated):
                there.times -= 1
                if there.times == 0:
                    del found[id(value)]
            else:
                del found[id(value)]
            self._is_listed = False
        else:
            if self._is_lent:
                self._values = self._values.copy()
                self._is_lent = False
            if not _drop_value(self._values, value):
                return False
        self.size -= 1
        return True

    def lend(self) -> list[object]:
        """Return all of them, in a list that never changes again."""
        found = self._found
        if not self._is_listed and found is not None:
            values: list[object] = []
            for value in found.values():
                if isinstance(value, Repeated):
                    values.extend([value.value] * int(value.times))
                else:
                    values.append(value)
            self._values = values
            self._is_listed = True
        self._is_lent = True
        return self._values


class Leaf:
    """The subscribers of one pattern."""

    def __init__(self) -> None:
        self.plain: Members = Members()
        self.groups: dict[bytes, Members] | None = None
        # The groups as results show them, and their names; None after a change.
        self._shown: list[list[object]] | None = None
        self._names: list[bytes] = _NO_NAMES
        # The result for all subjects that only this pattern matches; None after a change.
        self._shared: Match | None = None

    def add(self, queue: bytes, value: object) -> None:
        """Append a subscriber."""
        self._shared = None
        if not queue:
            self.plain.add(value)
            return
        groups = self.groups
        if groups is None:
            groups = {}
            self.groups = groups
        members = groups.get(queue)
        if members is None:
            members = Members()
            groups[queue] = members
        members.add(value)
        self._shown = None

    def remove(self, queue: bytes, value: object) -> bool:
        """Remove a subscriber; False if it does not exist."""
        self._shared = None
        if not queue:
            return self.plain.remove(value)
        groups = self.groups
        if groups is None:
            return False
        members = groups.get(queue)
        if members is None or not members.remove(value):
            return False
        if members.size == 0:
            del groups[queue]
            if not groups:
                self.groups = None
        self._shown = None
        return True

    def lend(self) -> Match:
        """Return a result with the subscribers of this pattern only."""
        if self.groups is None:
            return Match(self.plain.lend(), _NO_GROUPS, _NO_NAMES)
        return Match(self.plain.lend(), self.lend_groups(), self._names)

    def share(self) -> Match:
        """Return the same result until the subscribers change."""
        shared = self._shared
        if shared is None:
            shared = self.lend()
            self._shared = shared
        return shared

    def lend_groups(self) -> list[list[object]]:
        """Return the members of each group, in the order of ``names``."""
        shown = self._shown
        if shown is None:
            shown = []
            names: list[bytes] = []
            groups = self.groups
            if groups is not None:
                for name, members in groups.items():
                    names.append(name)
                    shown.append(members.lend())
            self._shown = shown
            self._names = names
        return shown

    def is_empty(self) -> bool:
        """Return whether there is no subscriber."""
        return self.plain.size == 0 and self.groups is None


SEVERAL: Final = Leaf()
"""Returned by ``only_leaf`` if more than one pattern matches."""
TOO_LONG: Final = Leaf()
"""Returned by ``only_leaf`` if the search visits more nodes than allowed."""

# Results of ``collect``.
COMPLETE: Final[i64] = 0
DEPENDS: Final[i64] = 1
CUT_OFF: Final[i64] = 2

# Walks through fewer nodes than this are not counted: they cost less than a message. Longer ones
# skip the nodes that cannot lead to a match.
_SHORT_WALK: Final[i64] = 64

# Sets of tokens and of lengths are numbers with a bit per member; the bit of a token is given by
# its hash, which differs between processes: clients cannot choose tokens that share one.
_BITS: Final[i64] = 61
_LENGTH_MAX: Final[i64] = _BITS - 1
_ALL: Final[i64] = (1 << 61) - 1
# Not the bit above: mypyc would make an object of the constant, at 200 instructions for each use.
_HIGHEST_BIT: Final[i64] = 1 << 61
_HASH_MASK: Final[i64] = 0x3FFFFFFFFFFFFFF
_SECOND_HASH: Final[i64] = 20
_THIRD_HASH: Final[i64] = 40
# A token has another bit at each place in a subject.
_PLACE_FACTOR: Final[i64] = 11


class Walks:
    """Counts the nodes that searches have visited, but for short ones.

    Patterns that agree with a subject in all tokens but the last lead nowhere, and there may be
    tens of thousands of them: a caller whose clients choose both counts that as work.
    """

    def __init__(self, most: i64) -> None:
        self.nodes: i64 = 0
        # A search through more nodes than this ends early.
        self.most: i64 = most

    def take_nodes(self) -> i64:
        """Return how many nodes were counted since the last call."""
        nodes = self.nodes
        self.nodes = 0
        return nodes

    def count(self, visited: i64) -> None:
        """Count a search that ends."""
        if visited > _SHORT_WALK:
            self.nodes += visited


class Traits:
    """The length and the tokens of a subject, or of the subjects that a pattern matches."""

    def __init__(self) -> None:
        self.lengths: i64 = 0
        self.last: i64 = _ALL
        self.literals: i64 = 0
        # The same with other bits: few tokens that differ agree in both.
        self.other_literals: i64 = 0

    def add(self, token: bytes, place: i64, *, is_last: bool) -> None:
        """Add a literal token."""
        value: i64 = hash(token) & _HASH_MASK
        moved = place * _PLACE_FACTOR
        self.literals |= _bit((value + moved) % _BITS)
        self.other_literals |= _bit(((value >> _SECOND_HASH) + moved) % _BITS)
        if is_last:
            self.last = _bit((value >> _THIRD_HASH) % _BITS)


def pattern_traits(tokens: list[bytes]) -> Traits:
    """Return what a subject must have for a pattern to match it."""
    traits = Traits()
    count: i64 = len(tokens)
    traits.lengths = _bit(min(count, _LENGTH_MAX))
    for place, token in enumerate(tokens, 1):
        if token == b">" and place == count:
            # As many tokens, or more.
            traits.lengths = _ALL & ~(traits.lengths - 1)
        elif token != b"*":
            traits.add(token, place, is_last=place == count)
    return traits


def subject_traits(subject: bytes, cut: i64) -> Traits:
    """Return what a subject has; its last token stands for any token if it starts at ``cut``."""
    tokens = subject.split(b".")
    traits = Traits()
    count: i64 = len(tokens)
    traits.lengths = _bit(min(count, _LENGTH_MAX))
    if cut < len(subject):
        traits.literals = traits.other_literals = _ALL
        return traits
    for place, token in enumerate(tokens, 1):
        traits.add(token, place, is_last=place == count)
    return traits


class Node:
    """One node of the trie of wildcard patterns.

    It knows what the patterns below it have in common, so that a search skips those that agree
    with a subject in their first tokens and fail at a later one. What was removed still counts:
    a search then skips less.

    It cannot skip what has nothing in common. ``width`` is the number of nodes that a search may
    visit from here on: with a ``*`` next to literals at each level it doubles per level.
    """

    def __init__(self) -> None:
        # Very many are in ``_wide``, which grows in small steps.
        self._children: dict[bytes, Node] = {}
        self._wide: LinearHashDict | None = None
        self.count: i64 = 0
        # The first bytes of their tokens: most tokens that are no child need not be looked up.
        # A removed child may leave its bit.
        self.firsts: i64 = 0
        self.star: Node | None = None
        self.tail: Leaf | None = None
        self.leaf: Leaf | None = None
        # What subjects have that match a pattern below: one of these lengths, one of these last
        # tokens, all of these tokens.
        self._lengths: i64 = 0
        self._lasts: i64 = 0
        self._literals: i64 = _ALL
        self._other_literals: i64 = _ALL
        self.width: i64 = 1
        # The largest of the literal children; among very many, that of one that was removed stays.
        self._widest: i64 = 0
        self._is_outdated: bool = False

    def widen(self, child: "Node") -> bool:
        """Follow a child that may have become wider; False if this changes nothing."""
        if child is not self.star and child.width > self._widest:
            self._widest = child.width
        return self._add_up()

    def narrow(self, width: i64) -> bool:
        """Follow a child of this width that has less now; False if this changes nothing."""
        if width == self._widest:
            self._is_outdated = True
        if self._is_outdated and self.count <= _WIDTHS_COMPARED:
            self._is_outdated = False
            most = self._widest
            self._widest = 0
            for child in self._children.values():
                self._widest = max(self._widest, child.width)
                if self._widest == most:
                    break  # none is wider
            if self._wide is not None:
                for wide in self._wide.values():
                    self._widest = max(self._widest, wide.width)
        return self._add_up()

    def _add_up(self) -> bool:
        before = self.width
        self.width = 1 + self._widest
        if self.star is not None:
            self.width += self.star.width
        return self.width != before

    def admit(self, pattern: Traits) -> None:
        """Note what a new pattern below this node requires."""
        self._lengths |= pattern.lengths
        self._lasts |= pattern.last
        self._literals &= pattern.literals
        self._other_literals &= pattern.other_literals

    def may_lead_to(self, subject: Traits) -> bool:
        """Return False if no pattern below this node matches a subject; True proves nothing."""
        return (
            self._lengths & subject.lengths != 0
            and self._lasts & subject.last != 0
            and self._literals & subject.literals == self._literals
            and self._other_literals & subject.other_literals == self._other_literals
        )

    def child(self, token: bytes) -> "Node | None":
        """Return the child for a literal token."""
        wide = self._wide
        if wide is not None:
            found: Node | None = wide.get(token)
            return found
        return self._children.get(token)

    def add_child(self, token: bytes, child: "Node") -> None:
        """Add a child for a literal token that has none."""
        self.count += 1
        self.firsts |= first_bit(token[0])
        wide = self._wide
        if wide is None and self.count > PART_SIZE:
            wide = LinearHashDict()
            for name, each in self._children.items():
                wide.set(name, each)
            self._wide = wide
            self._children = {}
        if wide is not None:
            wide.set(token, child)
        else:
            self._children[token] = child

    def remove_child(self, token: bytes) -> None:
        """Remove the child of a literal token."""
        self.count -= 1
        wide = self._wide
        if wide is not None:
            wide.pop(token)
            if self.count == 0:
                self._wide = None
                self.firsts = 0
            return
        del self._children[token]
        if self.count <= _FIRSTS_EXACT:
            self.firsts = 0
            for other in self._children:
                self.firsts |= first_bit(other[0])

    def is_empty(self) -> bool:
        """Return whether the node can be removed from its parent."""
        return self.star is None and self.tail is None and self.leaf is None and self.count == 0


def leaf_of(root: Node, pattern: bytes) -> Leaf:
    """Return the subscribers of a pattern; its node is created if necessary."""
    node = root
    tokens = pattern.split(b".")
    traits = pattern_traits(tokens)
    left: i64 = len(tokens)
    path: list[Node] = [root]
    is_new = False
    leaf: Leaf | None = None
    for token in tokens:
        left -= 1
        if left == 0 and token == b">":
            leaf = node.tail
            if leaf is None:
                leaf = Leaf()
                node.tail = leaf
            break
        is_star = token == b"*"
        child = node.star if is_star else node.child(token)
        if child is None:
            is_new = True
            child = Node()
            if is_star:
                node.star = child
            else:
                node.add_child(token, child)
        child.admit(traits)
        node = child
        path.append(node)
    if leaf is None:
        leaf = node.leaf
        if leaf is None:
            leaf = Leaf()
            node.leaf = leaf
    if is_new:
        depth: i64 = len(path) - 1
        while depth > 0 and path[depth - 1].widen(path[depth]):
            depth -= 1
    return leaf


def remove_value(root: Node, pattern: bytes, queue: bytes, value: object) -> bool:
    """Remove a subscriber from the trie, and nodes that become empty."""
    path: list[Node] = [root]
    tokens = pattern.split(b".")
    for token in tokens:
        node = path[-1]
        if token == b">":
            if len(path) != len(tokens):
                return False
            break
        child = node.star if token == b"*" else node.child(token)
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
    depth: i64 = len(path) - 1
    width: i64 = 0
    while depth > 0 and path[depth].is_empty():
        width = path[depth].width
        depth -= 1
        if tokens[depth] == b"*":
            path[depth].star = None
        else:
            path[depth].remove_child(tokens[depth])
    while width > 0:
        before = path[depth].width
        if not path[depth].narrow(width) or depth == 0:
            break
        width = before
        depth -= 1
    return True


def collect(root: Node, subject: bytes, leaves: list[Leaf], cut: i64, walks: Walks) -> i64:
    """Append the leaves of the patterns that match ``subject``; return whether those are all.

    If ``cut`` is where the last token starts, that token stands for any token: only wildcards
    match it, and the result is DEPENDS if a literal could match it as well. It is CUT_OFF if the
    search takes too long: a ``LongWalk`` takes several turns.
    """
    end: i64 = len(subject)
    node = root
    start: i64 = 0
    visited: i64 = 0
    # Branches still to visit. Most subjects have none. Recursion would be as deep as a client's
    # longest pattern, which may have two thousand tokens.
    nodes: list[Node] | None = None
    starts: list[i64] | None = None
    traits: Traits | None = None
    is_skipped = False
    while True:
        visited += 1
        following: Node | None = None
        if visited > _SHORT_WALK:
            if visited > walks.most:
                walks.count(visited)
                return CUT_OFF
            if traits is None:
                traits = subject_traits(subject, cut)
            is_skipped = not node.may_lead_to(traits)
        if is_skipped:
            pass
        elif start > end:
            if node.leaf is not None:
                leaves.append(node.leaf)
        else:
            if node.tail is not None:
                leaves.append(node.tail)
            following = node.star
            stop = end
            if node.count > 0:
                if start == cut:
                    walks.count(visited)
                    return DEPENDS
                stop = token_end(subject, start, end)
                child = node.child(subject[start:stop])
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
                walks.count(visited)
                return COMPLETE
            following = nodes.pop()
            start = starts.pop()
        node = following


def only_leaf(root: Node, subject: bytes, known: Leaf | None, walks: Walks) -> Leaf | None:
    """Return the leaf of the only pattern that matches ``subject``; ``SEVERAL`` if more do.

    ``TOO_LONG`` if the search takes too long. ``known`` is one that matches, outside the trie.
    Nothing is allocated for a subject that leads nowhere. Empty tokens are not detected.
    """
    end: i64 = len(subject)
    # Most subjects without a receiver end here.
    if (
        root.star is None
        and root.tail is None
        and (end == 0 or root.firsts & first_bit(subject[0]) == 0)
    ):
        return known
    node = root
    start: i64 = 0
    visited: i64 = 0
    nodes: list[Node] | None = None
    starts: list[i64] | None = None
    traits: Traits | None = None
    is_skipped = False
    while True:
        visited += 1
        following: Node | None = None
        if visited > _SHORT_WALK:
            if visited > walks.most:
                walks.count(visited)
                return TOO_LONG
            if traits is None:
                traits = subject_traits(subject, end)
            is_skipped = not node.may_lead_to(traits)
        if is_skipped:
            pass
        elif start > end:
            if node.leaf is not None:
                if known is not None:
                    walks.count(visited)
                    return SEVERAL
                known = node.leaf
        else:
            if node.tail is not None:
                if known is not None:
                    walks.count(visited)
                    return SEVERAL
                known = node.tail
            following = node.star
            has_child = start < end and node.firsts & first_bit(subject[start]) != 0
            if has_child or following is not None:
                stop = token_end(subject, start, end)
                if has_child:
                    child = node.child(subject[start:stop])
                    if child is not None:
                        if following is not None:
                            if nodes is None or starts is None:
                                nodes = []
                                starts = []
                            nodes.append(following)
                            starts.append(stop + 1)
                        following = child
                start = stop + 1
        if following is None:
            if not nodes or not starts:
                walks.count(visited)
                return known
            following = nodes.pop()
            start = starts.pop()
        node = following


class LongWalk:
    """A search for the patterns that match a subject, some nodes at a time.

    Patterns may come and go meanwhile: of those that are added it finds some, and those that are
    removed have no subscribers when it has finished.
    """

    def __init__(self, root: Node, subject: bytes) -> None:
        self.subject: bytes = subject
        self.leaves: list[Leaf] = []
        self._traits: Traits = subject_traits(subject, len(subject))
        # Branches still to visit.
        self._nodes: list[Node] = []
        self._starts: list[i64] = []
        self._enter(root, 0)

    def step(self, most: i64) -> i64:
        """Visit up to so many nodes; return how many were visited."""
        visited: i64 = 0
        while visited < most and len(self._nodes) > 0:
            visited += 1
            node = self._nodes.pop()
            start = self._starts.pop()
            if node.may_lead_to(self._traits):
                self._enter(node, start)
        return visited

    def _enter(self, node: Node, start: i64) -> None:
        """Note what matches at a node, and where its branches lead to."""
        subject = self.subject
        end: i64 = len(subject)
        if start > end:
            if node.leaf is not None:
                self.leaves.append(node.leaf)
            return
        if node.tail is not None:
            self.leaves.append(node.tail)
        stop = token_end(subject, start, end)
        if node.star is not None:
            self._nodes.append(node.star)
            self._starts.append(stop + 1)
        if node.count > 0:
            child = node.child(subject[start:stop])
            if child is not None:
                self._nodes.append(child)
                self._starts.append(stop + 1)

    def is_over(self) -> bool:
        """Return whether no node is left to visit."""
        return len(self._nodes) == 0


def first_bit(byte: i64) -> i64:
    """Return the bit of a token's first byte in ``Node.firsts``."""
    return _HIGHEST_BIT >> (61 - (byte & 31))  # in place, as searches ask for each node


def _bit(number: i64) -> i64:
    """Return the number with this bit, of 0 to 61.

    Not ``1 << number``: mypyc shifts a small constant as a C ``int``, of 32 bits.
    """
    return _HIGHEST_BIT >> (61 - number)


def merge(leaves: list[Leaf]) -> Match:
    """Return the result with the subscribers of all ``leaves``."""
    if len(leaves) == 1:
        return leaves[0].lend()
    if not leaves:
        return Match(_NO_SUBSCRIBERS, _NO_GROUPS, _NO_NAMES)
    plain: list[object] = []
    groups: dict[bytes, list[object]] | None = None
    for leaf in leaves:
        if leaf.plain.size > 0:
            plain.extend(leaf.plain.lend())
        if leaf.groups is not None:
            if groups is None:
                groups = {}
            for name, members in leaf.groups.items():
                others = groups.get(name)
                if others is None:
                    groups[name] = members.lend().copy()
                else:
                    others.extend(members.lend())
    if groups is None:
        return Match(plain, _NO_GROUPS, _NO_NAMES)
    return Match(plain, list(groups.values()), list(groups))


def _file(found: dict[int, object], value: object) -> None:
    """Index a value by its identity."""
    there = found.get(id(value))
    if there is None:
        found[id(value)] = value
    elif isinstance(there, Repeated):
        there.times += 1
    else:
        found[id(value)] = Repeated(value)


def _drop_value(values: list[object], value: object) -> bool:
    for index in range(len(values)):
        if values[index] is value:
            del values[index]
            return True
    return False
