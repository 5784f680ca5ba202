"""Where a streaming read is, as Spark keeps it in its checkpoint (spark.md 6.2).

``{"v": 1, "streams": {"ORDERS": {"next": 1001, "created": "2026-11-15T..."}}}``: the first
sequence that was not read yet, and when the stream was made, which tells a stream that was deleted
and made again, whose numbers begin anew.
"""

from typing import Any, Final, NamedTuple

from jetspark.errors import Error
from jetspark.spark.options import SEQ_MAX

VERSION: Final = 1


class OffsetRefused(Error, ValueError):
    """An offset in a checkpoint that this read cannot go on from."""


class Offset(NamedTuple):
    """A place in one stream."""

    next: int
    created: str


def encode_offset(stream: str, offset: Offset) -> dict[str, Any]:
    """Return the form that Spark keeps."""
    place = {"next": offset.next, "created": offset.created}
    return {"v": VERSION, "streams": {stream: place}}


def decode_offset(stream: str, value: dict[str, Any], *, lowest: int = 1) -> Offset:
    """Read what Spark kept; raises ``OffsetRefused`` for what another read or version wrote."""
    if value.get("v") != VERSION:
        raise OffsetRefused(
            f"the checkpoint holds an offset of version {value.get('v')!r}, this jetspark reads "
            f"version {VERSION}: use the jetspark that wrote it, or a new checkpointLocation"
        )
    streams = value.get("streams")
    if not isinstance(streams, dict) or set(streams) != {stream}:
        names = ", ".join(streams) if isinstance(streams, dict) else repr(streams)
        raise OffsetRefused(
            f"the checkpoint is that of another read: it has offsets of {names}, this query reads "
            f"{stream!r}; use a checkpointLocation of its own"
        )
    place = streams[stream]
    following, created = place.get("next"), place.get("created")
    if not isinstance(following, int) or not lowest <= following <= SEQ_MAX + 1:
        raise OffsetRefused(f"the checkpoint's offset {value!r} has no sequence in 'next'")
    if not isinstance(created, str):
        raise OffsetRefused(f"the checkpoint's offset {value!r} has no time in 'created'")
    return Offset(following, created)
