"""Spark queries that report: flows of pipelines to a progress bucket, sinks to a ledger.

An exactly-once sink records its epochs in a bucket, one entry per query (docs/spark.md), and a
continuous run of a pipeline the state of each flow (docs/pipelines.md). Any bucket may be one; an
entry is recognised by its fields. Buckets with many keys are left out: these have a key per query.
"""

import time
from typing import Any, Final

import msgspec
from starlette.requests import Request

from jetspark.client.jetstream.kv.entry import Operation
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.client.jetstream.streams import Stream
from jetspark.dashboard.api.buckets import operation
from jetspark.dashboard.arguments import Query
from jetspark.dashboard.browse import read_backwards
from jetspark.dashboard.deployment import TIMEOUT_S, Deployment
from jetspark.dashboard.flow_report import SILENT_S, FlowReport
from jetspark.dashboard.values import iso, printable, read_json
from jetspark.errors import Error

KEYS_MAX: Final = 1000
BUCKETS_MAX: Final = 200
SAMPLE: Final = 20


class LedgerEntry(msgspec.Struct, frozen=True):
    """What a sink records of its query (``LedgerEntry`` of the Spark ledger)."""

    epoch: int
    last_seq: int
    query: str = ""
    begun: int | None = None
    runs: tuple[object, ...] = ()
    stream: str = ""


class Pipelines:
    """Answers about Spark queries."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment

    async def listed(self, request: Request) -> dict[str, Any]:
        """The entries of the ledgers, and the flows of the progress buckets."""
        bucket = Query(request).text("bucket")
        names, _ = await self._deployment.stream_names()
        buckets = [name for name in names if name.startswith("KV_")]
        if bucket:
            buckets = [name for name in buckets if name == f"KV_{bucket}"]
        looked = buckets[:BUCKETS_MAX]
        found = await self._deployment.rows(self._entries(name) for name in looked)
        entries = [row for each in found if not isinstance(each, Error) for row in each]
        entries.sort(key=lambda row: str(row["time"]), reverse=True)
        flows = [row for row in entries if "flow" in row]
        flows.sort(key=lambda row: (row["project"], row["flow"]))
        rows = [row for row in entries if "flow" not in row]
        return {"rows": rows, "flows": flows, "buckets": len(buckets), "looked": len(looked)}

    async def _entries(self, name: str) -> list[dict[str, Any]]:
        stream = await self._deployment.stream(name)
        if stream.cached_info.state.num_subjects > KEYS_MAX:
            return []
        prefix = f"$KV.{name.removeprefix('KV_')}."
        newest = (await read_backwards(self._deployment, stream, 0, "", SAMPLE)).messages
        # Most buckets are none of these, which their newest value shows.
        values = [each for each in newest if operation(each) is Operation.PUT]
        if not values or not _is_report(values[0].data):
            return []
        if stream.cached_info.state.num_subjects > 1:
            newest = await self._last_of_all(stream, f"{prefix}>")
        rows: list[dict[str, Any]] = []
        seen: set[str] = set()
        for message in newest:
            if message.subject in seen:
                continue
            seen.add(message.subject)
            if operation(message) is not Operation.PUT:
                continue
            report = read_json(message.data, FlowReport)
            if report is not None:
                shown = {
                    name: printable(value) if isinstance(value, str) else value
                    for name, value in msgspec.structs.asdict(report).items()
                }
                bucket = name.removeprefix("KV_")
                age = time.time() - message.time_ns / 1e9
                silent = report.state in {"running", "restarting"} and age > SILENT_S
                rows.append(
                    {**shown, "bucket": bucket, "silent": silent, "time": iso(message.time_ns)}
                )
                continue
            entry = read_json(message.data, LedgerEntry)
            if entry is None:
                continue
            rows.append(
                {
                    "ledger": name.removeprefix("KV_"),
                    "key": printable(message.subject.removeprefix(prefix)),
                    "query": entry.query,
                    "epoch": entry.epoch,
                    "last_seq": entry.last_seq,
                    "stream": entry.stream,
                    "running": entry.begun if entry.runs else None,
                    "runs": len(entry.runs),
                    "time": iso(message.time_ns),
                }
            )
        return rows

    async def _last_of_all(self, stream: Stream, pattern: str) -> list[StreamMessage]:
        """The last message of each key, at most `KEYS_MAX`."""
        pages = stream.get_last_many([pattern], timeout=TIMEOUT_S)
        found: list[StreamMessage] = []
        while chunk := await self._deployment.run(pages.next_chunk(KEYS_MAX)):
            found += chunk
        return found


def _is_report(data: bytes) -> bool:
    return read_json(data, FlowReport) is not None or read_json(data, LedgerEntry) is not None
