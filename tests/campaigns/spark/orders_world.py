"""The streams, buckets and stores that sequences work on, and what a read of them must return.

What is stored is read back message by message with the client's get requests, which share no code
with the scans of the Spark formats. From that record the rows of a read follow: which messages its
options choose now it is planned, and which of them still exist when it runs.
"""

import contextlib
import fnmatch
import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
from tests.campaigns.spark.orders_steps import Load

from jetspark import KeyValueConfig, ObjectStoreConfig, StreamConfig, sync
from jetspark.errors import BucketNotFound, Error, MessageNotFound, StreamNotFound
from jetspark.headers.block import decode_headers
from jetspark.subjects.match import overlaps
from jetspark.units import format_rfc3339

STREAMS: Final = ("ORDA", "ORDB")
TARGET: Final = "ORDT"
# The second stream of rows that are routed by a column, and one that publishes at certain times.
OTHER: Final = "ORDU"
TIMED: Final = "ORDS"
# Written by streaming merges, and read by nothing else.
MERGED: Final = "ordmerged"
BUCKETS: Final = {"ordlast": 1, "ordpast": 5}
STORE: Final = "ordfiles"
KEYS: Final = ("a", "b", "c.x", "c.y", "d.x.1", "d.y.2", "e")
PATHS: Final = ("one.txt", "two.txt", "dir/three.bin", "dir/four.bin", "five")
HEADERS: Final = ("A", "B", "Origin")

Row = dict[str, Any]


class Message(NamedTuple):
    """A message as the server stores it."""

    seq: int
    subject: str
    data: bytes
    block: bytes
    time_ns: int


class ObjectFacts(NamedTuple):
    """An object as the store shows it."""

    path: str
    content: bytes
    mtime_ns: int


@dataclass
class Log:
    """Everything that was ever stored in a stream, and what is left of it."""

    messages: dict[int, Message] = field(default_factory=dict)
    stored: set[int] = field(default_factory=set)
    first: int = 1
    last: int = 0
    generation: int = 0
    changes: int = 0

    def left(self) -> list[Message]:
        """The messages that are stored now."""
        return [self.messages[seq] for seq in sorted(self.stored)]


class Refused(Exception):
    """The read must be refused; the text says why."""


@dataclass(frozen=True)
class Planned:
    """What a read has fixed when it was planned."""

    generation: int
    changes: int
    first: int
    rows: tuple[Any, ...]


@dataclass(frozen=True)
class Due:
    """What a read must return now."""

    rows: list[Row]
    may_refuse: bool = False
    """Something it was planned for no longer exists, so an error is right as well."""
    must_refuse: bool = False
    """Rows it was planned for no longer exist: only an error is right."""


