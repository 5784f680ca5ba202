"""The position of a streaming read, as stored in Spark's checkpoint.

Version 2, the current one::

    {"v": 2, "streams": {"ORDERS": {"next": 1001, "created": "2026-11-15T...",
                                    "from": 1, "cuts": [251, 501, 751], "subjects": ["a.>"]}}}

``next`` is the first sequence that was not read and ``created`` the time at which the stream was
created: the sequences of a stream that was deleted and created again start over. The rest
describes the micro-batch that ends here: the sequence it starts at, the inner boundaries of its
partitions, and its subject filters. They are part of the offset because Spark runs an interrupted
micro-batch again with nothing but its two offsets, perhaps in a process with other cores and
options, and exactly-once writes need the same rows in it again. A place without ``from`` is of a
stream from which the micro-batch reads nothing; its filters are those used before it.

Each stream of a read has its place, also one that was read before and that the options no longer
select: if they select it again, the query continues where it was.

Version 1 (jetspark 0.1.0) has ``next`` and ``created`` only. It is read, never written.
"""

import itertools
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from jetspark.errors import Error
from jetspark.spark.stream.options import SEQ_MAX

VERSION: Final = 2
VERSION_WITHOUT_PLAN: Final = 1


class OffsetRefused(Error, ValueError):
    """An offset in a checkpoint that this read cannot continue from."""


class BatchPlan(NamedTuple):
    """How the micro-batch that ends at an offset is read, in every run."""

    first: int
    cuts: tuple[int, ...] = ()
    subjects: tuple[str, ...] = ()
    snapshot_split: tuple[int, int] | None = None
    """For a snapshot of a bucket, which has no cuts: ``minPartitions`` and the keys of each."""


class Offset(NamedTuple):
    """A position in one stream."""

    next: int
    created: str
    plan: BatchPlan | None = None
    planned: bool = True
    """False for an offset of version 1: the split of its micro-batch is unknown."""
    subjects: tuple[str, ...] | None = None
    """Without a plan: the filters of the read that got here; None: unknown."""

    @property
    def filters(self) -> tuple[str, ...] | None:
        """The subject filters of the read up to this position; None: unknown."""
        return self.subjects if self.plan is None else self.plan.subjects

    def reached(self) -> "Offset":
        """Return the position alone, for a micro-batch that reads nothing of this stream."""
        return Offset(self.next, self.created, subjects=self.filters)


def encode_offsets(offsets: Mapping[str, Offset]) -> dict[str, Any]:
    """Return the form for Spark's checkpoint, in the order of names."""
    places = {stream: _place(offsets[stream]) for stream in sorted(offsets)}
    return {"v": VERSION, "streams": places}


def decode_offsets(value: Mapping[str, Any], *, lowest: int = 1) -> dict[str, Offset]:
    """Decode an offset, by stream; raises ``OffsetRefused`` if another version wrote it.

    ``lowest`` is the smallest valid sequence of such an offset.
    """
    version = value.get("v")
    if version not in {VERSION, VERSION_WITHOUT_PLAN} or isinstance(version, bool):
        raise OffsetRefused(
            f"the checkpoint has an offset of version {version!r}, this jetspark reads versions "
            f"{VERSION_WITHOUT_PLAN} and {VERSION}. Continue the query with the jetspark that "
            "wrote it or a later one, or start it with a new checkpointLocation and "
            'option("startingOffsets", ...) set to where it should continue'
        )
    streams = value.get("streams")
    if not isinstance(streams, dict):
        raise _damaged(value, "no streams")
    return {
        stream: _offset(value, place, lowest, planned=version == VERSION)
        for stream, place in streams.items()
    }


def of_another_read(offsets: Mapping[str, Offset], read: str) -> OffsetRefused:
    """Return the error for a checkpoint with none of the streams of a query; ``read`` has them."""
    text = (
        f"the checkpoint belongs to another read: it has offsets of {', '.join(offsets)}, this "
        f"query reads {read}. Use a checkpointLocation of its own for {read}"
    )
    if len(offsets) == 1:
        ((name, place),) = offsets.items()
        text += (
            f"; if it is {name!r} under a new name, with the same sequences, set "
            f'option("startingOffsets", "{place.next}") there to continue after sequence '
            f"{place.next - 1}"
        )
    return OffsetRefused(text)


def _place(offset: Offset) -> dict[str, Any]:
    place: dict[str, Any] = {"next": offset.next, "created": offset.created}
    plan = offset.plan
    if plan is not None:
        place["from"] = plan.first
        if plan.cuts:
            place["cuts"] = list(plan.cuts)
        if plan.subjects:
            place["subjects"] = list(plan.subjects)
        if plan.snapshot_split is not None:
            place["split"] = list(plan.snapshot_split)
    elif offset.subjects is not None:
        place["subjects"] = list(offset.subjects)
    return place


def _offset(value: Mapping[str, Any], place: Any, lowest: int, *, planned: bool) -> Offset:
    if not isinstance(place, dict) or not _is_sequence(place.get("next"), lowest):
        raise _damaged(value, "no sequence in 'next'")
    if not isinstance(place.get("created"), str):
        raise _damaged(value, "no time in 'created'")
    if not planned:
        return Offset(place["next"], place["created"], planned=False)
    plan = _plan_of(value, place, lowest)
    passed = place.get("subjects") if plan is None else None
    return Offset(
        place["next"], place["created"], plan, subjects=None if passed is None else tuple(passed)
    )


def _plan_of(value: Mapping[str, Any], place: dict[str, Any], lowest: int) -> BatchPlan | None:
    first = place.get("from")
    if first is None:
        return None
    if not _is_sequence(first, lowest) or first > place["next"]:
        raise _damaged(value, "no sequence up to 'next' in 'from'")
    cuts, subjects = place.get("cuts", []), place.get("subjects", [])
    if not isinstance(cuts, list) or not all(_is_sequence(cut, lowest) for cut in cuts):
        raise _damaged(value, "no list of sequences in 'cuts'")
    edges = [first, *cuts, place["next"]]
    if cuts and not all(low < high for low, high in itertools.pairwise(edges)):
        raise _damaged(value, "no rising sequences between 'from' and 'next' in 'cuts'")
    if not isinstance(subjects, list) or not all(isinstance(one, str) for one in subjects):
        raise _damaged(value, "no list of filters in 'subjects'")
    split = place.get("split")
    if split is not None and not (
        isinstance(split, list) and len(split) == 2 and all(_is_sequence(n, 1) for n in split)
    ):
        raise _damaged(value, "no two numbers in 'split'")
    snapshot_split = None if split is None else (split[0], split[1])
    return BatchPlan(first, tuple(cuts), tuple(subjects), snapshot_split)


def _is_sequence(value: object, lowest: int) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole and lowest <= value <= SEQ_MAX + 1  # type: ignore[operator]


def _damaged(value: Mapping[str, Any], what: str) -> OffsetRefused:
    return OffsetRefused(
        f"the checkpoint's offset {value!r} has {what}: it was damaged or edited. Restore the "
        "checkpoint, or start the query with a new checkpointLocation and "
        'option("startingOffsets", ...) set to where it should continue'
    )
