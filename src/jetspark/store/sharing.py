"""Groups that share a frame of the journal: what is done for each of them, compiled.

With very many streams a turn has a thousand groups of one message each (hot-path.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import i64

    from jetspark.store.files import Files
    from jetspark.store.log.group import Group


def divide(
    turn: list[tuple[object, Group]], size_max: int
) -> tuple[list[tuple[object, Group]], list[tuple[object, Group]], int]:
    """Return the groups of a turn that may share a frame, the others, and the size of the first.

    Groups of ``size_max`` bytes or more do not.
    """
    shared: list[tuple[object, Group]] = []
    left: list[tuple[object, Group]] = []
    size: i64 = 0
    most: i64 = size_max
    for each in turn:
        group = each[1]
        if group.may_share and group.size < most:
            shared.append(each)
            size += group.size
        else:
            left.append(each)
    return shared, left, int(size)


def write_segments(
    files: Files, turn: list[tuple[object, Group]]
) -> tuple[list[tuple[object, Group]], list[tuple[object, Group]]]:
    """Write groups to their segments without a sync, before their frame.

    Returns those that were written, and those for which that failed: each of them is its stream's
    own problem.
    """
    written: list[tuple[object, Group]] = []
    failed: list[tuple[object, Group]] = []
    for each in turn:
        group = each[1]
        group.share(True)
        if write_unsynced(files, group):
            written.append(each)
        else:
            group.share(False)
            failed.append(each)
    return written, failed


def write_unsynced(files: Files, group: Group) -> bool:
    """Write a group to its segment, before the journal; False if that failed."""
    try:
        files.write(int(group.handle), [group.blob], int(group.offset))
    except Exception:  # noqa: BLE001 - it is written again with a sync, and that error is reported
        return False
    return True
