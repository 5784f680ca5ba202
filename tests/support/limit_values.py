"""Requests with extreme values in every field, as a table made from the models of the requests.

Whatever a model of ``jetspark.api`` has as a field is tried here without being listed, so a field
that is added later is tried as well. Values of a wrong kind, odd texts and numbers that no one
takes have turns from field to field, and so have odd bodies from request to request; with
JETSPARK_WHOLE_TABLE=1 in the environment (``make torture``) every one has all of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from msgspec import inspect

from jetspark.api import consumer as consumers
from jetspark.api import message as messages
from jetspark.api import stream as streams
from jetspark.api.base import ApiStruct

_Value = TypeVar("_Value")

LARGE: Final = (
    "9223372036854775807",
    "7838317434543970000",  # 1.7 * 2**62: fits alone, and not when the time of day is added
    "4611686018427387904",
)
INTEGERS: Final = (
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-1",
    "-9223372036854775808",
    "-9223372036854775809",
    "9" * 5000,
    "1e400",
    "null",
)
TIMES: Final = (
    '"2262-04-11T23:47:16.854775807Z"',
    '"2263-01-01T00:00:00Z"',
    '"9999-12-31T23:59:59.999999999Z"',
    '"1677-01-01T00:00:00Z"',
    '"1970-01-01T00:00:00Z"',
    '"0001-01-01T00:00:00Z"',
    '"0000-00-00T00:00:00Z"',
    '"2026-01-01T00:00:00.' + "9" * 5000 + 'Z"',
    "null",
)
TEXTS: Final = (
    "9" * 5000,
    "\ufffd",
    "a\\u0000b",
    "\\ud800",
    "x" * 300,
    "",
    " ",
    "a b",
    ">",
    "*.*",
)
DEEP: Final = "[" * 10_000 + "]" * 10_000
DEEP_OBJECT: Final = '{"a":' * 10_000 + "1" + "}" * 10_000
# Of every kind that a field may not be; the reader of a field passes over its own.
WRONG: Final = ("true", '"1"', "1.5", "NaN", "-Infinity", "[]", "{}", "[null]", "1")
WHOLE: Final = bool(os.environ.get("JETSPARK_WHOLE_TABLE"))
LONG_TEXT: Final = '"' + "y" * 1_000_000 + '"'
BROKEN_UTF8: Final = b"\xff\xfe\xc3("
WORDS: Final = (
    b"9223372036854775807",
    b"9223372036854775808",
    b"18446744073709551615",
    b"18446744073709551616",
    b"-1",
    b"-9223372036854775809",
    b"9" * 5000,
    b"9223372036s",
    b"2562047h47m16.854775807s",
    b"999999999h",
    b"@at 2263-01-01T00:00:00Z",
    b"@at 9999-12-31T23:59:59Z",
    b"@at 1600-01-01T00:00:00Z",
    b"@every 9223372036s",
    b"@every " + b"9" * 5000 + b"s",
    b"9" * 5000 + b" * * * * *",
    BROKEN_UTF8,
    b"null",
)
# Bodies that are no request of any kind.
ODD_BODIES: Final[tuple[tuple[str, bytes], ...]] = (
    ("deep array", DEEP.encode()),
    ("deep object", DEEP_OBJECT.encode()),
    ("unclosed", b'{"a":' * 100_000),
    ("broken UTF-8", b'{"' + BROKEN_UTF8 + b'":"' + BROKEN_UTF8 + b'"}'),
    ("broken UTF-8 alone", BROKEN_UTF8),
    ("a number", b"9" * 5000),
    ("null", b"null"),
    ("a long text", b'{"x":' + LONG_TEXT.encode() + b"}"),
    ("a long key", b"{" + LONG_TEXT.encode() + b":1}"),
    ("many keys", b"{" + b",".join(b'"k%d":0' % n for n in range(20_000)) + b"}"),
    ("many of one key", b"{" + b",".join([b'"seq":0'] * 20_000) + b"}"),
    ("zero bytes", b"\0" * 100),
    ("a second value", b"{}{}"),
    ("a byte order mark", b"\xef\xbb\xbf{}"),
    ("UTF-16", "{}".encode("utf-16")),
)
PUBLISH_HEADERS: Final = (
    b"Nats-Msg-Id",
    b"Nats-Expected-Stream",
    b"Nats-Expected-Last-Sequence",
    b"Nats-Expected-Last-Subject-Sequence",
    b"Nats-Expected-Last-Subject-Sequence-Subject",
    b"Nats-Expected-Last-Msg-Id",
    b"Nats-Rollup",
    b"Nats-TTL",
    b"Nats-Incr",
    b"Nats-Schedule",
    b"Nats-Schedule-TTL",
    b"Nats-Schedule-Time-Zone",
    b"Nats-Schedule-Next",
    b"Nats-Scheduler",
    b"Nats-Required-Api-Level",
    b"Nats-Batch-Id",
    b"Nats-Batch-Sequence",
    b"Nats-Batch-Commit",
    b"Nats-Stream-Source",
)


@dataclass(frozen=True)
class Case:
    """One request. ``name`` says what is extreme in it."""

    name: str
    subject: bytes
    body: bytes = b""
    headers: bytes = b""
    reply: bytes = b""  # another reply subject than the client's own, below its inbox


def fields(model: type) -> Iterator[tuple[str, str]]:
    """Every field of a model with each extreme value of its kind, as JSON text."""
    info = inspect.type_info(model)
    assert isinstance(info, inspect.StructType)
    for turn, field in enumerate(info.fields):
        name = field.encode_name
        for value in values(field.type, turn):
            yield name, value
        for wrong in some(WRONG, turn, 2):
            yield name, wrong
        # Two of them: all are looked at, and the last one counts.
        doubled = (
            f'null,"{name}":{next(values(field.type, turn), "null")}',
            f'{{}},"{name}":null',
        )
        for value in some(doubled, turn, 1):
            yield name, value


def few(model: type, every: int) -> list[tuple[str, str]]:
    """Some fields and values of a model of which another request has all."""
    return [*fields(model)][:: 1 if WHOLE else every]


def some(choices: tuple[_Value, ...], turn: int, count: int) -> tuple[_Value, ...]:
    """A few of the values, others for the next field; all of them if that is wanted."""
    if WHOLE:
        return choices
    start = turn * count
    return tuple(choices[(start + n) % len(choices)] for n in range(count))


def values(held: inspect.Type, turn: int) -> Iterator[str]:
    """The extreme values of a kind of field."""
    if isinstance(held, inspect.UnionType):
        for one in held.types:
            yield from values(one, turn)
    elif isinstance(held, inspect.IntType):
        yield from LARGE
        yield from some(INTEGERS, turn, 2)
    elif isinstance(held, inspect.CustomType):
        yield from some(TIMES, turn, 4)
    elif isinstance(held, inspect.StrType | inspect.EnumType):
        yield from (f'"{text}"' for text in some(TEXTS, turn, 2))
        yield "null"
    elif isinstance(held, inspect.VarTupleType):
        yield "null"
        yield DEEP
        yield from (f"[{value}]" for value in values(held.item_type, turn))
    elif isinstance(held, inspect.StructType):
        yield "null"
        yield DEEP_OBJECT
        for name, value in fields(held.cls):
            yield json.dumps(name).join(("{", f":{value}}}"))
    elif isinstance(held, inspect.DictType):
        yield "null"
        yield DEEP_OBJECT
        yield '{"k":null}'
        yield from (f'{{"k":{value}}}' for value in values(held.value_type, turn))
        yield from (f'{{{value}:"v"}}' for value in values(held.key_type, turn) if value != "null")


def body_of(settled: dict[str, Any], name: str, value: str) -> bytes:
    """A JSON object with some fields as they should be, and one that is extreme."""
    parts = [f"{json.dumps(k)}:{json.dumps(v)}" for k, v in settled.items() if k != name]
    # A lone surrogate stands for bytes that are not UTF-8.
    return (
        ("{" + ",".join([*parts, f'"{name}":{value}']) + "}")
        .encode()
        .replace("\ufffd".encode(), BROKEN_UTF8)
    )


def short(value: str) -> str:
    """What a name shows of a value."""
    return value if len(value) < 48 else f"{value[:16]}...({len(value)})"


def requests(stream: str, consumer: str) -> Iterator[Case]:
    """Every request but those that create something."""
    api = b"$JS.API."
    s, c = stream.encode(), consumer.encode()
    table: list[tuple[bytes, type[ApiStruct], dict[str, Any]]] = [
        (b"STREAM.NAMES", streams.StreamNamesRequest, {}),
        (b"STREAM.LIST", streams.StreamListRequest, {}),
        (b"STREAM.INFO." + s, streams.StreamInfoRequest, {}),
        (b"STREAM.MSG.GET." + s, messages.MsgGetRequest, {}),
        (b"STREAM.MSG.DELETE." + s, messages.MsgDeleteRequest, {}),
        (b"DIRECT.GET." + s, messages.MsgGetRequest, {}),
        (b"DIRECT.GET." + s, messages.MsgGetRequest, {"batch": 2}),
        (b"DIRECT.GET." + s, messages.MsgGetRequest, {"multi_last": [f"{stream}.>"]}),
        (b"CONSUMER.NAMES." + s, consumers.ConsumersRequest, {}),
        (b"CONSUMER.LIST." + s, consumers.ConsumersRequest, {}),
        (b"CONSUMER.MSG.NEXT." + s + b"." + c, consumers.PullRequest, {"no_wait": True}),
        (b"CONSUMER.MSG.NEXT." + s + b"." + c, consumers.PullRequest, {"expires": 50_000_000}),
        (b"CONSUMER.PAUSE." + s + b"." + c, consumers.PauseRequest, {}),
        (b"CONSUMER.UNPIN." + s + b"." + c, consumers.UnpinRequest, {}),
        (b"CONSUMER.RESET." + s + b"." + c, consumers.ResetRequest, {}),
        (b"STREAM.SNAPSHOT." + s, streams.SnapshotRequest, {}),
        (b"STREAM.PURGE." + s, streams.PurgeRequest, {"filter": "nothing"}),
    ]
    for turn, (verb, model, settled) in enumerate(table):
        verb_name = verb.decode()
        for name, value in fields(model):
            yield Case(f"{verb_name} {settled or ''} {name}={short(value)}", api + verb,
                       body_of(settled, name, value))  # fmt: skip
        for what, body in some(ODD_BODIES, turn, 5):
            yield Case(f"{verb_name} {what}", api + verb, body)
        for word in some(WORDS, turn, 6):
            line = b"NATS/1.0\r\nNats-Required-Api-Level: " + word + b"\r\n\r\n"
            yield Case(f"{verb_name} level {word[:24]!r}", api + verb, b"", line)


def own_requests(stream: str, consumer: str) -> Iterator[Case]:
    """Requests that only jetspark answers."""
    subject = f"$JS.API.CONSUMER.EXPLAIN.{stream}.{consumer}".encode()
    for name, value in fields(consumers.ExplainRequest):
        yield Case(f"EXPLAIN {name}={short(value)}", subject, body_of({}, name, value))
    for what, body in ODD_BODIES:
        yield Case(f"EXPLAIN {what}", subject, body)


def changed_streams(prefix: str) -> Iterator[Case]:
    """STREAM.UPDATE, a stream of its own for each value."""
    # Read as in STREAM.CREATE; what an update makes of it is another matter.
    for n, (name, value) in enumerate(few(streams.StreamCreateRequest, 3)):
        stream = f"{prefix}{n}"
        settled = {"name": stream, "subjects": [f"{prefix}.{n}"], "storage": "memory"}
        yield Case(
            f"STREAM.CREATE for {name}={short(value)}",
            b"$JS.API.STREAM.CREATE." + stream.encode(), json.dumps(settled).encode(),
        )  # fmt: skip
        yield Case(
            f"STREAM.UPDATE {name}={short(value)}",
            b"$JS.API.STREAM.UPDATE." + stream.encode(), body_of(settled, name, value),
        )  # fmt: skip
        yield Case(
            f"publish after update of {name}={short(value)}", f"{prefix}.{n}".encode(), b"x",
            b"NATS/1.0\r\nNats-Msg-Id: one\r\n\r\n",
        )  # fmt: skip
        yield Case(
            f"STREAM.DELETE after {name}={short(value)}",
            b"$JS.API.STREAM.DELETE." + stream.encode(),
        )  # fmt: skip


def restores(prefix: str) -> Iterator[Case]:
    """STREAM.RESTORE; the caller ends what has started."""
    # A configuration is read as in STREAM.CREATE, so a few of its values will do.
    chosen = few(streams.StreamConfig, 4)
    n = 0
    for name, value in chosen:
        n += 1
        stream = f"{prefix}{n}"
        settled = {"name": stream, "subjects": [f"{prefix}.{n}"]}
        inner = body_of(settled, name, value)
        yield Case(
            f"STREAM.RESTORE config.{name}={short(value)}",
            b"$JS.API.STREAM.RESTORE." + stream.encode(),
            b'{"config":' + inner + b',"state":{"messages":1}}',
        )
    for name, value in fields(streams.StreamState):
        n += 1
        stream = f"{prefix}{n}"
        config = json.dumps({"name": stream, "subjects": [f"{prefix}.{n}"]}).encode()
        yield Case(
            f"STREAM.RESTORE state.{name}={short(value)}",
            b"$JS.API.STREAM.RESTORE." + stream.encode(),
            b'{"config":' + config + b',"state":' + body_of({}, name, value) + b"}",
        )
    for what, body in ODD_BODIES:
        yield Case(f"STREAM.RESTORE {what}", b"$JS.API.STREAM.RESTORE.none", body)


def new_streams(prefix: str) -> Iterator[Case]:
    """STREAM.CREATE, a stream of its own for each value."""
    for n, (name, value) in enumerate(fields(streams.StreamCreateRequest)):
        stream = f"{prefix}{n}"
        settled = {"name": stream, "subjects": [f"{prefix}.{n}"]}
        if name == "subject_delete_marker_ttl":
            settled["allow_rollup_hdrs"] = True  # type: ignore[assignment]
        yield Case(
            f"STREAM.CREATE {name}={short(value)}",
            b"$JS.API.STREAM.CREATE." + stream.encode(),
            body_of(settled, name, value),
        )
        # One message is what makes ages and windows count.
        yield Case(
            f"publish after {name}={short(value)}", f"{prefix}.{n}".encode(), b"x",
            b"NATS/1.0\r\nNats-Msg-Id: one\r\n\r\n",
        )  # fmt: skip


def durables(stream: str) -> Iterator[Case]:
    """CONSUMER.DURABLE.CREATE and the envelope of both ways to make a consumer."""
    api, s = b"$JS.API.CONSUMER.", stream.encode()
    # Read as in CONSUMER.CREATE.
    for n, (name, value) in enumerate(few(consumers.ConsumerConfig, 3)):
        consumer = f"d{n}"
        config = {"ack_policy": "explicit", "durable_name": consumer, "mem_storage": True}
        yield Case(
            f"CONSUMER.DURABLE.CREATE {name}={short(value)}",
            api + b"DURABLE.CREATE." + s + b"." + consumer.encode(),
            b'{"stream_name":"' + s + b'","config":' + body_of(config, name, value) + b"}",
        )
        yield Case(
            f"CONSUMER.DELETE after {name}={short(value)}",
            api + b"DELETE." + s + b"." + consumer.encode(),
        )
    config = {"ack_policy": "explicit", "durable_name": "e"}
    for name, value in fields(consumers.ConsumerCreateRequest):
        if name != "config":
            settled = {"stream_name": stream, "config": config}
            yield Case(
                f"CONSUMER.CREATE envelope {name}={short(value)}",
                api + b"CREATE." + s + b".e", body_of(settled, name, value),
            )  # fmt: skip
    for what, body in ODD_BODIES:
        yield Case(f"CONSUMER.DURABLE.CREATE {what}", api + b"DURABLE.CREATE." + s + b".e", body)
        yield Case(f"CONSUMER.CREATE {what}", api + b"CREATE." + s + b".e", body)


def new_consumers(stream: str) -> Iterator[Case]:
    """CONSUMER.CREATE, a consumer of its own for each value."""
    shapes: list[dict[str, Any]] = [
        {"ack_policy": "explicit"},
        {"ack_policy": "explicit", "deliver_subject": "nobody.there"},
    ]
    n = 0
    for shape in shapes:
        for name, value in few(consumers.ConsumerConfig, 1 if shape is shapes[0] else 3):
            n += 1
            consumer = f"c{n}"
            config = dict(shape)
            if name != "name":
                config["durable_name"] = consumer
            else:
                config["inactive_threshold"] = 3_600_000_000_000
            if name == "opt_start_seq":
                config["deliver_policy"] = "by_start_sequence"
            if name == "opt_start_time":
                config["deliver_policy"] = "by_start_time"
            if name == "priority_timeout":
                config |= {"priority_groups": ["g"], "priority_policy": "pinned_client"}
            inner = body_of(config, name, value)
            yield Case(
                f"CONSUMER.CREATE {shape.get('deliver_subject', 'pull')} {name}={short(value)}",
                b"$JS.API.CONSUMER.CREATE." + stream.encode() + b"." + consumer.encode(),
                b'{"stream_name":"' + stream.encode() + b'","config":' + inner + b"}",
            )
            if shape is shapes[0]:
                yield Case(
                    f"pull after {name}={short(value)}",
                    b"$JS.API.CONSUMER.MSG.NEXT." + stream.encode() + b"." + consumer.encode(),
                    b'{"batch":1,"no_wait":true}',
                )


def publishes(subject: str) -> Iterator[Case]:
    """Every header of a publish with each extreme word."""
    for name in PUBLISH_HEADERS:
        for word in WORDS:
            extra = b""
            if name in {b"Nats-Schedule", b"Nats-Schedule-TTL", b"Nats-Schedule-Time-Zone"}:
                extra = b"Nats-Schedule-Target: " + subject.encode() + b".fired\r\n"
                if name != b"Nats-Schedule":
                    extra += b"Nats-Schedule: @at 2200-01-01T00:00:00Z\r\n"
            if name in {b"Nats-Batch-Sequence", b"Nats-Batch-Commit"}:
                extra = b"Nats-Batch-Id: b1\r\n"
                if name == b"Nats-Batch-Commit":
                    extra += b"Nats-Batch-Sequence: 1\r\n"
            if name == b"Nats-Expected-Last-Subject-Sequence-Subject":
                extra = b"Nats-Expected-Last-Subject-Sequence: 1\r\n"
            block = b"NATS/1.0\r\n" + name + b": " + word + b"\r\n" + extra + b"\r\n"
            yield Case(f"{name.decode()}: {word[:24]!r}", subject.encode(), b"", block)


def own_publishes(subject: str) -> Iterator[Case]:
    """Headers that only jetspark reads: fast ingest in the header dialect."""
    for name in (b"Nats-Fast-Batch-Id", b"Nats-Flow", b"Nats-Batch-Gap", b"Nats-Batch-Sequence"):
        for word in (*WORDS, b"9" * 5000 + b"B", b"9223372036854775808B"):
            lines = {b"Nats-Fast-Batch-Id": b"f1", b"Nats-Batch-Sequence": b"1"} | {name: word}
            block = b"".join(b"%b: %b\r\n" % line for line in lines.items())
            yield Case(
                f"fast {name.decode()}: {word[:24]!r}", subject.encode(), b"",
                b"NATS/1.0\r\n" + block + b"\r\n",
            )  # fmt: skip


def fast_publishes(subject: str) -> Iterator[Case]:
    """Fast ingest as nats-server has it: numbers in the reply subject."""
    for n, word in enumerate(w for w in WORDS if b" " not in w and b"." not in w):
        for shape in (b"%b.ok.1.0", b"10.ok.%b.1", b"10.ok.1.%b", b"10.%b.1.0"):
            yield Case(
                f"fast reply {shape % word[:24]!r}", subject.encode(), b"x",
                reply=b"f%d." % n + shape % word + b".$FI",
            )  # fmt: skip


def acknowledgements(stream: str, consumer: str) -> Iterator[Case]:
    """What may be said of delivered messages, one message each, in order from the first on.

    Then the numbers in the subject that says it, which belong to no message.
    """
    bodies = [
        f"{verb} {{{fixed}{name!r}:{value}}}".replace("'", '"').encode()
        for verb, fixed, model in (
            ("-NAK", "", consumers.NakOptions),
            ("+NXT", '"no_wait":true,', consumers.PullRequest),
        )
        for name, value in fields(model)
    ] + [
        b"-NAK 2562047h47m16s", b"-NAK 9999999999999h", b"-NAK " + b"9" * 5000 + b"s",
        b"-NAK -1s", b"-NAK 1e400s", b"-NAK\0", b"-NAK " + LONG_TEXT.encode(),
        b"-NAK " + BROKEN_UTF8, b"-NAK " + DEEP_OBJECT.encode(), b"+NXT " + DEEP_OBJECT.encode(),
        b"+NXT " + BROKEN_UTF8, b"+NXT " + b"9" * 5000, b"+NXT {" + BROKEN_UTF8, b"+NXT -1",
        b"+NXT 9223372036854775807", b"+NXT 0", b"+NXT " + LONG_TEXT.encode(),
        b"+TERM " + BROKEN_UTF8, b"+TERM " + LONG_TEXT.encode(), b"+TERM\0",
        b"+TERM \\ud800", b"+WPI", b"+WPI " + LONG_TEXT.encode(), b"+ACK " + BROKEN_UTF8, b"\0",
        LONG_TEXT.encode(), b"", b"+ACK", b"+OK",
    ]  # fmt: skip
    head = f"$JS.ACK.{stream}.{consumer}.".encode()
    for n, body in enumerate(bodies, 1):
        yield Case(f"{body[:60]!r}({len(body)})", head + b"1.%d.%d.1.0" % (n, n), body)
    for word in (w for w in WORDS if b" " not in w and b"." not in w):
        for shape in (b"1.%b.1.1.0", b"1.1.%b.1.0", b"%b.1.1.1.0", b"1.1.1.%b.0", b"1.1.1.1.%b"):
            yield Case(f"ack {shape % word[:24]!r}", head + shape % word, b"")
            yield Case(f"nak {shape % word[:24]!r}", head + shape % word, b"-NAK")
