"""Disks that fail: every single step of a short life of a store fails once."""

import errno
from contextlib import suppress

from tests.support.disk.simulated import SimulatedDisk
from tests.support.store.model import Message, Opened, Violation, messages
from tests.support.store.sample import CACHE_BUDGET, SEGMENT_SIZE, stream_identity

from jetspark.store.files import NO_SPACE
from jetspark.store.log.stream_log import StreamLog


def run_faults(errors: tuple[int, ...] = (errno.EIO, errno.ENOSPC)) -> int:
    """Let each step of a short life fail once with each error; how many runs that were.

    After an error that is not about space a log takes nothing more. Whatever failed, the next
    start serves all that was acknowledged, and nothing that never was staged.
    """
    runs = 0
    for error in errors:
        step = 1
        while _one_fault(step, error):
            step += 1
            runs += 1
    return runs


def _one_fault(step: int, error: int) -> bool:
    """Live a short life in which one step fails; whether it had that many steps."""
    disk = SimulatedDisk()
    disk.fail(step, error)
    acked: dict[int, Message] = {}
    staged: dict[int, Message] = {}
    with suppress(OSError):
        _short_life(disk, acked, staged)
    where = f"step {step}, error {errno.errorcode[error]}"
    if disk.open_handles:
        raise Violation(f"{where}: {disk.open_handles} handles were left open")
    fired = disk.failed_steps > 0
    disk.forget_failures()
    opened = Opened(disk, SEGMENT_SIZE, CACHE_BUDGET)
    found = {log.identity.stream_id: messages(log) for log in opened.logs}
    visible = found.pop(1, {})
    wrong = [seq for seq in visible if staged.get(seq) != visible[seq]]
    lost = [seq for seq in acked if seq not in visible]
    if wrong or lost:
        raise Violation(f"{where}: wrong {wrong}, lost {lost}")
    if found not in ({}, {2: {}}):
        raise Violation(f"{where}: there is {found}")
    opened.close()
    return fired


def _short_life(
    disk: SimulatedDisk, acked: dict[int, Message], staged: dict[int, Message]
) -> None:
    """Make a stream, write to it, start again, make and drop another, write more."""
    for first_turn in (0, 8):
        opened = Opened(disk, SEGMENT_SIZE, CACHE_BUDGET)
        try:
            if first_turn == 0:
                opened.logs.append(opened.store.create(stream_identity(1)))
            else:
                _make_and_drop(opened)
            for turn in range(first_turn, first_turn + 8):
                _publish_checked(disk, opened.logs[0], turn, acked, staged)
                opened.logs[0].maintain()
                opened.logs[0].maintain()
        finally:
            opened.close()


def _make_and_drop(opened: Opened) -> None:
    """Make a stream and remove it; one that the disk cannot delete is left as it is."""
    log = opened.store.create(stream_identity(2))
    try:
        opened.store.drop(log)
    finally:
        log.close()


def _publish_checked(
    disk: SimulatedDisk,
    log: StreamLog,
    turn: int,
    acked: dict[int, Message],
    staged: dict[int, Message],
) -> None:
    if log.access.read_only:
        return
    body = bytes([turn]) * (turn * 40)
    seq = int(log.staged.add_message(b"s.%d" % (turn % 3), 0, body + b"\r\n", turn))
    if seq in acked:
        raise Violation(f"sequence {seq} is used again")
    staged[seq] = Message(b"s.%d" % (turn % 3), b"", body)
    try:
        group = log.take_group()
        assert group is not None
        disk.write_synced(int(group.handle), [group.blob], int(group.offset))
    except OSError as error:
        log.fail(error.errno in NO_SPACE)
        if not log.access.read_only:
            del staged[seq]
    else:
        log.commit()
        acked[seq] = staged[seq]
