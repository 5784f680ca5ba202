"""The steps of a sequence: what is done, one after the other, with the same objects of Spark.

A sequence is a list of these. It is printed one step per line as JSON and played again from that
text, so it holds names and numbers only. Times of messages are not known before they are stored:
``@time(STREAM,17)`` in an option, and ``@micros(STREAM,17)`` in a condition, stand for the time of
message 17.
"""

from collections.abc import Sequence

import msgspec


class Step(msgspec.Struct, frozen=True, kw_only=True, tag_field="step", omit_defaults=True):
    """One step; a step that names something that does not exist is skipped."""


class Publish(Step, frozen=True, kw_only=True, tag=True):
    """New messages for a stream, made from a seed."""

    stream: str
    seed: int
    count: int


class Delete(Step, frozen=True, kw_only=True, tag=True):
    """Single messages are deleted, which leaves holes; the first message stays."""

    stream: str
    sequences: tuple[int, ...]


class Purge(Step, frozen=True, kw_only=True, tag=True):
    """Everything below a sequence is removed."""

    stream: str
    below: int


class Recreate(Step, frozen=True, kw_only=True, tag=True):
    """The stream is deleted, created again and filled with other messages."""

    stream: str
    seed: int
    count: int


class ChangeKeys(Step, frozen=True, kw_only=True, tag=True):
    """Keys of a bucket are set, deleted and purged, by a seed."""

    bucket: str
    seed: int
    count: int


class ChangeObjects(Step, frozen=True, kw_only=True, tag=True):
    """Objects of a store are stored, replaced and deleted, by a seed."""

    store: str
    seed: int
    count: int


class Load(Step, frozen=True, kw_only=True, tag=True):
    """A DataFrame of one of the formats; ``sql``: CREATE TEMPORARY VIEW ... USING.

    ``source`` may name several streams, separated by commas.
    """

    frame: str
    format: str
    source: str
    options: dict[str, str] = {}
    columns: tuple[str, ...] = ()
    """A schema with these columns; none: the default one."""
    sql: bool = False
    pattern: bool = False
    """Whether several streams are named by a pattern, not one by one."""


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A transformation of one or two DataFrames; ``orders_player.transform`` runs it."""

    kind: str
    text: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    count: int = 0


class Derive(Step, frozen=True, kw_only=True, tag=True):
    """A DataFrame from others: by the DataFrame API, by SQL, or by SQL over named views."""

    frame: str
    inputs: tuple[str, ...]
    operation: Operation
    style: str = "api"


class Act(Step, frozen=True, kw_only=True, tag=True):
    """Actions on DataFrames; several run at the same time in threads."""

    frames: tuple[str, ...]
    actions: tuple[str, ...]


class Persist(Step, frozen=True, kw_only=True, tag=True):
    """``persist`` or ``unpersist``."""

    frame: str
    on: bool = True


class Checkpoint(Step, frozen=True, kw_only=True, tag=True):
    """``localCheckpoint`` or ``checkpoint``: a new DataFrame with the current rows."""

    frame: str
    origin: str
    reliable: bool = False


class Refresh(Step, frozen=True, kw_only=True, tag=True):
    """``jetspark.spark.refresh``: the reads of a DataFrame are planned again."""

    frame: str
    origin: str


class Write(Step, frozen=True, kw_only=True, tag=True):
    """A projection of a DataFrame is written to a stream, a bucket or a store."""

    frame: str
    format: str
    target: str
    columns: tuple[str, ...]
    options: dict[str, str] = {}


class Flow(Step, frozen=True, kw_only=True, tag=True):
    """A streaming query that reads what is available and ends; ``Resume`` runs it again."""

    flow: str
    format: str
    source: str
    options: dict[str, str]
    operations: tuple[Operation, ...] = ()
    """Filters and projections."""
    ending: str = "append"
    """append, distinct, count, window, static, twice."""
    keys: tuple[str, ...] = ()
    static: str = ""
    sink: str = "parquet"
    """parquet, foreach, memory, jetstream, routed, once, merge."""
    pattern: bool = False
    watched: bool = False
    """Whether its progress is published and added up."""


class Resume(Step, frozen=True, kw_only=True, tag=True):
    """A flow continues from its checkpoint, perhaps with other options that keep its rows."""

    flow: str
    options: dict[str, str] = {}


class LookUp(Step, frozen=True, kw_only=True, tag=True):
    """``kv_lookup`` of an expression over the rows of a DataFrame, compared at once."""

    frame: str
    bucket: str
    key: str
    staleness: float = 0.0


class Expect(Step, frozen=True, kw_only=True, tag=True):
    """``expect`` over a DataFrame: all of its parts, compared at once."""

    frame: str
    rules: dict[str, str]


class Merge(Step, frozen=True, kw_only=True, tag=True):
    """``kv_merge`` of rows made from a seed, compared with a model."""

    bucket: str
    seed: int
    matched: str = "update"
    not_matched: str = "insert"


class Tables(Step, frozen=True, kw_only=True, tag=True):
    """``register_tables``: every view has what its stream or bucket has now."""

    prefix: str


class Route(Step, frozen=True, kw_only=True, tag=True):
    """Rows of a DataFrame to several streams by a column, perhaps with a time to live; twice."""

    frame: str
    number: str
    ttl: bool = False
    app: str = ""


class Schedule(Step, frozen=True, kw_only=True, tag=True):
    """Rows with a schedule: each is published once, when it is due."""

    flow: str
    count: int


AnyStep = (
    Publish
    | Delete
    | Purge
    | Recreate
    | ChangeKeys
    | ChangeObjects
    | Load
    | Derive
    | Act
    | Persist
    | Checkpoint
    | Refresh
    | Write
    | Flow
    | Resume
    | LookUp
    | Expect
    | Merge
    | Tables
    | Route
    | Schedule
)


def print_steps(steps: Sequence[AnyStep]) -> str:
    """Return one line of JSON for each step."""
    return "\n".join(msgspec.json.encode(step).decode() for step in steps)


def read_steps(text: str) -> list[AnyStep]:
    """Read what ``print_steps`` returned."""
    decoder = msgspec.json.Decoder(AnyStep)
    return [decoder.decode(line) for line in text.splitlines() if line.strip()]


def names_of(step: AnyStep) -> set[str]:
    """Return the DataFrames, queries, streams, buckets and stores that a step names."""
    found: set[str] = set()
    for name in ("stream", "bucket", "store", "frame", "source", "origin", "flow", "static"):
        found.update(getattr(step, name, "").split(","))
    for name in ("frames", "inputs"):
        found.update(getattr(step, name, ()))
    if isinstance(step, Write):
        found.add(step.target)
    return found - {""}