class World:
    """The servers' side of a sequence."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = sync.connect(url)
        self._js = self._client.jetstream()
        self.logs: dict[str, Log] = {}
        self.objects: dict[str, ObjectFacts] = {}
        self.object_changes = 0

    def reset(self) -> None:
        """Make everything again, empty."""
        for name in (*STREAMS, TARGET, OTHER):
            self._create_stream(name)
            self.logs[name] = Log()
        self._create_stream(TIMED)
        with contextlib.suppress(BucketNotFound, StreamNotFound):
            self._js.delete_key_value(MERGED)
        self._js.create_key_value(KeyValueConfig(bucket=MERGED))
        for bucket, history in BUCKETS.items():
            with contextlib.suppress(BucketNotFound, StreamNotFound):
                self._js.delete_key_value(bucket)
            self._js.create_key_value(KeyValueConfig(bucket=bucket, history=history))
            self.logs[bucket] = Log()
        with contextlib.suppress(BucketNotFound, StreamNotFound):
            self._js.delete_object_store(STORE)
        self._js.create_object_store(ObjectStoreConfig(bucket=STORE))
        self.objects = {}

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def publish(self, name: str, seed: int, count: int) -> None:
        """Store messages made from a seed."""
        sent = make_messages(name, seed, count)
        for subject, data, headers in sent:
            self._js.publish(subject, data, headers=headers)
        found = self.absorb(name)
        assert [(one.subject, one.data) for one in found] == [one[:2] for one in sent]

    def delete(self, name: str, sequences: Iterable[int]) -> None:
        """Delete single messages, never the first or the last one."""
        log = self.logs[name]
        for seq in sequences:
            if seq in log.stored and log.first < seq < log.last:
                self._js.stream(name).delete_msg(seq)
                log.stored.discard(seq)
                log.changes += 1

    def purge(self, name: str, below: int) -> None:
        """Remove everything below a sequence."""
        log = self.logs[name]
        below = min(below, log.last)
        if below > log.first:
            self._js.stream(name).purge(seq=below)
            log.stored = {seq for seq in log.stored if seq >= below}
            log.first = self._js.stream(name).info().state.first_seq
            log.changes += 1

    def recreate(self, name: str, seed: int, count: int) -> None:
        """Delete a stream, make it again and fill it."""
        self._create_stream(name)
        old = self.logs[name]
        self.logs[name] = Log(generation=old.generation + 1, changes=old.changes + 1)
        self.publish(name, seed, count)

    def change_keys(self, bucket: str, seed: int, count: int) -> None:
        """Set, delete and purge keys."""
        dice = random.Random(seed)
        handle = self._js.key_value(bucket)
        for number in range(count):
            key = dice.choice(KEYS)
            what = dice.random()
            if what < 0.75:
                handle.put(key, b"" if what < 0.05 else b"v%d.%d" % (seed % 97, number))
            elif what < 0.9:
                handle.delete(key)
            else:
                handle.purge(key)
        self.absorb(bucket)

    def change_objects(self, seed: int, count: int) -> None:
        """Store, replace and delete objects."""
        dice = random.Random(seed)
        store = self._js.object_store(STORE)
        for number in range(count):
            path = dice.choice(PATHS)
            if path in self.objects and dice.random() < 0.25:
                store.delete(path)
            else:
                store.put(path, (b"%d." % number) * dice.choice((0, 1, 40)))
            self.absorb_objects()

    def absorb(self, name: str) -> list[Message]:
        """Read what was stored since the last look, and return it."""
        log = self.logs[name]
        stream = self._js.stream(f"KV_{name}" if name in BUCKETS else name)
        state = stream.info().state
        found: list[Message] = []
        for seq in range(log.last + 1, state.last_seq + 1):
            try:
                got = stream.get_msg(seq=seq)
            except MessageNotFound:
                continue
            found.append(Message(seq, got.subject, got.data, got.header_block, got.time_ns))
        for one in found:
            log.messages[one.seq] = one
            log.stored.add(one.seq)
        log.last = state.last_seq
        if name in BUCKETS:
            for seq in sorted(log.stored - {one.seq for one in found}):
                try:
                    stream.get_msg(seq=seq)
                except MessageNotFound:
                    log.stored.discard(seq)
        if found:
            log.changes += 1
        log.first = state.first_seq
        return found

    def values(self, bucket: str) -> dict[str, Message]:
        """Return the newest message of each key that has a value."""
        latest: dict[str, Message] = {}
        for seq in sorted(self.logs[bucket].messages):
            message = self.logs[bucket].messages[seq]
            latest[key_of(message)] = message
        return {key: one for key, one in latest.items() if _operation(one) == "PUT"}

    def contents(self, bucket: str) -> dict[str, bytes]:
        """Read all values of a bucket, key by key."""
        handle = self._js.key_value(bucket)
        return {key: handle.get(key).value for key in handle.keys()}  # noqa: SIM118

    def subscribe(self, subject: str) -> "sync.Subscription":
        """Subscribe to a subject."""
        return self._client.subscribe(subject)

    def received(self, subscription: "sync.Subscription") -> list[bytes]:
        """Return what a subscription has got, and end it."""
        self._client.flush()
        found: list[bytes] = []
        with contextlib.suppress(Error):
            while True:
                found.append(subscription.next(timeout=0.3).data)
        subscription.unsubscribe()
        return found

    def wait_for(self, name: str, subject: str, count: int, seconds: float) -> "Counter[Any]":
        """Return subjects and payloads stored below a subject, once they are enough."""
        deadline = time.monotonic() + seconds
        while True:
            found: Counter[Any] = Counter()
            for chunk in self._js.stream(name).scan(filters=(f"{subject}.>",)):
                found.update(zip(chunk.subjects, chunk.data, strict=True))
            if found.total() >= count or time.monotonic() > deadline:
                return found
            time.sleep(0.2)

    def shown(self, source: str, consumer: str) -> tuple[int, int]:
        """Return the position of a consumer, and how many messages it has left."""
        info = self._js.stream(source).consumer(consumer).info()
        return info.ack_floor.stream_seq, info.num_pending

    def absorb_objects(self) -> None:
        """Read the objects as they are."""
        store = self._js.object_store(STORE)
        self.objects = {
            info.name: ObjectFacts(info.name, store.get(info.name), int(info.time_ns))
            for info in store.list()
        }
        self.object_changes += 1

    def resolve(self, text: str) -> str:
        """Put in the times of messages."""

        def time_of(found: "re.Match[str]") -> str:
            at = self.time_ns(found[2], int(found[3]))
            if found[1] == "micros":
                return f"timestamp_micros({at // 1000})"
            return str(format_rfc3339(at))

        return re.sub(r"@(time|micros)\((\w+),(\d+)\)", time_of, text)

    def time_ns(self, name: str, seq: int) -> int:
        """The time of a message, of the next one if it was deleted, or one after the last."""
        log = self.logs[name]
        for one in sorted(log.messages):
            if one >= seq:
                return log.messages[one].time_ns
        newest = max((one.time_ns for one in log.messages.values()), default=10**18)
        return newest + 1_000_000

    # What a read returns.

    def plan(self, load: Load) -> Planned:
        """Fix what a read that is planned now returns; raises ``Refused`` when it must fail."""
        match load.format:
            case "jetstream" if "," in load.source:
                parts = tuple(self._plan_stream(one) for one in loads_of(load))
                return Planned(0, 0, 0, parts)
            case "jetstream":
                return self._plan_stream(load)
            case "nats_kv":
                return self._plan_bucket(load)
            case _:
                glob = load.options.get("pathGlobFilter", "*")
                kept = [
                    one for one in self.objects.values() if fnmatch.fnmatchcase(one.path, glob)
                ]
                return Planned(0, self.object_changes, 0, tuple(kept))

    def due(self, load: Load, planned: Planned) -> Due:
        """Return what a read that was planned before must return now."""
        match load.format:
            case "jetstream" if "," in load.source:
                pairs = zip(loads_of(load), planned.rows, strict=True)
                dues = [self._due_stream(one, part) for one, part in pairs]
                return Due(
                    [row for due in dues for row in due.rows],
                    may_refuse=any(due.may_refuse for due in dues),
                    must_refuse=any(due.must_refuse for due in dues),
                )
            case "jetstream":
                return self._due_stream(load, planned)
            case "nats_kv":
                log = self.logs[load.source]
                rows = [_kv_row(load, message) for message in planned.rows]
                gone = any(message.seq not in log.stored for message in planned.rows)
                # With one value per key a newer value of any key may hide what existed before.
                moved = BUCKETS[load.source] == 1 and planned.changes != log.changes
                return Due(rows, may_refuse=gone or moved)
            case _:
                return self._due_objects(load, planned)

    def _plan_stream(self, load: Load) -> Planned:
        log, options = self.logs[load.source], load.options
        earliest, beyond = max(log.first, 1), log.last + 1
        start, end = _number(options, "startingOffsets"), _number(options, "endingOffsets")
        if options.get("failOnDataLoss") != "false" and not is_open(load):
            if start is not None and start < earliest and start != end:
                raise Refused(f"startingOffsets {start} is below {earliest}")
            for seq in (start, end):
                if seq is not None and seq > beyond:
                    raise Refused(f"offset {seq} is above {beyond}")
        if "startingTimestamp" in options:
            start = self._first_since(load.source, options["startingTimestamp"])
        if "endingTimestamp" in options:
            end = self._first_since(load.source, options["endingTimestamp"])
        first = earliest if start is None else max(start, earliest)
        end = beyond if end is None else end
        rows = self._chosen(load, first, end)
        return Planned(log.generation, log.changes, first, tuple(rows))

    def _chosen(self, load: Load, first: int, end: int) -> list[Message]:
        """The messages of a range that are stored now and match the filter."""
        filters = load.options.get("subject", ">").split(",")
        return [
            one
            for one in self.logs[load.source].left()
            if first <= one.seq < end and any(_matches(one.subject, f) for f in filters)
        ]

    def _due_stream(self, load: Load, planned: Planned) -> Due:
        log = self.logs[load.source]
        if is_open(load):
            numbered = {"startingOffsets", "startingTimestamp"} & set(load.options)
            found = self._chosen(load, planned.first if numbered else 1, log.last + 1)
            return Due([_stream_row(load, message) for message in found])
        fails = load.options.get("failOnDataLoss") != "false"
        if planned.generation != log.generation:
            return Due([], may_refuse=True, must_refuse=fails and bool(planned.rows))
        kept = [message for message in planned.rows if message.seq in log.stored]
        rows = [_stream_row(load, message) for message in kept]
        head = log.first
        lost = any(m.seq < head and m.seq not in log.stored for m in planned.rows)
        return Due(rows, may_refuse=fails and head > planned.first, must_refuse=fails and lost)

    def _plan_bucket(self, load: Load) -> Planned:
        log, options = self.logs[load.source], load.options
        revision = _number(options, "versionAsOf")
        if "timestampAsOf" in options:
            # Inclusive.
            at = self._resolved_ns(load.source, options["timestampAsOf"])
            revision = max((m.seq for m in log.messages.values() if m.time_ns <= at), default=0)
        revision = log.last if revision is None else revision
        patterns = [f"$KV.{load.source}.{key}" for key in options.get("keys", ">").split(",")]
        latest: dict[str, Message] = {}
        for seq in sorted(log.messages):
            message = log.messages[seq]
            if seq <= revision and any(_matches(message.subject, f) for f in patterns):
                latest[message.subject] = message
        deleted = options.get("includeDeleted") == "true"
        rows = [m for m in latest.values() if deleted or _operation(m) == "PUT"]
        if any(m.seq not in log.stored for m in latest.values()):
            raise Refused("a value of that moment is gone")
        return Planned(0, log.changes, revision, tuple(rows))

    def _due_objects(self, load: Load, planned: Planned) -> Due:
        """With the content the facts are those of the object as it is read, else as listed."""
        rows: list[Row] = []
        content = not load.columns or "content" in load.columns
        gone = False
        for was in planned.rows:
            now = self.objects.get(was.path) if content else was
            if now is None:
                gone = True
                continue
            rows.append(_pick(load, _object_row(now)))
        return Due(rows, may_refuse=gone, must_refuse=gone)

    def flow_rows(self, load: Load, after: int) -> tuple[list[Message], int]:
        """Messages that a streaming read takes next, and where it stands then."""
        log = self.logs[load.source]
        prefix = f"$KV.{load.source}." if load.format == "nats_kv" else ""
        option = "keys" if prefix else "subject"
        filters = [prefix + one for one in load.options.get(option, ">").split(",")]
        rows = [
            one
            for one in log.left()
            if one.seq > after and any(_matches(one.subject, f) for f in filters)
        ]
        return rows, log.last

    def flow_start(self, load: Load) -> int:
        """The sequence after which a streaming read begins."""
        log, options = self.logs[load.source], load.options
        if "startingTimestamp" in options:
            return self._first_since(load.source, options["startingTimestamp"]) - 1
        text = options.get("startingOffsets", "latest")
        if text == "latest":
            return log.last
        return 0 if text == "earliest" else int(text) - 1

    def row(self, load: Load, message: Message) -> Row:
        """Return a message as a row of a read."""
        if load.format != "nats_kv":
            return _stream_row(load, message)
        if load.options.get("includePrevious") != "true":
            return _kv_row(load, message)
        # The revision before it, if the bucket still has that one.
        log = self.logs[load.source]
        older = [m for m in log.messages.values() if m.subject == message.subject]
        before = max((m for m in older if m.seq < message.seq), default=None)
        known = before if before is not None and before.seq in log.stored else None
        return _kv_row(load, message) | {
            "previous_value": known.data if known and _operation(known) == "PUT" else None,
            "previous_revision": known.seq if known else None,
        }

    def _first_since(self, name: str, text: str) -> int:
        at = self._resolved_ns(name, text)
        log = self.logs[name]
        return min((m.seq for m in log.left() if m.time_ns >= at), default=log.last + 1)

    def _resolved_ns(self, name: str, text: str) -> int:
        found = re.fullmatch(r"@time\((\w+),(\d+)\)", text)
        assert found is not None, text
        assert found[1] == name
        return self.time_ns(name, int(found[2]))

    def _create_stream(self, name: str) -> None:
        with contextlib.suppress(StreamNotFound):
            self._js.delete_stream(name)
        self._js.create_stream(
            StreamConfig(
                name=name,
                subjects=(f"{name}.>",),
                allow_direct=True,
                allow_batched=True,
                allow_msg_ttl=name in {TARGET, OTHER},
                allow_msg_schedules=name == TIMED,
            )
        )


def key_of(message: Message) -> str:
    """Return the key of a message of a bucket."""
    return message.subject.split(".", 2)[2]


def make_messages(
    name: str, seed: int, count: int
) -> list[tuple[str, bytes, list[tuple[str, str]]]]:
    """Subjects, payloads and headers from a seed: few subjects, empty and equal payloads."""
    dice = random.Random(seed)
    made = []
    for number in range(count):
        subject = f"{name}.{dice.randrange(3)}"
        if dice.random() < 0.3:
            subject += f".{dice.choice('xyz')}"
        data = dice.choice((b"", b"same", b"%d" % number, b"\xff\x00%d" % (number % 5)))
        headers = [
            (dice.choice(HEADERS), dice.choice(("1", "two", "")))
            for _ in range(dice.choice((0, 0, 1, 3)))
        ]
        made.append((subject, data, headers))
    return made


def loads_of(load: Load) -> list[Load]:
    """Return the read of each stream of a read of several; offsets are JSON by stream."""
    made: list[Load] = []
    for name in load.source.split(","):
        options = {
            option.replace("OffsetsByTimestamp", "Timestamp"): (
                str(json.loads(text)[name]) if text.startswith("{") else text
            )
            for option, text in load.options.items()
        }
        made.append(msgspec.structs.replace(load, source=name, options=options))
    return made


def is_open(load: Load) -> bool:
    """Whether a read has no end of its own: it returns what there is whenever it runs."""
    return load.options.get("endingOffsets") == "open"


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name, "")
    return int(text) if text.isdecimal() else None


def _matches(subject: str, pattern: str) -> bool:
    return bool(overlaps(subject.encode(), pattern.encode()))


def _operation(message: Message) -> str:
    for name, value in _pairs(message.block):
        if name == "KV-Operation":
            return "PURGE" if value == "PURGE" else "DEL"
    return "PUT"


def _pairs(block: bytes) -> Sequence[tuple[str, str]]:
    return list(decode_headers(block).items()) if block else []


def _header_value(load: Load, message: Message) -> Any:
    if load.options.get("includeHeaders") == "raw":
        return message.block
    grouped: dict[str, list[str]] = {}
    for name, value in _pairs(message.block):
        grouped.setdefault(name, []).append(value)
    return list(grouped.items())


def _stream_row(load: Load, message: Message) -> Row:
    return _pick(
        load,
        {
            "stream": load.source,
            "subject": message.subject,
            "seq": message.seq,
            "timestamp": message.time_ns // 1000,
            "data": message.data,
            "headers": _header_value(load, message),
            "timestamp_ns": message.time_ns,
            "size": len(message.data),
        },
    )


def _kv_row(load: Load, message: Message) -> Row:
    operation = _operation(message)
    return _pick(
        load,
        {
            "bucket": load.source,
            "key": message.subject.split(".", 2)[2],
            "value": message.data if operation == "PUT" else None,
            "revision": message.seq,
            "operation": operation,
            "timestamp": message.time_ns // 1000,
            "headers": _header_value(load, message),
        },
    )


def _object_row(facts: ObjectFacts) -> Row:
    return {
        "path": facts.path,
        "modificationTime": facts.mtime_ns // 1000,
        "length": len(facts.content),
        "content": facts.content,
    }


DEFAULT_COLUMNS: Final = {
    "jetstream": ("stream", "subject", "seq", "timestamp", "data"),
    "nats_kv": ("bucket", "key", "value", "revision", "operation", "timestamp"),
    "nats_object": ("path", "modificationTime", "length", "content"),
}


def columns_of(load: Load) -> tuple[str, ...]:
    """The columns of a read."""
    if load.columns:
        return load.columns
    headers = ("headers",) if "includeHeaders" in load.options else ()
    previous = ("previous_value", "previous_revision")
    return (
        *DEFAULT_COLUMNS[load.format],
        *(previous if load.options.get("includePrevious") == "true" else ()),
        *headers,
    )


def _pick(load: Load, row: Row) -> Row:
    return {name: row[name] for name in columns_of(load) if name in row}
