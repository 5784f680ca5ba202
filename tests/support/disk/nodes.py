"""What the simulated disk is made of: files and folders with a durable and a visible state.

``durable`` is what a power cut leaves for certain. ``pending`` is what was done since the last
sync, oldest first: after a power failure any part of it may exist. Contents are never changed, but
replaced, so that the many images of one point in time share them.
"""

from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple

SECTOR: Final = 512  # what a disk writes as a whole

# Steps after which the disk may hold something else than before.
CHANGING: Final = frozenset(
    {"create", "write", "sync", "truncate", "rename", "link", "unlink", "sync folder"}
)


class Operation(NamedTuple):
    """One step of the disk; ``size`` is that of a read or write."""

    kind: str
    path: str
    size: int = 0


class BadPlace:
    """Bytes of some files that cannot be read this many times."""

    def __init__(self, name: str, first: int, end: int, times: int) -> None:
        self.name = name
        self.first = first
        self.end = end
        self.times = times

    def touches(self, path: str, first: int, end: int) -> bool:
        """Say whether some bytes of a file are among these."""
        return path.endswith(self.name) and first < self.end and self.first < end


class Write:
    """Bytes that were written at an offset."""

    def __init__(self, offset: int, data: bytes) -> None:
        self.offset = offset
        self.data = data
        self.end: int = offset + len(data)

    def applied(self, content: bytes) -> bytes:
        """The content of a file with these bytes in it; a gap before them is zeros."""
        if self.data and len(content) < self.offset:
            content += bytes(self.offset - len(content))
        return content[: self.offset] + self.data + content[self.end :]

    def sectors(self) -> "list[Write]":
        """The same bytes, cut where sectors of the file begin."""
        edges = [self.offset, *range((self.offset // SECTOR + 1) * SECTOR, self.end, SECTOR)]
        ends = [*edges[1:], self.end]
        return [
            Write(begin, self.data[begin - self.offset : end - self.offset])
            for begin, end in zip(edges, ends, strict=True)
        ]

    def torn(self, content: bytes, random: Random) -> bytes:
        """The content with some of the bytes, as a power failure during the write may leave it."""
        size = len(self.data)
        how = random.randrange(8)
        if how == 0:  # nothing arrived
            return content
        if how == 1:  # everything arrived, the answer did not
            return self.applied(content)
        if how == 2:  # the first bytes arrived
            arrived = self.data[: random.randint(0, size)]
        elif how == 3:  # the first bytes arrived, garbage after them
            kept = random.randint(0, size)
            arrived = self.data[:kept] + random.randbytes(random.randint(0, size - kept))
        else:  # some sectors arrived, in any order; where not, there is what existed before
            return self._keep_equal(self._scattered(content, random, how), content)
        return self._keep_equal(Write(self.offset, arrived).applied(content), content)

    def _keep_equal(self, content: bytes, before: bytes) -> bytes:
        """Undo a tear where the same was written that existed before.

        A sector that is written with what it holds is never anything else; file systems do that
        all the time, as they write whole pages.
        """
        for sector in self.sectors():
            if before[sector.offset : sector.end] == sector.data:
                content = sector.applied(content)
        return content

    def _scattered(self, content: bytes, random: Random, how: int) -> bytes:
        if how in {4, 5} and len(content) < self.end:  # ... or zeros: the length arrived first
            content += bytes(self.end - len(content))
        for sector in self.sectors():
            if random.random() < 0.6:
                content = sector.applied(content)
            elif how == 5 and random.random() < 0.5:  # ... or garbage
                garbage = Write(sector.offset, random.randbytes(len(sector.data)))
                content = garbage.applied(content)
        return content


class Cut:
    """A file was cut (or stretched with zeros) to a length."""

    def __init__(self, length: int) -> None:
        self.length = length

    def applied(self, content: bytes) -> bytes:
        """The content of a file, cut."""
        return content[: self.length] + bytes(max(0, self.length - len(content)))


class File:
    """A file: what a reader sees, and what is on the disk."""

    def __init__(self, content: bytes) -> None:
        self.data: bytes = content
        self.durable: bytes = content
        self.pending: list[Write | Cut] = []
        # Writes whose sync failed: no later sync is for them, and they may be there or not.
        self.adrift: list[Write] = []
        self.locked_by: int | None = None

    def write(self, offset: int, data: bytes) -> None:
        """Write, without a sync."""
        self._change(Write(offset, data))

    def truncate(self, length: int) -> None:
        """Cut, without a sync."""
        self._change(Cut(length))

    def _change(self, change: Write | Cut) -> None:
        self.data = change.applied(self.data)
        self.pending.append(change)

    def sync(self) -> None:
        """Make durable what is pending."""
        for change in self.pending:
            self.durable = change.applied(self.durable)
            if isinstance(change, Cut):
                self.adrift = [lost for lost in self.adrift if lost.end <= change.length]
            else:
                self.adrift = [lost for lost in self.adrift if not overlap(lost, change)]
        self.pending = []

    def lose_pending(self) -> None:
        """A sync failed: the system forgets that these bytes were to be written."""
        self.adrift += [change for change in self.pending if isinstance(change, Write)]
        self.pending = []

    def crashed(self, random: Random | None) -> "File":
        """What may be left of the file; without ``random``, what is certainly there."""
        content = self.durable
        if random is not None:
            for change in (*self.adrift, *self.pending):
                if isinstance(change, Write):
                    content = change.torn(content, random)
                elif random.random() < 0.5:
                    content = change.applied(content)
        return File(content)

    def forked(self) -> "File":
        """The same file in another world, with no one holding it."""
        other = File(self.durable)
        other.data = self.data
        other.pending = list(self.pending)
        other.adrift = list(self.adrift)
        return other


class Change:
    """A change of a folder: a name goes, a name comes, or both at once (a rename)."""

    def __init__(self, gone: str | None, come: str | None, node: "Node | None") -> None:
        self.gone = gone
        self.come = come
        self.node = node

    def apply(self, names: "dict[str, Node]") -> None:
        """Change the names of a folder."""
        if self.gone is not None:
            names.pop(self.gone, None)
        if self.come is not None and self.node is not None:
            names[self.come] = self.node


class Folder:
    """A folder: the names a program sees, and those that are on the disk."""

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.pending: list[Change] = []

    def link(self, name: str, node: "Node") -> None:
        """Give a node a name, without a sync."""
        self._change(Change(None, name, node))

    def unlink(self, name: str) -> None:
        """Take a name away, without a sync."""
        self._change(Change(name, None, None))

    def rename(self, old: str, new: str) -> None:
        """Give a node another name, without a sync."""
        self._change(Change(old, new, self.names[old]))

    def _change(self, change: Change) -> None:
        change.apply(self.names)
        self.pending.append(change)

    def sync(self) -> None:
        """Make durable what is pending."""
        self.durable = dict(self.names)
        self.pending = []


Node = File | Folder


def flipped(content: bytes, bit: int) -> bytes:
    """The content with one bit changed."""
    at = bit // 8
    return content[:at] + bytes([content[at] ^ 1 << bit % 8]) + content[at + 1 :]


def overlap(one: Write, other: Write) -> bool:
    """Tell whether two writes have bytes in common."""
    return one.offset < other.end and other.offset < one.end


def contents(folder: Folder, path: str) -> Iterator[tuple[str, bytes | None]]:
    """What a program sees in a folder and below: files with their bytes, folders with None."""
    for name, node in folder.names.items():
        if isinstance(node, Folder):
            yield f"{path}/{name}", None
            yield from contents(node, f"{path}/{name}")
        else:
            yield f"{path}/{name}", node.data


def crashed_folder(folder: Folder, random: Random | None) -> Folder:
    """What may be left of a folder and all below it; without ``random`` every name is kept."""
    names = dict(folder.durable)
    for change in folder.pending:
        if random is None or random.random() < 0.5:
            change.apply(names)
    left = Folder()
    for name, node in names.items():
        left.names[name] = (
            crashed_folder(node, random) if isinstance(node, Folder) else node.crashed(random)
        )
    left.durable = dict(left.names)
    return left


def forked_folder(folder: Folder, seen: dict[int, Node]) -> Folder:
    """A copy of a folder and all below it, with everything that is pending."""
    known = seen.get(id(folder))
    if isinstance(known, Folder):
        return known
    other = Folder()
    seen[id(folder)] = other
    other.names = {name: forked(node, seen) for name, node in folder.names.items()}
    other.durable = {name: forked(node, seen) for name, node in folder.durable.items()}
    other.pending = [
        Change(change.gone, change.come, forked(change.node, seen) if change.node else None)
        for change in folder.pending
    ]
    return other


def forked(node: Node, seen: dict[int, Node]) -> Node:
    """A copy of a node, the same one for every name it has."""
    if isinstance(node, Folder):
        return forked_folder(node, seen)
    if id(node) not in seen:
        seen[id(node)] = node.forked()
    return seen[id(node)]
