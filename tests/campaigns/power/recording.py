"""The disk that a recorded server had: what a power failure at any time may have left of it.

``recorder.c`` writes down each change of files, and when each sync started and ended. ``Disk``
repeats that. What was synced is certain. Any sector of what was not may be on disk or missing;
names in a folder are lost from the end. A sync that failed never makes durable what was written
before it, nor does a later one: as on Linux, where the pages are clean afterwards.
"""

import mmap
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

SOURCE: Final = Path(__file__).with_name("recorder.c")
CREATE, MKDIR, RENAME, UNLINK, WRITE, WRITTEN, WRITE_FAILED = range(1, 8)
SYNC, SYNCED, SYNC_FAILED, TRUNCATE = range(8, 12)
SECTOR: Final = 512
_HEAD: Final = struct.Struct("<QQQqIIII")


def build(folder: Path) -> Path:
    """Compile the recorder; return the library to preload."""
    library = folder / "recorder.so"
    subprocess.run(
        ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl", "-lpthread"],
        check=True,
    )
    return library


class Control:
    """Sets how many syncs and plain writes of a recorded process fail, of a million."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(4096))
        with path.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), 4096)

    def fail(self, syncs: int = 0, writes: int = 0) -> None:
        """Change both rates."""
        self._mapped[:8] = struct.pack("<II", syncs, writes)


class Step(NamedTuple):
    """One record."""

    time: int
    node: int
    id: int
    offset: int
    kind: int
    first: bytes
    second: bytes


def steps(path: Path) -> Iterator[Step]:
    """Read the records of a process; the last one may be incomplete if it was killed."""
    with path.open("rb") as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            time, node, number, offset, kind, first, second, _ = _HEAD.unpack(head)
            one, other = file.read(first), file.read(second)
            if len(one) == first and len(other) == second:
                yield Step(time, node, number, offset, kind, one, other)


@dataclass
class Pending:
    """A write that is not certainly on disk; ``data`` None: a truncation."""

    offset: int
    data: bytes | None
    id: int = 0
    # It was in the page cache when a sync began only if it had returned by then.
    complete: bool = True
    # A sync of it failed: no later one covers it.
    lost: bool = False


class File:
    """One file: what is certain, and what was written since."""

    def __init__(self) -> None:
        self.durable = bytearray()
        self.pending: list[Pending] = []
        # Syncs that have started: what they cover.
        self.syncs: dict[int, list[Pending]] = {}

    def settle(self, done: list[Pending]) -> None:
        """Make these certain, oldest first."""
        chosen = {id(each) for each in done}
        earlier: list[Pending] = []
        for each in self.pending:
            if id(each) not in chosen:
                earlier.append(each)
                continue
            if each.data is None:
                _resize(self.durable, each.offset)
                earlier = [left for one in earlier for left in _cut(one, each.offset)]
            else:
                _write(self.durable, each.offset, each.data)
                end = each.offset + len(each.data)
                earlier = [left for one in earlier for left in _without(one, each.offset, end)]
        self.pending = earlier

    def image(self, random: Random) -> bytes:
        """Return what a power failure may have left."""
        content = bytearray(self.durable)
        how = random.random()
        for each in self.pending:
            if each.data is None:
                if random.random() < 0.5:
                    _resize(content, each.offset)
            elif how < 0.15 and not each.lost:
                _write(content, each.offset, each.data)
            elif how > 0.3 or each.lost:
                _write_some(content, each, random)
        return bytes(content)


def _write_some(content: bytearray, write: Pending, random: Random) -> None:
    """Write some sectors of it."""
    assert write.data is not None
    chance = random.choice((0.0, 0.5, 0.5, 0.9, 1.0))
    at = 0
    while at < len(write.data):
        step = SECTOR - (write.offset + at) % SECTOR
        if random.random() < chance:
            _write(content, write.offset + at, write.data[at : at + step])
        at += step


def _resize(content: bytearray, length: int) -> None:
    del content[length:]
    content.extend(bytes(length - len(content)))


def _write(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _cut(write: Pending, length: int) -> list[Pending]:
    if write.data is None:
        return []
    write.data = write.data[: max(length - write.offset, 0)]
    return [write] if write.data else []


def _without(write: Pending, begin: int, end: int) -> list[Pending]:
    """Return what is left of an earlier write when a later one is certain."""
    if write.data is None or write.offset >= end or write.offset + len(write.data) <= begin:
        return [write]
    left = []
    if write.offset < begin:
        data = write.data[: begin - write.offset]
        left.append(Pending(write.offset, data, write.id, write.complete, write.lost))
    if write.offset + len(write.data) > end:
        data = write.data[end - write.offset :]
        left.append(Pending(end, data, write.id, write.complete, write.lost))
    return left


@dataclass
class Folder:
    """One folder: the certain names, and the changes since, in order."""

    durable: "dict[str, File | Folder]" = field(default_factory=dict)
    now: "dict[str, File | Folder]" = field(default_factory=dict)
    changes: "list[dict[str, File | Folder]]" = field(default_factory=list)
    syncs: dict[int, int] = field(default_factory=dict)

    def changed(self) -> None:
        """Note a change of ``now``."""
        self.changes.append(dict(self.now))


class Disk:
    """Repeats records; ``write_image`` writes what a power failure may leave then."""

    def __init__(self, root: str) -> None:
        self._root = root
        self.top = Folder()
        self._nodes: dict[int, File | Folder] = {}

    def apply(self, step: Step) -> None:
        """Repeat one step."""
        if step.kind in {CREATE, MKDIR, RENAME, UNLINK}:
            self._rename(step)
            return
        node = self._nodes.get(step.node)
        if isinstance(node, Folder) or node is None:
            self._sync_folder(node if node is not None else self.top, step)
        else:
            self._change(node, step)

    def _rename(self, step: Step) -> None:
        folder, name = self._place(step.first.decode())
        if folder is None:
            return
        if step.kind == CREATE:
            self._nodes[step.node] = folder.now[name] = File()
        elif step.kind == MKDIR:
            self._nodes[step.node] = folder.now[name] = Folder()
        elif step.kind == UNLINK:
            del folder.now[name]
        else:
            other, renamed = self._place(step.second.decode())
            assert other is folder, "the store renames within a folder"
            folder.now[renamed] = folder.now.pop(name)
        folder.changed()

    def _place(self, path: str) -> tuple[Folder | None, str]:
        if path == self._root:
            return None, ""
        parts = path.removeprefix(self._root + "/").split("/")
        folder = self.top
        for part in parts[:-1]:
            found = folder.now[part]
            assert isinstance(found, Folder)
            folder = found
        return folder, parts[-1]

    def _sync_folder(self, folder: Folder, step: Step) -> None:
        if step.kind == SYNC:
            folder.syncs[step.id] = len(folder.changes)
        elif step.kind == SYNCED:
            covered = folder.syncs.pop(step.id, 0)
            if covered:
                folder.durable = folder.changes[covered - 1]
                del folder.changes[:covered]
                folder.syncs = {key: max(n - covered, 0) for key, n in folder.syncs.items()}

    def _change(self, file: File, step: Step) -> None:
        if step.kind == WRITE:
            file.pending.append(Pending(step.offset, step.first, step.id, complete=not step.id))
        elif step.kind == TRUNCATE:
            file.pending.append(Pending(step.offset, None))
        elif step.kind == SYNC:
            file.syncs[step.id] = [w for w in file.pending if w.complete and not w.lost]
        elif step.kind == SYNCED:
            covered = {id(each) for each in file.syncs.pop(step.id, [])}
            file.settle([w for w in file.pending if id(w) in covered and not w.lost])
        elif step.kind == WRITTEN:
            file.settle([w for w in file.pending if w.id == step.id])
        elif step.kind == SYNC_FAILED:
            for write in file.syncs.pop(step.id, []):
                write.lost = True
        elif step.kind == WRITE_FAILED:
            for write in file.pending:
                if write.complete or write.id == step.id:
                    write.lost = write.complete = True

    def write_image(self, target: Path, random: Random) -> None:
        """Write the files that a power failure may leave."""
        self._write(self.top, target, random)

    def _write(self, folder: Folder, target: Path, random: Random) -> None:
        target.mkdir()
        states = [folder.durable, *folder.changes]
        for name, node in states[random.randrange(len(states))].items():
            if isinstance(node, Folder):
                self._write(node, target / name, random)
                continue
            data = node.image(random)
            with (target / name).open("wb") as file:
                content = data.rstrip(b"\0")
                file.write(content)
                file.truncate(len(data))
