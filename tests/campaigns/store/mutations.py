"""Files of a store, mutated without mercy.

Ranges are overwritten with zeros, garbage or bytes of another place, files are cut, lengthened,
removed, swapped and copied over each other. A start may then find little. It must not raise
anything but the store's own errors, serve nothing that was never published, and keep its house.
"""

from pathlib import Path
from random import Random
from typing import Final

from tests.support.disk.simulated import SimulatedDisk
from tests.support.store.model import ROOT, Violation, close_all, messages
from tests.support.store.sample import CACHE_BUDGET, KINDS, SEGMENT_SIZE, TIME, Sample

from jetspark.errors.storage import StorageFault
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.store import FileStore

MUTATIONS_MAX: Final = 6


def run_mutations(count: int, *, seed: int = 0) -> int:
    """Mutate and start this many stores; how many streams were opened."""
    samples = [Sample(kind) for kind in KINDS]
    opened = 0
    for number in range(seed, seed + count):
        random = Random(number)
        sample = random.choice(samples)
        disk = sample.disk.survivor()
        for _ in range(random.randint(1, MUTATIONS_MAX)):
            mutate(disk, random)
        try:
            opened += _start(sample, disk)
        except Exception as error:
            raise Violation(f"seed {number}, {sample.kind}: {error!r}") from error
    return opened


def mutate(disk: SimulatedDisk, random: Random) -> None:
    """Change one thing about one file, or two."""
    paths = sorted(disk.paths())
    path, other = random.choice(paths), random.choice(paths)
    content = disk.read_file(path)
    how = random.randrange(8)
    if how == 0:
        disk.put(path, content[: random.randint(0, len(content))])
    elif how == 1:
        disk.put(path, content + random.randbytes(random.randint(1, 300)))
    elif how == 2:
        disk.remove(path)
    elif how == 3:
        disk.put(path, disk.read_file(other))
        disk.put(other, content)
    elif how == 4:
        disk.put(path, disk.read_file(other))
    else:
        disk.put(path, _overwritten(content, disk.read_file(other), random))


def _overwritten(content: bytes, other: bytes, random: Random) -> bytes:
    begin = random.randint(0, len(content))
    length = random.choice((1, 4, 8, 40, 200, 1000))
    source = random.choice((bytes(length), random.randbytes(length), content, other))
    start = random.randint(0, max(0, len(source) - length))
    piece = source[start : start + length]
    # In its place, or pushing everything after it back.
    behind = begin + len(piece) if random.random() < 0.7 else begin
    return content[:begin] + piece + content[behind:]


def _start(sample: Sample, disk: SimulatedDisk) -> int:
    """Start a store twice; how many streams there were."""
    count = 0
    for _ in range(2):
        store = FileStore(disk, ROOT, segment_size=SEGMENT_SIZE, cache_budget=CACHE_BUDGET)
        try:
            logs = store.open(lambda *_: None, _cannot_open)
        except StorageFault:
            store.close()
            continue
        try:
            for log in logs:
                _check(sample, log)
                count += 1
        finally:
            close_all(logs)
            store.close()
    if disk.open_handles:
        raise Violation(f"{disk.open_handles} handles were left open")
    return count


def _cannot_open(_folder: Path, error: StorageFault | OSError) -> None:
    if not isinstance(error, StorageFault | FileNotFoundError):
        raise error


def _check(sample: Sample, log: StreamLog) -> None:
    published = sample.published.get(log.identity.stream_id, {})
    for turn in range(2):
        unreadable: set[int] = set()
        for seq, message in messages(log, unreadable).items():
            if published.get(seq) != message:
                raise Violation(f"sequence {seq} has wrong bytes")
        steps = 0
        while turn == 0 and log.maintain(TIME * 2):
            steps += 1
            if steps > 20_000:
                raise Violation("housekeeping does not end")
