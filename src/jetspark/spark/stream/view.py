"""Requests of the driver before a read: which stream, its range, its creation time."""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, NamedTuple

from jetspark import sync
from jetspark.api.base import Timestamp
from jetspark.client.models.base import to_wire
from jetspark.client.models.stream import StreamInfo
from jetspark.errors import (
    BucketNotFound,
    Error,
    MessageNotFound,
    MinLastSequence,
    PermissionsViolation,
    StreamNotFound,
)
from jetspark.spark.connection_advice import advice_for
from jetspark.spark.connection_settings import Connection
from jetspark.spark.connections import CONNECTIONS, jetstream_of
from jetspark.spark.stream.options import FORMAT_NAME, SourceOptions
from jetspark.spark.stream.planner import DataLoss, SequenceRange, StreamBounds
from jetspark.subjects.match import overlaps
from jetspark.units import format_rfc3339

# How long to wait for minLastSeq, and how often to poll the stream.
MIN_LAST_SEQ_WAIT_S: Final = 10.0
MIN_LAST_SEQ_POLL_S: Final = 0.05

# What the names of the streams of buckets and object stores start with.
_BUCKETS: Final = ("KV_", "OBJ_")


class PlanningFailed(Error):
    """A read that cannot work, detected on the driver before any task has started."""


class StreamMissing(PlanningFailed):
    """A stream of the read does not exist."""


class ServerUnreachable(PlanningFailed):
    """No server answers at present; a running query waits for it."""

    transient = True


class StreamView(NamedTuple):
    """A stream at one point in time."""

    name: str
    created: str
    bounds: StreamBounds
    mean_size: float
    """Mean size of a message in bytes; 0 in an empty stream."""
    allow_direct: bool
    messages: int = 0


@contextmanager
def lend_for_planning(
    connection: Connection, *, doing: str, missing: str
) -> Iterator[sync.Client]:
    """Lend a connection for planning; every error becomes one clear line.

    ``doing`` describes what failed, ``missing`` what does not exist.
    """
    where = f"on {connection.display_servers}"
    try:
        with CONNECTIONS.borrow(connection) as client:
            yield client
    except (DataLoss, PlanningFailed):
        raise
    except (StreamNotFound, BucketNotFound):
        raise StreamMissing(f"{missing} {where}: create it, or correct the options") from None
    except (Error, ValueError) as error:
        passing = isinstance(error, Error) and error.transient
        kind = ServerUnreachable if passing else PlanningFailed
        # The texts of other errors already contain it.
        advice = advice_for(error, connection) if isinstance(error, PermissionsViolation) else ""
        raise kind(f"{doing} {where}: {error}{': ' * bool(advice)}{advice}") from None


def planning(options: SourceOptions) -> AbstractContextManager[sync.Client]:
    """Lend a connection for planning the read of a stream."""
    named, what = _shown(options)
    return lend_for_planning(
        options.connection,
        doing=f"format {FORMAT_NAME!r} cannot read {named}",
        missing=f"format {FORMAT_NAME!r}: {what} does not exist",
    )


def no_bucket(format_name: str, kind: str, bucket: str) -> str:
    """Describe a bucket or an object store that does not exist, for ``lend_for_planning``."""
    prefix = next((one for one in _BUCKETS if bucket.startswith(one)), "")
    hint = f" ({prefix} is part of the name of its stream: leave it out)" if prefix else ""
    return f"format {format_name!r}: {kind} {bucket!r} does not exist{hint}"


def _shown(options: SourceOptions) -> tuple[str, str]:
    """Return the streams of a read for messages, and what must exist."""
    if options.stream:
        named = f"stream {options.stream!r}"
        # A comma may be part of a name.
        hint = " (for several streams use the option streams)" if "," in options.stream else ""
        return named, f"{named}{hint}"
    if options.streams:
        return (f"the streams {', '.join(options.streams)}",) * 2
    if options.stream_pattern:
        return (f"the streams that match {options.stream_pattern!r}",) * 2
    subjects = ", ".join(options.subjects)
    return f"subject {subjects!r}", f"a stream that stores {subjects!r}"


def is_selected(options: SourceOptions, name: str) -> bool:
    """Return whether a stream of this name is part of a read.

    For a read of one subject, it is not known here which stream stores it.
    """
    if options.stream_pattern:
        return _matches(options.stream_pattern, name)
    if options.streams:
        return name in options.streams
    return options.stream in {"", name}


