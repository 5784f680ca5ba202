"""The state of a stream, for answers."""

from itertools import islice
from typing import TypeVar

import msgspec

from jetspark.api.base import Timestamp
from jetspark.api.levels import answered_metadata
from jetspark.api.stream import (
    LOST_SHOWN_MAX,
    JetsparkStreamInfo,
    LostData,
    StreamConfig,
    StreamInfo,
    StreamSourceInfo,
    StreamState,
)
from jetspark.engine.stream.stream import Stream

_Info = TypeVar("_Info", bound=StreamInfo)


def stream_info(stream: Stream, now: int, model: type[_Info]) -> _Info:
    """Return the info of a stream, with the metadata that this server adds to its answers."""
    metadata = answered_metadata(stream.config.metadata)
    config = msgspec.structs.replace(stream.config, metadata=metadata)
    return stream_info_with(stream, config, now, model)


def stream_info_with(stream: Stream, config: StreamConfig, now: int, model: type[_Info]) -> _Info:
    """Return the info of a stream, with the given configuration."""
    mirror, sources = copies_info(stream, now)
    return model(
        config=config,
        created=Timestamp(stream.created_ns),
        state=stream_state(stream),
        mirror=mirror,
        sources=sources,
        # By the clock of the stream: with the times of messages it says how old they are.
        ts=Timestamp(int(stream.log.timeline.stored_time(now))),
    )


def copies_info(
    stream: Stream, now: int
) -> tuple[StreamSourceInfo | None, tuple[StreamSourceInfo, ...]]:
    """Return the progress of a mirror, or of the sources of a stream."""
    known = tuple(copy.info(now) for copy in stream.copies)
    return (known[0], ()) if stream.config.mirror is not None and known else (None, known)


def stream_state(stream: Stream) -> StreamState:
    """Return what is durable in a stream, without lists of subjects or deletes."""
    index = stream.log.index
    holes = index.last_seq - index.first_seq + 1 - index.messages if index.messages else 0
    return StreamState(
        messages=index.messages,
        bytes=index.bytes,
        # An empty stream that was configured to start at 1 says so, as in released servers.
        first_seq=index.first_seq or min(stream.config.first_seq, 1),
        first_ts=Timestamp(stream.log.reader.first_time),
        last_seq=index.last_seq,
        last_ts=Timestamp(index.last_time),
        num_subjects=index.subject_count,
        num_deleted=holes,
        lost=lost_data(stream),
        consumer_count=len(stream.consumers),
    )


def jetspark_info(stream: Stream) -> JetsparkStreamInfo:
    """Return the fields that nats-server does not have."""
    log = stream.log
    if stream.config.mirror is not None or not log.began_seq:
        # A copy has the times of its origin, which may decrease.
        return JetsparkStreamInfo(durability=durability(stream))
    return JetsparkStreamInfo(
        durability=durability(stream),
        began_seq=int(log.began_seq),
        began=Timestamp(int(log.began_time)),
    )


def durability(stream: Stream) -> str:
    """Return what an acknowledgement of a stream guarantees; in memory, nothing is durable."""
    return "memory" if stream.log.segments.in_memory else stream.log.durability.level


def lost_data(stream: Stream) -> LostData | None:
    """Return the messages that were lost on a damaged disk; None if there are none."""
    quarantine = stream.log.quarantine
    if not quarantine.proven:
        return None
    each = (seq for first, last in quarantine.lost for seq in range(first, last + 1))
    gone = tuple(islice(each, LOST_SHOWN_MAX))
    return LostData(msgs=gone or None, bytes=quarantine.lost_bytes)
