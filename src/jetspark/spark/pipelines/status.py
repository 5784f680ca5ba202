"""The status of a project's flows: from their checkpoints and the server, without Spark.

A checkpoint has a file for each planned micro-batch (``offsets``) and for each committed one
(``commits``); both contain a version, a line of metadata, and the offset of each source.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from jetspark import sync
from jetspark.errors import BucketNotFound, StreamNotFound
from jetspark.spark.pipelines.file_tables import newest_number
from jetspark.spark.pipelines.progress import offsets_of
from jetspark.spark.pipelines.project import Project
from jetspark.spark.stream.sink.ledger import read_entry
from jetspark.spark.stream.view import StreamView, view_of


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
                    created=str(offset["streams"][stream].get("created", "")),
                )
                for stream, seq in offsets_of(offset).items()
            ]
    return FlowStatus(
        flow=parts[-2],
        target=parts[-3],
        query=query,
        planned_epoch=planned,
        committed_epoch=committed,
        sources=tuple(sources),
    )


def _offsets(path: Path) -> Iterator[Any]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in lines[2:]:
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
