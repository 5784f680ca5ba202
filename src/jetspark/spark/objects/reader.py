"""Reading an object store: the driver lists the objects, each task fetches some of them."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from jetspark import sync
from jetspark.client.jetstream.objects.info import ObjectInfo
from jetspark.errors import BucketNotFound, InvalidSchema, ObjectNotFound
from jetspark.spark.connections import jetstream_of
from jetspark.spark.objects.glob import glob_pattern
from jetspark.spark.objects.options import OBJECT_FORMAT, ObjectOptions
from jetspark.spark.same_version import Sealed, reduced
from jetspark.spark.stream.planner import DataLoss
from jetspark.spark.stream.range_reader import with_retries
from jetspark.spark.stream.schema import microseconds, texts
from jetspark.spark.stream.view import PlanningFailed, lend_for_planning, no_bucket
from jetspark.spark.task import in_micro_batch

# Small objects share a task and a batch; larger ones have their own.
PARTITION_BYTES: Final = 64 * 1024 * 1024
BATCH_BYTES: Final = 8 * 1024 * 1024
# Spark stores a value in one array of the JVM.
CONTENT_BYTES_MAX: Final = 2**31 - 16
# How often an object that is replaced while it is read is opened again.
OPENS_MAX: Final = 20

_COLUMNS: Final[Mapping[str, DataType]] = {
    "path": StringType(),
    "modificationTime": TimestampType(),
    "length": LongType(),
    "content": BinaryType(),
}
# Where the content of a row starts in its object: rows of one object have different ones.
_START: Final = "start"
_ALL_COLUMNS: Final[Mapping[str, DataType]] = {**_COLUMNS, _START: LongType()}


class Listed(NamedTuple):
    """An object, or a piece of one, as listed by the driver."""

    name: str
    size: int
    mtime_ns: int
    nuid: str = ""
    """The content that a piece belongs to; empty: whatever the object has when it is read."""
    start: int = 0
    wanted: int = 0
    """Bytes to read from ``start``, as far as the driver knows."""


class ObjectPartition(InputPartition):
    """Some objects, and the index of this partition."""

    def __init__(self, objects: Sequence[Listed], place: int, count: int) -> None:
        super().__init__(place)
        self.objects = objects
        self.place = place
        self.count = count


def object_schema(*, split: bool = False) -> StructType:
    """Return the default schema of a read: that of Spark's ``binaryFile``.

    ``split``: an object may have several rows, so they say where they start.
    """
    columns = _ALL_COLUMNS if split else _COLUMNS
    return StructType([StructField(name, kind, nullable=False) for name, kind in columns.items()])


def check_object_schema(schema: StructType, *, split: bool = False) -> None:
    """Raise ``InvalidSchema`` unless every column exists for objects, with its type."""
    known = {name.lower(): (name, kind.simpleString()) for name, kind in _ALL_COLUMNS.items()}
    problems: list[str] = []
    seen: set[str] = set()
    for field in schema.fields:
        name, given = field.name.lower(), field.dataType.simpleString()
        if name in seen:
            problems.append(f"column {field.name!r} is duplicated")
        elif name not in known:
            problems.append(f"unknown column {field.name!r} (expected {', '.join(_ALL_COLUMNS)})")
        elif given != known[name][1]:
            problems.append(f"column {field.name!r} must be {known[name][1]}, not {given}")
        seen.add(name)
    if not schema.fields:
        problems.append("it has no columns")
    if split and "content" in seen and _START not in seen:
        problems.append(
            "with splitBytes it needs the column 'start' (long), or the rows of an object cannot "
            "be put in order"
        )
    if problems:
        raise InvalidSchema(f"schema of format {OBJECT_FORMAT!r}: {'; '.join(problems)}")


def pack(objects: Sequence[Listed], *, min_partitions: int) -> list[list[Listed]]:
    """Split objects into partitions of about equal size, none far above the limit."""
    total = sum(one.wanted for one in objects)
    limit = min(PARTITION_BYTES, max(1, -(-total // min_partitions)))
    # Without content all have the same weight.
    count = max(1, -(-len(objects) // min_partitions))
    parts: list[list[Listed]] = []
    size = 0
    for one in objects:
        if not parts or size + one.wanted > limit or len(parts[-1]) >= count:
            parts.append([])
            size = 0
        parts[-1].append(one)
        size += one.wanted
    return parts


def pieces(one: Listed, options: ObjectOptions) -> list[Listed]:
    """Return what to read of an object: one row, or with ``splitBytes`` as many as it takes."""
    start = min(options.start, one.size)
    end = one.size if options.length is None else min(start + options.length, one.size)
    size = options.split_bytes
    if size is None:
        return [one._replace(nuid="", start=options.start, wanted=end - start)]
    return [
        one._replace(start=at, wanted=min(size, end - at))
        for at in range(start, end, size) or [start]
    ]


class ObjectReader(DataSourceReader):
    """Reads an object store once. Pickled to the tasks."""

    def __init__(self, options: ObjectOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._content = "content" in {name.lower() for name in schema.fieldNames()}
        self._glob = glob_pattern(options.path_glob) if options.path_glob else None

    def __reduce__(self) -> Sealed:
        """Pickle with the driver's version, which the tasks compare with theirs."""
        return reduced(self)

    def partitions(self) -> list[InputPartition]:
        """List the objects and split them. Runs on the driver."""
        options = self._options
        with lend_for_planning(
            options.connection,
            doing=f"format {OBJECT_FORMAT!r} cannot read object store {options.bucket!r}",
            missing=no_bucket(OBJECT_FORMAT, "object store", options.bucket),
        ) as client:
            objects = self._list(client)
        parts = pack(objects, min_partitions=options.min_partitions)
        return [ObjectPartition(part, at, len(parts)) for at, part in enumerate(parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the objects of ``partition`` as Arrow batches. Runs in a task."""
        if in_micro_batch():
            return self._batches_now(partition)
        if not isinstance(partition, ObjectPartition):
            # Spark's placeholder if there are no partitions: InputPartition(None).
            return iter(())
        return self._batches(partition.objects)

    def _batches_now(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield this partition's share of the current objects.

        Spark plans the static side of a streaming join once for all micro-batches. The share
        depends on the name, so that an object is never missing or duplicated, whenever the tasks
        run.
        """
        place, count = 0, 1
        if isinstance(partition, ObjectPartition):
            place, count = partition.place, partition.count
        listed = with_retries(
            self._options.connection, lambda client: self._list(client, skip_deleted=True)
        )
        mine = [one for one in listed if zlib.crc32(one.name.encode()) % count == place]
        return self._batches(mine, skip_deleted=True)

    def _batches(
        self, objects: Sequence[Listed], *, skip_deleted: bool = False
    ) -> Iterator[pa.RecordBatch]:
        rows: list[tuple[Listed, bytes]] = []
        size = 0
        deleted = ""
        for one in objects:
            if one.name == deleted:
                continue  # its first piece was left out
            row = self._fetch(one) if self._content else (one, b"")
            # A later piece is not left out: a part of an object looks like all of it.
            if row is None and skip_deleted and one.start == self._options.start:
                deleted = one.name
                continue
            if row is None:
                raise DataLoss(
                    f"object {one.name!r} of {self._options.bucket!r} was deleted since the read "
                    "was planned: load it again, or call jetspark.spark.refresh on the DataFrame"
                )
            # A column of a batch is limited to 2 GiB: a large object does not join small ones.
            if rows and size + len(row[1]) > BATCH_BYTES:
                yield self._encode(rows)
                rows, size = [], 0
            rows.append(row)
            size += len(row[1])
        if rows:
            yield self._encode(rows)

    def _list(self, client: sync.Client, *, skip_deleted: bool = False) -> list[Listed]:
        """Return the objects to read, by name; refuses those that are too large.

        A link whose target was deleted is refused, or with ``skip_deleted`` left out.
        """
        store = jetstream_of(client, self._options.connection).object_store(self._options.bucket)
        found: list[Listed | None] = []
        for info in store.list():
            if not self._wanted(info):
                continue
            try:
                found.append(_listed(store, info))
            except (ObjectNotFound, BucketNotFound) as error:
                if skip_deleted:
                    continue
                raise PlanningFailed(
                    f"format {OBJECT_FORMAT!r}: {info.name!r} of object store "
                    f"{self._options.bucket!r} is a link to an object that does not exist "
                    f"({error}): delete the link, or leave it out with pathGlobFilter"
                ) from error
        objects = sorted(one for one in found if one is not None)
        if not self._content:
            return objects
        rows = [piece for one in objects for piece in pieces(one, self._options)]
        self._check_sizes(rows)
        return rows

    def _fetch(self, one: Listed) -> tuple[Listed, bytes] | None:
        """Read an object, None if it was deleted; its metadata is that of the content read."""
        options = self._options
        start, length = options.start, options.length
        if one.nuid:
            start, length = one.start, one.wanted

        def attempt(client: sync.Client) -> tuple[Listed, bytes] | None:
            store = jetstream_of(client, options.connection).object_store(options.bucket)
            for _ in range(OPENS_MAX):
                try:
                    reader = store.open(one.name, start=start, length=length)
                except ObjectNotFound:
                    return None
                with reader:
                    if one.nuid and reader.info.nuid != one.nuid:
                        raise DataLoss(
                            f"object {one.name!r} of {options.bucket!r} was replaced since the "
                            "read was planned, and its rows must be of one content: load it "
                            "again, or call jetspark.spark.refresh on the DataFrame"
                        )
                    try:
                        content = reader.read()
                    except ObjectNotFound:
                        continue  # replaced or deleted during the read: only opening it tells
                info = reader.info
                return one._replace(size=info.size, mtime_ns=int(info.time_ns)), content
            raise DataLoss(
                f"object {one.name!r} of {options.bucket!r} was replaced during each of "
                f"{OPENS_MAX} reads: read it when it is replaced less often, or leave it out with "
                "pathGlobFilter"
            )

        return with_retries(options.connection, attempt)

    def _encode(self, rows: Sequence[tuple[Listed, bytes]]) -> pa.RecordBatch:
        schema = to_arrow_schema(self._schema, timezone="UTC")
        columns: dict[str, Any] = {
            "path": lambda kind: texts([one.name for one, _ in rows]),  # noqa: ARG005
            "modificationtime": lambda kind: microseconds([one.mtime_ns for one, _ in rows], kind),
            "length": lambda kind: pa.array([one.size for one, _ in rows], kind),
            "content": lambda kind: pa.array([content for _, content in rows], kind),
            _START: lambda kind: pa.array([one.start for one, _ in rows], kind),
        }
        arrays = [columns[field.name.lower()](field.type) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _wanted(self, info: ObjectInfo) -> bool:
        return self._glob is None or self._glob.fullmatch(info.name) is not None

    def _check_sizes(self, objects: Sequence[Listed]) -> None:
        for one in objects:
            if one.wanted > CONTENT_BYTES_MAX:
                raise PlanningFailed(
                    f"format {OBJECT_FORMAT!r}: object {one.name!r} has {one.wanted} bytes, more "
                    f"than Spark's maximum for a value ({CONTENT_BYTES_MAX}): read it in several "
                    "rows with splitBytes (67108864, for example), leave it out with "
                    "pathGlobFilter, or read without the column content"
                )


def _listed(store: sync.ObjectStore, info: ObjectInfo) -> Listed | None:
    """Resolve a name; None for a link to a whole store, which is no object."""
    link = info.options.link if info.options is not None else None
    if link is None:
        return Listed(info.name, info.size, int(info.time_ns), info.nuid)
    if not link.name:
        return None
    with store.open(info.name) as reader:
        target = reader.info
        return Listed(info.name, target.size, int(target.time_ns), target.nuid)
