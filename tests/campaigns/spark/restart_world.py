"""What the queries of ``restarts`` read and write, and what may happen to it between lives.

Every third row of the source, except in a stretch, equals the others: exactly once must count
them. What a target must hold follows from what was published, never from what Spark read.
"""

import contextlib
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import pyarrow.parquet as pq
from click.testing import CliRunner
from tests.support.servers import ServerProcess

from jetspark import KeyValueConfig, StreamConfig, sync
from jetspark.cli.main import main as jetspark_cli

ROWS: Final = 1_800
PER_EPOCH: Final = 600
# Rows of the second epoch that may be lost: each is the only one of its text, so that it can be
# asked whether a target must still get it.
SINGLE: Final = range(PER_EPOCH + 1, PER_EPOCH + 200)
LOST_BELOW: Final = PER_EPOCH + 100
FILES: Final = 36
ORIGIN: Final = "ORIGIN"
# A stream that joins the first one later.
SECOND: Final = "SECOND"
FEED: Final = "FEED"
LEDGER: Final = "LEDGER"
# Only the case that means to outlives the window; a beginning that was kept may be days old.
WINDOW: Final = timedelta(days=30)


class Query(NamedTuple):
    """One query of the job: where from, how it writes, and what it writes with."""

    name: str
    kind: str = "stream"
    format: str = "jetstream"
    options: Mapping[str, str] = MappingProxyType({})


QUERIES: Final = (
    Query("DEFAULT"),
    Query("LEDGERED", options={"ledgerBucket": LEDGER}),
    Query("CHUNKS", options={"publishMode": "atomic", "ledgerSubject": "CHUNKS.ledger"}),
    Query(
        "PARTS",
        options={
            "publishMode": "atomic",
            "ledgerSubject": "PARTS.ledger",
            "atomicScope": "partition",
        },
    ),
    Query(
        "EPOCHS",
        options={
            "publishMode": "atomic",
            "ledgerSubject": "EPOCHS.ledger",
            "atomicScope": "epoch",
        },
    ),
    Query("IDS", kind="ids"),
    Query("BATCHES", kind="batch", options={"ledgerBucket": LEDGER}),
    Query("KEYS", kind="kv"),
    Query("TABLE", kind="parquet"),
    Query("FILED", format="text"),
    Query("FED", format="nats_kv"),
    # Rows for two streams, by a column.
    Query("ROUTED", kind="routed"),
    # Any sink: a table of files.
    Query("ONCE", kind="once"),
    Query("MERGED", kind="merge"),
)
BY_NAME: Final = {query.name: query for query in QUERIES}


# The sink with several streams writes to these, and may get a third one.
ROUTES: Final = ("ROUTED_0", "ROUTED_1")
MORE_ROUTES: Final = (*ROUTES, "ROUTED_2")
_IN_BUCKETS: Final = ("kv", "merge")
_IN_FILES: Final = ("parquet", "once")


def streams_of(query: Query) -> tuple[str, ...]:
    """Return the streams that a query writes."""
    if query.kind in {*_IN_BUCKETS, *_IN_FILES}:
        return ()
    return MORE_ROUTES if query.kind == "routed" else (query.name,)


def text_of(row: int) -> str:
    """Return what row number ``row`` says."""
    return str(row) if row % 3 or row in SINGLE else "same"


def subject_of(row: int) -> str:
    """Return the subject of a row of the stream."""
    return f"{ORIGIN}.{row % 3}"


