"""The status of a project's flows: from their checkpoints and the server, without Spark.

A checkpoint has a file for each planned micro-batch (``offsets``) and for each committed one
(``commits``); both contain a version, a line of metadata, and the offset of each source.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from jetspark import sync
from jetspark.errors import BucketNotFound, StreamNotFound
from jetspark.spark.pipelines.file_tables import newest_number
from jetspark.spark.pipelines.project import Project
from jetspark.spark.progress.reports import positions
from jetspark.spark.stream.sink.ledger import read_entry
from jetspark.spark.stream.view import StreamView, view_of

# The throughput is that of the last micro-batches: an average over a day says little.
RECENT_EPOCHS: Final = 10


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that a flow reads."""

    stream: str
    next_seq: int | None
    """The first uncommitted sequence; None: nothing is committed."""
    last_seq: int | None = None
    """The last sequence of the stream; None: no such stream, or no server."""
    lag: int | None = None
    created: str = ""
    """When the stream was created, according to the checkpoint."""
    recreated: bool = False
    """Whether the stream was created again: the flow will refuse to continue."""


class LedgerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger's entry for a flow's sink."""

    epoch: int
    last_seq: int


class FlowStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A flow."""

    flow: str
    target: str
    query: str
    planned_epoch: int | None
    committed_epoch: int | None
    committed_ms: int | None = None
    """When the last epoch was committed, in milliseconds since 1970."""
    messages_per_second: float | None = None
    """Messages read by the last committed epochs per second of their duration; None: unknown."""
    sources: tuple[SourceStatus, ...] = ()
    ledger: LedgerStatus | None = None


def flow_states(project: Project) -> list[FlowStatus]:
    """Read the newest checkpoint of every flow."""
    states: list[FlowStatus] = []
    for metadata in sorted(project.checkpoints.glob("**/metadata")):
        folder = metadata.parent
        if not folder.name.isdecimal() or _is_within_a_checkpoint(project, folder):
            continue
        if int(folder.name) == newest_number(folder.parent):
            states.append(_flow_state(project, folder, json.loads(metadata.read_text())["id"]))
    return states


def _is_within_a_checkpoint(project: Project, folder: Path) -> bool:
    """Whether a folder is part of a checkpoint, whose state has numbers as names, too."""
    above = folder.relative_to(project.checkpoints).parents
    return any((project.checkpoints / one / "metadata").is_file() for one in above)


def with_server(
    states: list[FlowStatus], jetstream: sync.JetStream, ledger: str
) -> list[FlowStatus]:
    """Add data from the server: the ends of the streams, and the ledger."""
    ends: dict[str, StreamView | None] = {}
    for state in states:
        for source in state.sources:
            if source.stream not in ends:
                ends[source.stream] = _view(jetstream, source.stream)
    return [
        msgspec.structs.replace(
            state,
            sources=tuple(_with_end(source, ends[source.stream]) for source in state.sources),
            ledger=_ledger(jetstream, ledger, state.query),
        )
        for state in states
    ]


def _flow_state(project: Project, folder: Path, query: str) -> FlowStatus:
    parts = folder.relative_to(project.checkpoints).parts
    committed = newest_number(folder / "commits")
    planned = newest_number(folder / "offsets")
    sources: list[SourceStatus] = []
    known = committed if committed is not None else planned
    if known is not None:
        for offset in _offsets(folder / "offsets" / str(known)):
            sources += [
                SourceStatus(
                    stream=stream,
                    next_seq=seq if committed is not None else None,
                    created=created,
                )
                for stream, (seq, created) in positions(offset).items()
            ]
    return FlowStatus(
        flow=parts[-2],
        target=parts[-3],
        query=query,
        planned_epoch=planned,
        committed_epoch=committed,
        committed_ms=_committed_ms(folder, committed) if committed is not None else None,
        messages_per_second=_throughput(folder, committed) if committed is not None else None,
        sources=tuple(sources),
    )


def _committed_ms(folder: Path, epoch: int) -> int | None:
    """Return when an epoch was committed; None if its file was removed meanwhile."""
    try:
        return (folder / "commits" / str(epoch)).stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return None


def _throughput(folder: Path, committed: int) -> float | None:
    """Return the messages per second of the last epochs: from their offsets and times.

    The file of an epoch's offsets has the time when it was planned; that of its commit was written
    at its end.
    """
    messages, milliseconds = 0, 0
    newer = _next_seqs(folder, committed)
    for epoch in range(committed, max(0, committed - RECENT_EPOCHS), -1):
        older = _next_seqs(folder, epoch - 1)
        begun, ended = _planned_ms(folder, epoch), _committed_ms(folder, epoch)
        if not newer or not older or begun is None or ended is None:
            break
        # A stream that was created again starts over.
        messages += sum(max(0, seq - older.get(stream, 1)) for stream, seq in newer.items())
        milliseconds += max(1, ended - begun)
        newer = older
    return 1000 * messages / milliseconds if messages else None


def _next_seqs(folder: Path, epoch: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for offset in _offsets(folder / "offsets" / str(epoch)):
        found |= {stream: seq for stream, (seq, _created) in positions(offset).items()}
    return found


def _planned_ms(folder: Path, epoch: int) -> int | None:
    try:
        metadata = json.loads(_lines(folder / "offsets" / str(epoch))[1])
        return int(metadata["batchTimestampMs"])
    except (IndexError, ValueError, KeyError):
        return None


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _offsets(path: Path) -> Iterator[Any]:
    for line in _lines(path)[2:]:
        try:
            yield json.loads(line)
        except ValueError:  # "-" is a source without data yet
            continue


def _view(jetstream: sync.JetStream, stream: str) -> StreamView | None:
    try:
        return view_of(jetstream.stream(stream).cached_info)
    except StreamNotFound:
        return None


def _with_end(source: SourceStatus, view: StreamView | None) -> SourceStatus:
    if view is None:
        return source
    if source.created and source.created != view.created:
        return msgspec.structs.replace(source, recreated=True)
    last = view.bounds.last_seq
    lag = None if source.next_seq is None else max(0, last + 1 - source.next_seq)
    return msgspec.structs.replace(source, last_seq=last, lag=lag)


def _ledger(jetstream: sync.JetStream, bucket: str, query: str) -> LedgerStatus | None:
    if not bucket:
        return None
    try:
        found = read_entry(jetstream, bucket, query)
    except BucketNotFound:
        return None
    if found is None:
        return None
    return LedgerStatus(epoch=found.entry.epoch, last_seq=found.entry.last_seq)
