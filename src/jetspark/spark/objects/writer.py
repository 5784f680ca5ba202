"""Writing rows to an object store, one object each."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from jetspark import sync
from jetspark.client.jetstream.objects.info import Digest
from jetspark.errors import Error, InvalidSchema, ObjectNotFound
from jetspark.spark.connections import jetstream_of
from jetspark.spark.objects.options import OBJECT_FORMAT, ObjectOptions
from jetspark.spark.option_reader import shortened
from jetspark.spark.stream.range_reader import RETRIES_MAX, with_retries
from jetspark.spark.stream.sink.plan import WriteRefused, through_outages
from jetspark.spark.stream.sink.rows import RowRefused
from jetspark.spark.stream.view import lend_for_planning, no_bucket
from jetspark.spark.writers import Commits

_log = logging.getLogger(__name__)

OBJECT_SINK_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "path": ("string",),
    "content": ("binary", "string"),
}


@dataclass
class ObjectCommit(WriterCommitMessage):
    """A task's report to the driver."""

    stored: int
    unchanged: int


def check_object_sink_schema(schema: StructType) -> None:
    """Raise ``InvalidSchema`` unless the columns are ``path`` and ``content``."""
    problems: list[str] = []
    seen: set[str] = set()
    for field in schema.fields:
        name, kind = field.name.lower(), field.dataType.simpleString()
        if name in seen:
            problems.append(f"column {field.name!r} is duplicated")
        elif name not in OBJECT_SINK_COLUMNS:
            problems.append(
                f"column {field.name!r} does not exist for objects (expected path, content): "
                "drop it"
            )
        elif kind not in OBJECT_SINK_COLUMNS[name]:
            wanted = " or ".join(OBJECT_SINK_COLUMNS[name])
            problems.append(f"column {field.name!r} must be {wanted}, not {kind}")
        seen.add(name)
    problems += [f"column {name!r} is missing" for name in OBJECT_SINK_COLUMNS if name not in seen]
    if problems:
        raise InvalidSchema(f"columns written to format {OBJECT_FORMAT!r}: {'; '.join(problems)}")


def plan_object_write(options: ObjectOptions, *, overwrite: bool, streaming: bool) -> None:
    """Look up the store; raises ``WriteRefused`` or ``PlanningFailed``."""
    if overwrite:
        raise WriteRefused(
            f"format {OBJECT_FORMAT!r}: an object store cannot be overwritten as a whole: rows "
            "of mode append replace objects with the same path"
        )
    if through_outages(lambda: _is_sealed(options), RETRIES_MAX if streaming else 0):
        raise WriteRefused(f"format {OBJECT_FORMAT!r}: object store {options.bucket!r} is sealed")


def _is_sealed(options: ObjectOptions) -> bool:
    with lend_for_planning(
        options.connection,
        doing=f"format {OBJECT_FORMAT!r} cannot write to object store {options.bucket!r}",
        missing=no_bucket(OBJECT_FORMAT, "object store", options.bucket),
    ) as client:
        store = jetstream_of(client, options.connection).object_store(options.bucket)
        return store.status().stream_info.config.sealed


class ObjectRowWriter:
    """Writes rows to an object store. Pickled to the tasks."""

    def __init__(self, options: ObjectOptions, schema: StructType) -> None:
        self._options = options
        self._at = {name.lower(): at for at, name in enumerate(schema.fieldNames())}

    @property
    def target(self) -> str:
        """The target of the write, for messages."""
        return f"object store {self._options.bucket!r}"

    def write(self, batches: Iterator[pa.RecordBatch]) -> ObjectCommit:
        """Store the rows of one task. Runs in a worker."""
        stored = unchanged = 0
        for batch in batches:
            content = batch.column(self._at["content"]).cast(pa.binary())
            for path, data in zip(
                batch.column(self._at["path"]).to_pylist(), content.to_pylist(), strict=True
            ):
                if not path or data is None:
                    raise RowRefused(
                        "a row has no path or no content: an object requires both, so filter such "
                        "rows out"
                    )
                if self._put(path, data):
                    stored += 1
                else:
                    unchanged += 1
        return ObjectCommit(stored, unchanged)

    def commit(self, messages: Commits) -> None:
        """Every task has written: nothing else to do."""
        done = sum(message is not None for message in messages)
        _log.info("%d tasks stored their objects in %s", done, self.target)

    def _put(self, path: str, data: bytes) -> bool:
        """Store an object unless it already exists with this content, from an earlier run."""
        digest = Digest()
        digest.update(data)

        def attempt(client: sync.Client) -> bool:
            jetstream = jetstream_of(client, self._options.connection)
            store = jetstream.object_store(self._options.bucket)
            try:
                info = store.info(path)
            except ObjectNotFound:
                pass
            else:
                if info.size == len(data) and digest.fits(info.digest):
                    return False
            store.put(path, data)
            return True

        try:
            return with_retries(self._options.connection, attempt)
        except Error as error:
            # Errors of the server name the subject of a chunk.
            error.add_note(
                f"object {shortened(path)}, {len(data)} bytes, was not stored in {self.target}"
            )
            raise