class World:
    """One server with the sources and the targets, the files, and the checkpoints."""

    def __init__(self, folder: Path, kind: str = "jetspark") -> None:
        self.folder = folder
        self.kind = kind
        self.lost: set[str] = set()
        """Texts deleted from the source: a target has them only if it had them before."""
        self.added: list[str] = []
        """Texts of rows that a source has got since."""
        self._others = contextlib.ExitStack()
        self._server: ServerProcess | None = None
        self.open()

    @property
    def live(self) -> Path:
        """The folder of everything that ``save`` saves."""
        return self.folder / "live"

    @property
    def published_at(self) -> float:
        """When the first rows of the stream were published, which ``expire`` removes."""
        return float((self.live / "published-at").read_text())

    @property
    def url(self) -> str:
        """The address of the server."""
        assert self._server is not None
        return self._server.url

    def checkpoint(self, query: Query) -> Path:
        """Where Spark keeps what it has done of ``query``."""
        return self.live / "checkpoints" / query.name

    def open(self) -> None:
        """Start the server on what its store has."""
        (self.live / "checkpoints").mkdir(parents=True, exist_ok=True)
        self._server = ServerProcess(self.kind, self.live / "store", "-js")
        self._client = sync.connect(self.url)
        self.js = self._client.jetstream(timeout=20)

    def close(self) -> None:
        """Stop the server as a service manager does, and others that were started."""
        self._others.close()
        self._client.close()
        assert self._server is not None
        self._server.process.send_signal(signal.SIGTERM)
        self._server.process.wait(timeout=60)
        self._server.kill()
        self._server = None

    def save(self, name: str) -> None:
        """Keep a copy of server, files and checkpoints."""
        self.close()
        saved = self.folder / "saved" / name
        shutil.rmtree(saved, ignore_errors=True)
        shutil.copytree(self.live, saved)
        self.open()

    def has(self, name: str) -> bool:
        """Say whether there is such a copy."""
        return (self.folder / "saved" / name).exists()

    def load(self, name: str) -> None:
        """Continue with a copy, as someone does who restores a machine; on another port."""
        self.close()
        shutil.rmtree(self.live)
        shutil.copytree(self.folder / "saved" / name, self.live)
        self.lost, self.added = set(), []
        self.open()

    def fill(self, *, apart_s: float = 4.0) -> None:
        """Make the sources and the empty targets; ``expire`` needs its rows that far apart."""
        self.make_origin(range(1, LOST_BELOW))
        self.js.create_key_value(KeyValueConfig(bucket=FEED, history=1))
        self.js.create_key_value(KeyValueConfig(bucket=LEDGER))
        values = {f"k{row}": text_of(row).encode() for row in range(1, ROWS + 1)}
        self.js.key_value(FEED).put_many(values)
        for query in QUERIES:
            if query.kind in _IN_BUCKETS:
                self.js.create_key_value(KeyValueConfig(bucket=query.name))
            for stream in streams_of(query):
                self.js.create_stream(_stream(stream))
        files = self.live / "files"
        files.mkdir()
        for part in range(FILES):
            chosen = range(1 + part, ROWS + 1, FILES)
            (files / f"{part}.txt").write_text("".join(f"{text_of(row)}\n" for row in chosen))
        time.sleep(max(0.0, self.published_at + apart_s - time.time()))
        self.publish(range(LOST_BELOW, ROWS + 1))

    def make_origin(self, rows: Iterable[int]) -> None:
        """Make the stream that is read, with these rows."""
        self.js.create_stream(_stream(ORIGIN, window=timedelta(seconds=1)))
        self.publish(rows)
        (self.live / "published-at").write_text(str(time.time()))

    def publish(self, rows: Iterable[int], js: sync.JetStream | None = None) -> None:
        """Append rows to the stream that is read."""
        numbers = list(rows)
        with (js or self.js).fast_publisher() as publisher:
            publisher.extend(
                [subject_of(row) for row in numbers], [text_of(row).encode() for row in numbers]
            )

    def append(self, rows: Iterable[int]) -> None:
        """Append rows that every target must have in the end."""
        numbers = list(rows)
        self.publish(numbers)
        self.added += [text_of(row) for row in numbers]

    def add_second(self, rows: Iterable[int]) -> None:
        """Append rows to a second stream, made if missing, that every target must have."""
        numbers = list(rows)
        self.js.create_or_update_stream(_stream(SECOND))
        for row in numbers:
            self.js.publish(f"{SECOND}.{row % 3}", text_of(row).encode())
        self.added += [text_of(row) for row in numbers]

    def delete_second(self) -> None:
        """Delete the second stream, all of which has been read."""
        self.js.delete_stream(SECOND)

    def source_options(self, query: Query, url: str = "") -> dict[str, str]:
        """Return the options that reading needs in every life."""
        servers = url or self.url
        match query.format:
            case "text":
                folder = str(self.live / "files")
                return {"path": folder, "maxFilesPerTrigger": str(FILES * PER_EPOCH // ROWS)}
            case "nats_kv":
                return {"servers": servers, "bucket": FEED, "startingOffsets": "earliest"}
            case _:
                return {"servers": servers, "stream": ORIGIN, "startingOffsets": "earliest"}

    def sink_options(self, query: Query) -> dict[str, str]:
        """Return the options that writing needs in every life."""
        match query.kind:
            case "parquet":
                return {"path": str(self.live / "table")}
            case "kv" | "merge":
                return {"servers": self.url, "bucket": query.name}
            case "routed":
                return {"servers": self.url, "streams": ",".join(ROUTES)}
            case "once":
                return {"servers": self.url, "path": str(self.live / "once")}
            case _:
                return {"servers": self.url, "stream": query.name, **query.options}

    def contents(self, query: Query) -> "Counter[str]":
        """Return the texts in a target; a row that is not whole counts as one of its own."""
        found: Counter[str] = Counter()
        if query.kind in _IN_FILES:
            files = {"parquet": "table/epoch=*/*.parquet", "once": "once/batch_id=*/*.parquet"}
            for file in self.live.glob(files[query.kind]):
                # Not as part of a table, whose partitions would become columns.
                for row in pq.ParquetFile(file).read().to_pylist():
                    found[_checked(row["subject"], query, row["data"])] += 1
        elif query.kind in _IN_BUCKETS:
            bucket = self.js.key_value(query.name)
            for key in bucket.keys():  # noqa: SIM118 - a bucket is no dict
                value = bucket.get(key).value.decode()
                found[value if key == value else f"{key} holds {value}"] += 1
        else:
            for stream in streams_of(query):
                for chunk in self.js.stream(stream).scan(filters=(f"{stream}.row.>",)):
                    for subject, payload in zip(chunk.subjects, chunk.data, strict=True):
                        found[_checked(subject, query, payload.decode())] += 1
        return found

    def size(self, query: Query) -> int:
        """Return how much a target holds, in a unit of its own: for waiting only."""
        if query.kind in _IN_FILES:
            folder = self.live / ("table" if query.kind == "parquet" else "once")
            return len(list(folder.rglob("*.parquet")))
        names = streams_of(query) or (f"KV_{query.name}",)
        return sum(self.js.stream(name).cached_info.state.messages for name in names)

    def due(self, query: Query, before: "Counter[str]") -> "Counter[str]":
        """Return what a target must hold in the end that held ``before`` when its job died."""
        due = Counter(text_of(row) for row in range(1, ROWS + 1))
        if query.format == "jetstream":
            for text in self.lost:
                due[text] = before[text]
            due.update(self.added)
        due = +due
        return Counter(set(due)) if query.kind in _IN_BUCKETS else due

    # What may happen between two lives.

    def purge(self) -> None:
        """Remove the first rows of the epoch in progress."""
        self.js.stream(ORIGIN).purge(seq=LOST_BELOW)
        self.lost |= {text_of(row) for row in range(PER_EPOCH + 1, LOST_BELOW)}

    def expire(self) -> None:
        """Let the first rows of the epoch in progress grow too old."""
        stream = self.js.stream(ORIGIN)
        config = stream.cached_info.config
        age = time.time() - self.published_at - 2.0
        self.js.update_stream(config.replace(max_age=age))
        deadline = time.monotonic() + 60
        while stream.info().state.first_seq < LOST_BELOW:
            assert time.monotonic() < deadline, "the server removes nothing by age"
            time.sleep(0.02)
        self.js.update_stream(config)
        assert stream.info().state.first_seq == LOST_BELOW, "too much expired for this case"
        self.lost |= {text_of(row) for row in range(PER_EPOCH + 1, LOST_BELOW)}

    def delete_some(self) -> None:
        """Remove single rows of the epoch in progress."""
        for row in SINGLE[::7]:
            self.js.stream(ORIGIN).delete_msg(row)
            self.lost.add(text_of(row))

    def make_again(self, rows: Iterable[int] = ()) -> None:
        """Delete the stream and make it again, with these rows; the unread ones are lost."""
        rows = list(rows)
        self.js.delete_stream(ORIGIN)
        self.make_origin(rows)
        self.lost |= {text_of(row) for row in range(PER_EPOCH + 1, ROWS + 1)}
        self.added += [text_of(row) for row in rows]

    def forget_ids(self) -> None:
        """Let the duplicate windows of all targets pass, as a delay of hours does."""
        targets = [stream for query in QUERIES for stream in streams_of(query)]
        for window in (timedelta(seconds=0.1), WINDOW):
            for stream in targets:
                config = self.js.stream(stream).cached_info.config
                self.js.update_stream(config.replace(duplicate_window=window))
            time.sleep(1.0)

    def lose_commits(self) -> None:
        """Leave the state of a driver that died before it noted its last epoch as committed."""
        for query in QUERIES:
            commits = self.checkpoint(query) / "commits"
            last = max((int(one.name) for one in commits.glob("[0-9]*")), default=None)
            if last is not None:
                (commits / str(last)).unlink()
                (commits / f".{last}.crc").unlink(missing_ok=True)

    def check_consumers(self, ending: str) -> None:
        """Check that the position consumers are never ahead of what is committed."""
        stream = self.js.stream(ORIGIN)
        end = stream.info().state.last_seq
        shown = {one.name: one for one in stream.consumers()}
        found = [one for name, one in shown.items() if name.endswith(ending)]
        assert found, f"no consumer ends with {ending}: {sorted(shown)}"
        for one in found:
            assert one.ack_floor.stream_seq <= end, one
            left = end - one.delivered.stream_seq
            assert one.num_pending == left, f"{one.name} shows {one.num_pending}, not {left}"

    def load_checkpoints(self, name: str) -> None:
        """Bring back the checkpoints of a saved copy, and nothing else."""
        saved = self.folder / "saved" / name / "checkpoints"
        shutil.rmtree(self.live / "checkpoints")
        shutil.copytree(saved, self.live / "checkpoints")

    def import_elsewhere(self, kind: str) -> str:
        """Export the stream and import it on a server of another kind; its address."""
        exported = self.folder / f"{ORIGIN}.parquet"
        _jetspark("stream", "export", ORIGIN, str(exported), "--force", "--server", self.url)
        url = self._other(kind)
        _jetspark("stream", "import", ORIGIN, str(exported), "--create", "--server", url)
        return url

    def restore_elsewhere(self) -> str:
        """Back up the stream and restore it on another server of the same kind; its address."""
        backup = self.folder / "backup"
        shutil.rmtree(backup, ignore_errors=True)
        self.js.stream(ORIGIN).backup(backup)
        url = self._other(self.kind)
        with sync.connect(url) as client:
            client.jetstream(timeout=20).restore_stream(backup)
        return url

    def _other(self, kind: str) -> str:
        store = self.folder / f"other-{time.monotonic_ns()}"
        if kind == "cluster":
            return _cluster(self._others, store)
        other = ServerProcess(kind, store, "-js")
        self._others.callback(other.kill)
        return other.url


def _cluster(stack: contextlib.ExitStack, folder: Path) -> str:
    import asyncio

    from tests.support.cluster import Cluster

    folder.mkdir()
    cluster = Cluster(folder)
    stack.callback(cluster.close)
    asyncio.run(cluster.wait_ready(60.0))
    return ",".join(cluster.urls)


def _stream(name: str, window: timedelta = WINDOW) -> StreamConfig:
    return StreamConfig(
        name=name,
        subjects=(f"{name}.>",),
        allow_direct=True,
        allow_batched=True,
        allow_atomic=True,
        duplicate_window=window,
    )


def _checked(subject: str, query: Query, text: str) -> str:
    if query.kind == "routed":
        # The third stream takes the place of one of the first two, once it is listed.
        routes = {f"{stream}.row.{text}" for stream in MORE_ROUTES}
        return text if subject in routes else f"{subject} holds {text}"
    return text if subject == f"{query.name}.row.{text}" else f"{subject} holds {text}"


def _jetspark(*arguments: str) -> Any:
    done = CliRunner().invoke(jetspark_cli, arguments)
    assert done.exit_code == 0, done.output
    return done
