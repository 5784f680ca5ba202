"""Times ahead of the clock are set back; nothing else of a store changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from jetspark.store.files import OsFiles
from jetspark.store.format.manifest import Identity
from jetspark.store.format.record import body_end, headers_end, record_time, subject_end
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.retiming import Retiming
from jetspark.store.store import FileStore

SECOND = 10**9
NOW = 1_763_190_000 * SECOND
FUTURE = 7_258_118_400 * SECOND
STREAM = 7
Message = tuple[int, bytes, bytes]


class Stopped(Exception):
    """The process ended."""


class Stopping(OsFiles):
    """Files that end the process before one of the steps that change something."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def _step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise Stopped

    def replace(self, path: Path, content: bytes) -> None:
        self._step()
        super().replace(path, content)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)


def opened(folder: Path) -> tuple[FileStore, StreamLog]:
    store = FileStore(OsFiles(), folder, segment_size=1500, cache_budget=0, reserve_size=0)
    (log,) = store.open(lambda *_: None)
    return store, log


def commit(log: StreamLog) -> None:
    group = log.take_group()
    assert group is not None
    log.segments.files.write_synced(int(group.handle), [group.blob], int(group.offset))
    log.commit()


def filled(folder: Path, times: list[int], *, packed: bool = False) -> Path:
    """A stream with messages of these times, in several segments that were condensed."""
    store = FileStore(OsFiles(), folder, segment_size=1500, cache_budget=0, reserve_size=0)
    store.open(lambda *_: None)
    log = store.create(Identity(stream_id=STREAM, account="A", name="S", created_ns=1))
    log.upkeep.pack(packed)
    for number, time in enumerate(times):
        headers = b"NATS/1.0\r\nA: b\r\n\r\n" if number % 3 == 0 else b""
        body = b"%d" % number * 60
        log.staged.add_message(
            b"s.%d" % (number % 5), len(headers), headers + body + b"\r\n", time
        )
        if number == 2:
            log.staged.set_consumer(1, b'{"a consumer": 1}')
        commit(log)
    log.staged.delete(2)
    commit(log)
    while log.maintain():
        pass
    log.close()
    store.close()
    return Path(log.segments.folder)


def content(folder: Path) -> tuple[list[Message], list[int], object]:
    """Messages, their times, and what else a start finds."""
    store, log = opened(folder)
    messages, times = [], []
    seq = log.index.next_seq(1, b"")
    while seq:
        data, at = log.reader.locate(seq)
        start = subject_end(data, at)
        messages.append((int(seq), data[at + 40 : start], data[start : body_end(data, at)]))
        assert headers_end(data, at) >= start
        times.append(int(record_time(data, at)))
        seq = log.index.next_seq(seq + 1, b"")
    rest = (
        int(log.index.messages), int(log.index.bytes), int(log.index.last_seq),
        {number: found.document for number, found in log.engine_state.consumers.items()},
        int(log.staged.time), log.quarantine.lost_messages,
    )  # fmt: skip
    log.close()
    store.close()
    return messages, times, rest[:4] + rest[5:]


@pytest.mark.parametrize("packed", [False, True])
def test_times_ahead_go_back_and_nothing_else_changes(tmp_path: Path, packed: bool) -> None:
    begun = [NOW - (30 - n) * SECOND for n in range(15)]
    ahead = [FUTURE + n * SECOND for n in range(40)]
    folder = filled(tmp_path, begun + ahead, packed=packed)
    before, times, rest = content(tmp_path)
    files = [path.name for path in sorted(folder.glob("*.seg"))]

    changed = Retiming(OsFiles(), folder, STREAM).set_back(NOW)
    after, mended, rest_after = content(tmp_path)

    assert len(files) >= 4
    assert (after, rest_after) == (before, rest)
    assert mended[:14] == times[:14] == [begun[0], *begun[2:]]
    assert mended == sorted(set(mended))
    assert mended[-1] == NOW
    # The last fifteen seconds have room after the messages that were right.
    assert [NOW - time for time in mended[-15:]] == [(14 - n) * SECOND for n in range(15)]
    # What has no room stands close together.
    assert mended[14] == begun[-1] + 1
    assert changed >= 40
    assert Retiming(OsFiles(), folder, STREAM).set_back(NOW) == 0


def test_an_end_at_any_step_leaves_a_good_stream_and_the_next_run_does_the_rest(
    tmp_path: Path,
) -> None:
    ahead = [FUTURE + n * SECOND for n in range(24)]
    for steps in range(40):
        store = tmp_path / str(steps)
        folder = filled(store, ahead)
        before, _, rest = content(store)
        try:
            Retiming(Stopping(steps), folder, STREAM).set_back(NOW)
        except Stopped:
            between, times, _ = content(store)
            Retiming(OsFiles(), folder, STREAM).set_back(NOW)
            after, mended, rest_after = content(store)

            assert (between, after, rest_after) == (before, before, rest)
            assert times == sorted(set(times))
            assert mended == sorted(set(mended))
            assert mended[-1] == NOW
        else:
            assert steps > 6, "each file takes two steps"
            return
    raise AssertionError("it never came to its end")


def test_damaged_bytes_stay_as_they_are_and_cost_what_they_cost(tmp_path: Path) -> None:
    folder = filled(tmp_path, [FUTURE + n * SECOND for n in range(40)])
    segment = sorted(folder.glob("*.seg"))[1]
    data = bytearray(segment.read_bytes())
    hit = data.index(b"s.3")
    data[hit + 30] ^= 1
    segment.write_bytes(data)

    Retiming(OsFiles(), folder, STREAM).set_back(NOW)
    store, log = opened(tmp_path)
    now = int(log.staged.time)
    log.close()
    store.close()

    assert segment.read_bytes()[hit : hit + 40] == data[hit : hit + 40]
    assert now == NOW