def stream_names(options: SourceOptions) -> list[str]:
    """Return the names of the streams to read, sorted.

    Streams given by name may not exist, those that match a pattern do.
    """
    if options.stream or options.streams:
        return sorted(options.streams or (options.stream,))
    with planning(options) as client:
        jetstream = jetstream_of(client, options.connection)
        if options.stream_pattern:
            pattern = options.stream_pattern
            return sorted({name for name in jetstream.stream_names() if _matches(pattern, name)})
        names = sorted({jetstream.stream_name_by_subject(one) for one in options.subjects})
    if len(names) > 1:
        raise PlanningFailed(
            f"format {FORMAT_NAME!r}: the subjects {', '.join(options.subjects)} belong to "
            f'several streams: set option("streams", "{",".join(names)}") to read all of them, '
            'or read each with its own option("stream", ...)'
        )
    return names


def _matches(pattern: str, name: str) -> bool:
    # Buckets and object stores are streams too. One of them is the ledger of Spark's sinks, and a
    # query that reads its own ledger never ends: they match only if the pattern names them.
    own = name.startswith(_BUCKETS) and not pattern.startswith(_BUCKETS)
    return not own and re.fullmatch(pattern, name) is not None


def find_stream(client: sync.Client, options: SourceOptions) -> sync.Stream:
    """Return the one stream of a read, with its current state."""
    return jetstream_of(client, options.connection).stream(options.stream)


def view_of(info: StreamInfo) -> StreamView:
    """Return the parts of STREAM.INFO that planning needs."""
    state = info.state
    return StreamView(
        info.config.name,
        format_rfc3339(to_wire(info).created),
        StreamBounds(state.first_seq, state.last_seq),
        state.bytes / state.messages if state.messages else 0.0,
        info.config.allow_direct,
        state.messages,
    )


def await_sequence(stream: sync.Stream, options: SourceOptions) -> StreamInfo:
    """Return the leader's STREAM.INFO, once it has reached ``minLastSeq``."""
    deadline = time.monotonic() + MIN_LAST_SEQ_WAIT_S
    info = stream.info()
    while info.state.last_seq < options.min_last_seq:
        if time.monotonic() >= deadline:
            raise PlanningFailed(
                f"format {FORMAT_NAME!r}: minLastSeq is {options.min_last_seq}, but stream "
                f"{stream.name!r} is at {info.state.last_seq} after {MIN_LAST_SEQ_WAIT_S:.0f} "
                "seconds: the expected messages have not been written"
            )
        time.sleep(MIN_LAST_SEQ_POLL_S)
        info = stream.info()
    return info


def first_since(stream: sync.Stream, time_ns: int, bounds: StreamBounds) -> int:
    """Return the sequence of the first message stored at or after a time, or the next one."""
    try:
        # From a copy that is up to date: one that lags would find nothing.
        return stream.get_msg(start_time=Timestamp(time_ns), min_last_seq=bounds.last_seq).seq
    except MessageNotFound:
        return bounds.last_seq + 1


def first_match(stream: sync.Stream, subjects: Sequence[str], whole: SequenceRange) -> int | None:
    """Return the first sequence of a range that matches one of the filters, or None.

    The range must not reach beyond the last sequence of the stream.
    """
    if whole.first >= whole.end:
        return None
    found = [
        match for subject in subjects if (match := _match(stream, subject, whole)) is not None
    ]
    return min(found, default=None)


def refuse_foreign_filters(stream: sync.Stream, subjects: Sequence[str]) -> None:
    """Raise ``PlanningFailed`` for a filter that no message of a stream matches, now or later.

    Only of a stream whose own subjects are all that it stores; messages of subjects that it had
    earlier may be read.
    """
    config = stream.config
    if config.mirror is not None or config.sources or config.subject_transform is not None:
        return
    foreign = [
        one
        for one in subjects
        if not any(overlaps(one.encode(), own.encode()) for own in config.subjects)
    ]
    bounds = view_of(stream.cached_info).bounds
    whole = SequenceRange(max(bounds.first_seq, 1), bounds.last_seq + 1)
    if foreign and first_match(stream, foreign, whole) is None:
        raise PlanningFailed(
            f"format {FORMAT_NAME!r}: subject {', '.join(foreign)} matches nothing that stream "
            f"{stream.name!r} stores (it has {', '.join(config.subjects)}): correct the option"
        )


def _match(stream: sync.Stream, subject: str, whole: SequenceRange) -> int | None:
    try:
        # From a copy that has all of the range: one that lags would find nothing.
        seq = stream.get_msg(
            next_by_subject=subject, seq=whole.first, min_last_seq=whole.end - 1
        ).seq
    except MessageNotFound:
        return None
    except MinLastSequence as error:
        raise ServerUnreachable(
            f"no copy of stream {stream.name!r} has caught up with its leader: {error}"
        ) from None
    return seq if seq < whole.end else None
