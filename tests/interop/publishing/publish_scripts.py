"""Scripted publishes for the differential test: small, named after what they ask."""

from __future__ import annotations

from typing import Any

from tests.interop.publishing.publish_wire import Api, Pub, Script, Step

ID = "Nats-Msg-Id"
STREAM = "Nats-Expected-Stream"
LAST = "Nats-Expected-Last-Sequence"
SUBJECT = "Nats-Expected-Last-Subject-Sequence"
OTHER = "Nats-Expected-Last-Subject-Sequence-Subject"
LAST_ID = "Nats-Expected-Last-Msg-Id"
ROLLUP = "Nats-Rollup"
TTL = "Nats-TTL"
INCR = "Nats-Incr"
SOURCE = "Nats-Stream-Source"
SCHEDULE = "Nats-Schedule"

PLAIN: dict[str, Any] = {}


def pub(subject: str, /, payload: bytes = b"x", **headers: str) -> Pub:
    """A publish; header names as keywords, by the constants above: ``ID="a"``."""
    names = {name: globals()[name] for name in headers}
    return Pub(subject, payload, tuple((names[n], v) for n, v in headers.items()))


def one(name: str, *headers: tuple[str, str], config: dict[str, Any] = PLAIN) -> Script:
    """Two messages first, then one with these headers."""
    return Script(name, (Pub("a"), Pub("b"), Pub("a", b"x", headers), Pub("a")), config)


def script(name: str, *steps: Step, config: dict[str, Any] = PLAIN) -> Script:
    return Script(name, steps, config)


DUPLICATES = [
    script("a duplicate", pub("a", ID="1"), pub("a", ID="1"), pub("a", ID="2")),
    script("a duplicate on another subject", pub("a", ID="1"), pub("b", ID="1")),
    script("an empty id", pub("a", ID=""), pub("a", ID="")),
    script(
        "a duplicate of a deleted message",
        pub("a", ID="1"), Api("STREAM.MSG.DELETE.{S}", {"seq": 1}), pub("a", ID="1"),
    ),
    script(
        "a duplicate after a purge",
        pub("a", ID="1"), Api("STREAM.PURGE.{S}"), pub("a", ID="1"), pub("a", ID="2"),
    ),
    script("a refused id is free", pub("a", ID="1", LAST="9"), pub("a", ID="1")),
    script("a duplicate with a wrong stream", pub("a", ID="1"), pub("a", ID="1", STREAM="X")),
    script("a duplicate with a wrong sequence", pub("a", ID="1"), pub("a", ID="1", LAST="7")),
    script("a duplicate with a wrong last id", pub("a", ID="1"), pub("a", ID="1", LAST_ID="7")),
    script("a duplicate with a rollup", pub("a", ID="1"), pub("a", ID="1", ROLLUP="sub")),
    script("a duplicate with a bad TTL", pub("a", ID="1"), pub("a", ID="1", TTL="junk")),
    script(
        "two ids", Pub("a", b"x", ((ID, "1"), (ID, "2"))), pub("a", ID="2"), pub("a", ID="1")
    ),
    script(
        "an empty id before another",
        Pub("a", b"x", ((ID, ""), (ID, "2"))), pub("a", ID="2"), pub("a", ID="2"),
    ),
    script("blanks around an id", pub("a", ID="  1"), pub("a", ID="1"), pub("a", ID="1 ")),
    script(
        "names in another case",
        Pub("a", b"x", (("nats-msg-id", "1"),)), Pub("a", b"x", (("nats-msg-id", "1"),)),
    ),
    script(
        "a name before its colon",
        Pub("a", raw_headers=b"NATS/1.0\r\nNats-Msg-Id : 1\r\n\r\n"),
        Pub("a", raw_headers=b"NATS/1.0\r\nNats-Msg-Id:1\r\n\r\n"),
        pub("a", ID="1"),
    ),
    script(
        "a status line",
        Pub("a", raw_headers=b"NATS/1.0 503 Gone\r\nNats-Msg-Id: 1\r\n\r\n"),
        Pub("a", raw_headers=b"NATS/1.0 503\r\n\r\n"), pub("a", ID="1"),
    ),
    script("an id that is not UTF-8",
           Pub("a", raw_headers=b"NATS/1.0\r\nNats-Msg-Id: \xff\r\n\r\n"),
           Pub("a", raw_headers=b"NATS/1.0\r\nNats-Msg-Id: \xff\r\n\r\n")),
]  # fmt: skip

EXPECTATIONS = [
    *(
        one(f"last sequence {value!r}", (LAST, value))
        for value in ("0", "2", "3", "", "junk", "-1", "+2", "02", " 2", "2 ", "2.0", "9" * 19)
    ),
    *(
        one(f"last subject sequence {value!r}", (SUBJECT, value))
        for value in ("0", "1", "2", "", "junk", "-1", "0001", "1e0")
    ),
    *(
        one(f"last sequence {value} of {other}", (SUBJECT, value), (OTHER, other))
        for value, other in (
            ("1", "{S}.a"), ("2", "{S}.b"), ("2", "{S}.*"), ("2", "{S}.>"), ("0", "{S}.z"),
            ("0", "other"), ("2", ">"), ("1", "{S}.*"), ("2", "*"), ("1", ""), ("0", "a..b"),
        )
    ),
    one("a subject without a sequence", (OTHER, "{S}.a")),
    one("a subject with an empty sequence", (OTHER, "{S}.a"), (SUBJECT, "")),
    one("both sequences", (LAST, "2"), (SUBJECT, "1")),
    one("both sequences, the subject's wrong", (LAST, "2"), (SUBJECT, "2")),
    one("both sequences, the stream's wrong", (LAST, "1"), (SUBJECT, "1")),
    one("the stream", (STREAM, "{S}")),
    one("another stream", (STREAM, "X")),
    one("an empty stream", (STREAM, "")),
    script("a last sequence of an empty stream", pub("a", LAST="1"), pub("a", LAST="0")),
    script("a new subject", pub("a", SUBJECT="1"), pub("a", SUBJECT="0"), pub("a", SUBJECT="0")),
    script(
        "the sequence of a subject after a delete",
        Pub("a"), Pub("b"), Pub("a"), Api("STREAM.MSG.DELETE.{S}", {"seq": 3}),
        pub("a", SUBJECT="3"), pub("a", SUBJECT="1"), pub("b", SUBJECT="2"),
    ),
    script(
        "the sequence of a subject after a purge",
        Pub("a"), Pub("b"), Api("STREAM.PURGE.{S}"), pub("a", SUBJECT="1"), pub("a", SUBJECT="0"),
    ),
    script(
        "the sequence of the stream after a purge",
        Pub("a"), Pub("b"), Api("STREAM.PURGE.{S}"), pub("a", LAST="0"), pub("a", LAST="2"),
    ),
    script(
        "the last sequence when the last was deleted",
        Pub("a"), Pub("b"), Api("STREAM.MSG.DELETE.{S}", {"seq": 2}),
        pub("a", LAST="1"), pub("a", LAST="2"),
    ),
    script(
        "the last id",
        pub("a", LAST_ID="1"), pub("a", ID="1"), pub("a", LAST_ID="2"), pub("a", LAST_ID=""),
        pub("a", ID="3"), pub("a", ID="4", LAST_ID="3"), pub("a", LAST_ID="4"),
        pub("a", LAST_ID="4"),
    ),
    script("the last id after a duplicate", pub("a", ID="1"), pub("a", ID="2"), pub("a", ID="1"),
           pub("a", LAST_ID="2")),
    script("the last id after a refusal", pub("a", ID="1"), pub("a", ID="2", LAST="9"),
           pub("a", LAST_ID="1")),
]  # fmt: skip

REFUSED = [
    one("a source header", (SOURCE, "X")),
    one("an empty source header", (SOURCE, "")),
    one("a rollup where none is allowed", (ROLLUP, "sub")),
    one("a bad rollup where none is allowed", (ROLLUP, "junk")),
    *(
        one(f"a TTL of {value!r} where none is allowed", (TTL, value))
        for value in ("5s", "5", "0", "00", "", "never", "NEVER", "500ms", "-1s", "junk", "1.5s")
    ),
    *(
        one(f"an increment of {value!r} where none is allowed", (INCR, value))
        for value in ("1", "", "junk", "+1", "-1", "1_0", "0x1", "1.0", " 1", "9" * 30)
    ),
    *(
        one(f"a schedule of {value!r} where none is allowed", (SCHEDULE, value))
        for value in ("@at 2099-01-01T00:00:00Z", "junk", "", "@every 1h")
    ),
    one("a schedule target alone", ("Nats-Schedule-Target", "x")),
    one("a time zone that is empty", ("Nats-Schedule-Time-Zone", "")),
    one("a time zone alone", ("Nats-Schedule-Time-Zone", "UTC")),
    one("the end of a schedule", ("Nats-Schedule-Next", "purge")),
    one("the end of a named schedule", ("Nats-Schedule-Next", "purge"), ("Nats-Scheduler", "x")),
    one("a scheduler alone", ("Nats-Scheduler", "x")),
    one("an atomic batch", ("Nats-Batch-Id", "x"), ("Nats-Batch-Sequence", "1")),
    one("the number in a batch alone", ("Nats-Batch-Sequence", "1")),
    one("headers nobody knows", ("Nats-Foo", "1"), ("Nats-Sequence", "7"), ("Foo", "2")),
    one("an API level", ("Nats-Required-Api-Level", "99")),
    one("a counter and an expectation", (INCR, "1"), (LAST, "2")),
    one("a TTL and a wrong stream", (TTL, "5s"), (STREAM, "X")),
    one("a TTL and a wrong sequence", (TTL, "5s"), (LAST, "9")),
    one("a schedule and a wrong sequence", (SCHEDULE, "junk"), (LAST, "9")),
    one("a schedule and a source", (SCHEDULE, "junk"), (SOURCE, "X")),
    one("a wrong last id and a rollup", (LAST_ID, "9"), (ROLLUP, "sub")),
    one("headers of 65535 bytes", ("A", "a" * (65535 - 17))),
    one("headers of 65536 bytes", ("A", "a" * (65536 - 17))),
]  # fmt: skip

SIZES = [
    *(
        script(f"too large with {name}", Pub("a", b"x" * 50, ((name, value),)),
               config={"max_msg_size": 20})
        for name, value in ((STREAM, "X"), (INCR, "x"), (TTL, "5s"), (OTHER, "x"), (LAST, "9"),
                            (ROLLUP, "sub"), ("Nats-Batch-Id", "x"), ("A", "a" * 66000))
    ),
    script("a duplicate that is too large", pub("a", b"", ID="1"), pub("a", b"x" * 60, ID="1"),
           config={"max_msg_size": 60}),
    script("long headers and a wrong stream", Pub("a", b"x", ((STREAM, "X"), ("A", "a" * 66000)))),
    script("a message of the largest size", Pub("a", b"x" * 10), Pub("a", b"x" * 11),
           Pub("a", b"", (("A", "1"),)), config={"max_msg_size": 10}),
    script("headers count", Pub("a", b"x" * 30, (("A", "1"),)), Pub("a", b"x" * 19, (("A", "1"),)),
           config={"max_msg_size": 40}),
]  # fmt: skip

COUNTER = {"allow_msg_counter": True, "allow_direct": True}

COUNTERS = [
    script("a counter", pub("a", b"", INCR="1"), pub("a", b"", INCR="5"), pub("b", b"", INCR="-3"),
           pub("a", b"", INCR="-10"), pub("a", b"", INCR="+0"), config=COUNTER),
    script("a large counter", pub("a", b"", INCR="9" * 60), pub("a", b"", INCR="1"),
           pub("a", b"", INCR="9" * 6000), pub("a", b"", INCR="-" + "1" * 6001), config=COUNTER),
    script("a counter without an increment", Pub("a"), pub("a", b"x", ID="1"),
           pub("a", b"", INCR=""), config=COUNTER),
    script("a counter with a body", pub("a", b"x", INCR="1"), config=COUNTER),
    script("a counter with junk", pub("a", b"", INCR="x"), pub("a", b"", INCR="1 "),
           config=COUNTER),
    *(
        script(f"a counter with {name} {value!r}", pub("a", b"", INCR="1"),
               Pub("a", b"", ((INCR, "1"), (name, value))), pub("a", b"", INCR="1"),
               config=COUNTER)
        for name, value in (
            (LAST, "1"), (SUBJECT, "1"), (OTHER, "x"), (STREAM, "{S}"), (LAST_ID, "x"),
            (ROLLUP, "sub"), (ID, "1"), (TTL, "5s"), ("Foo", "1"), (LAST, ""),
            ("Nats-Counter-Sources", '{"X":{"a":"3"}}'), ("Nats-Counter-Sources", "junk"),
        )
    ),
    script("a counter and duplicates", pub("a", b"", INCR="1", ID="1"),
           pub("a", b"", INCR="1", ID="1"), pub("a", b"", INCR="1", ID="2"), config=COUNTER),
    script("a counter with a size limit", pub("a", b"", INCR="1"), pub("a", b"", INCR="9" * 40),
           config=COUNTER | {"max_msg_size": 60}),
]  # fmt: skip

TRANSFORMED = [
    script("a transform", Pub("a.b"), Pub("a.c"), Pub("z"), pub("a.b", SUBJECT="1"),
           pub("a.b", SUBJECT="0"), pub("a.b", b"x", SUBJECT="1", OTHER="D.b.a"),
           config={"subject_transform": {"src": "D.a.*", "dest": "D.{{wildcard(1)}}.a"}}),
    script("a transform of everything", Pub("a"), Pub("a"), pub("a", SUBJECT="2"),
           config={"subject_transform": {"src": ">", "dest": "E.>"}}),
    script("a transform that parts", *(Pub(f"a.{n}") for n in range(6)),
           config={"subject_transform": {"src": "D.a.*", "dest": "D.{{partition(3,1)}}.$1"}}),
]  # fmt: skip

ROLLUPS_ALLOWED = {"allow_rollup_hdrs": True}
TTL_ALLOWED = {"allow_msg_ttl": True}
MARKED = TTL_ALLOWED | ROLLUPS_ALLOWED | {"subject_delete_marker_ttl": 60_000_000_000}

ROLLUPS = [
    *(
        script(f"a rollup of {value!r}", Pub("a"), Pub("b"), Pub("a"), pub("a", ROLLUP=value),
               pub("a", SUBJECT="4"), pub("b", SUBJECT="2"), config=ROLLUPS_ALLOWED)
        for value in ("sub", "all", "SUB", "All", "", "junk", "sub ")
    ),
    script("a rollup of a new subject", Pub("a"), pub("b", ROLLUP="sub"), pub("c", ROLLUP="all"),
           config=ROLLUPS_ALLOWED),
    script("a rollup and an expectation", Pub("a"), pub("a", ROLLUP="sub", SUBJECT="2"),
           pub("a", ROLLUP="sub", SUBJECT="1"), config=ROLLUPS_ALLOWED),
    script("a rollup and a duplicate", pub("a", ID="1"), pub("a", ROLLUP="all", ID="1"),
           config=ROLLUPS_ALLOWED),
    script("a rollup where nothing may be purged", pub("a", ROLLUP="sub"),
           config={"deny_purge": True}),
]  # fmt: skip

TTLS = [
    *(
        script(f"a TTL of {value!r}", pub("a", TTL=value), Pub("a"), config=TTL_ALLOWED)
        for value in ("60s", "60", "0", "00", "", "never", "Never", "999ms", "1.9s", "-1", "junk",
                      "1h30m", "9" * 12)
    ),
    script("a TTL shorter than its marker", pub("a", TTL="5s", ID="1"), pub("a", TTL="60"),
           pub("a", TTL="90s"), pub("a", TTL="never"), config=MARKED),
    script("a TTL shorter than its marker with one message a subject", pub("a", TTL="5s"),
           config=MARKED | {"max_msgs_per_subject": 1}),
    script("a bad TTL and a limit", Pub("a"), pub("a", TTL="junk"),
           config=TTL_ALLOWED | {"max_msgs": 1, "discard": "new"}),
]  # fmt: skip

LIMITS = [
    script("old messages go", *(Pub("a") for _ in range(4)), config={"max_msgs": 2}),
    script("old bytes go", *(Pub("a", b"x" * 50) for _ in range(4)), config={"max_bytes": 200}),
    script("a message larger than all", Pub("a"), Pub("a", b"x" * 300), Pub("b"),
           config={"max_bytes": 200}),
    script("old messages of a subject go", Pub("a"), Pub("b"), Pub("a"), Pub("a"),
           pub("b", SUBJECT="2"), config={"max_msgs_per_subject": 1}),
    script("both limits", *(Pub(s) for s in "abcabcaa"),
           config={"max_msgs": 3, "max_msgs_per_subject": 2}),
    script("new messages are refused", *(Pub("a") for _ in range(3)), pub("a", LAST="2"),
           pub("a", LAST="1"), config={"max_msgs": 2, "discard": "new"}),
    script("new bytes are refused", Pub("a", b"x" * 50), Pub("a", b"x" * 80), Pub("a", b"x" * 30),
           config={"max_bytes": 200, "discard": "new"}),
    script("bytes that fit exactly", Pub("a", b"x" * 7), Pub("a", b"x" * 8), Pub("a", b"x" * 7),
           config={"max_bytes": 80, "discard": "new"}),
    script("headers count as bytes", Pub("a", b"x", (("A", "1"),)), Pub("a", b"x", (("A", "1"),)),
           config={"max_bytes": 90, "discard": "new"}),
    script("new messages of a full subject", Pub("a"), Pub("a"), Pub("b"), Pub("b"),
           config={"max_msgs_per_subject": 1, "discard": "new"}),
    script("new messages of a full subject in a full stream", Pub("a"), Pub("b"), Pub("a"),
           Pub("c"), config={"max_msgs_per_subject": 1, "max_msgs": 2, "discard": "new"}),
    script("larger messages of a full subject in full bytes", Pub("a", b"x" * 10), Pub("b"),
           Pub("a", b"x" * 5), Pub("a", b"x" * 5), Pub("a", b"x" * 40), Pub("a", b"x" * 6),
           config={"max_msgs_per_subject": 1, "max_bytes": 80, "discard": "new"}),
    script("a full subject that refuses", Pub("a"), Pub("a"), Pub("b"), pub("a", ID="1"),
           pub("a", ROLLUP="sub"), pub("a", ROLLUP="all"), Pub("b"), Pub("b"),
           config=ROLLUPS_ALLOWED | {
               "max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": True}),
    script("room after a rollup", *(Pub("a") for _ in range(4)), pub("a", ROLLUP="sub"), Pub("a"),
           Pub("a"), Pub("a"), config=ROLLUPS_ALLOWED | {
               "max_msgs_per_subject": 3, "discard": "new", "discard_new_per_subject": True}),
    script("a refused id is free again", Pub("a"), pub("a", ID="1"), Api("STREAM.PURGE.{S}"),
           pub("a", ID="1"), config={"max_msgs": 1, "discard": "new"}),
    script("room after a delete", Pub("a"), Pub("a"), Api("STREAM.MSG.DELETE.{S}", {"seq": 1}),
           Pub("a"), Pub("a"), config={"max_msgs": 2, "discard": "new"}),
    script("a stream that begins at 1000", Pub("a"), pub("a", LAST="1000"), pub("a", LAST="0"),
           config={"first_seq": 1000}),
    script("an empty stream that begins at 1000", pub("a", LAST="0"), pub("a", LAST="999"),
           config={"first_seq": 1000}),
]  # fmt: skip

SCHEDULED = {"allow_msg_schedules": True, "allow_rollup_hdrs": True, "allow_msg_ttl": True}
LATER = "@at 2099-01-01T00:00:00Z"
TARGET = "Nats-Schedule-Target"


def planned(name: str, *headers: tuple[str, str], config: dict[str, Any] = SCHEDULED) -> Script:
    """A message, then one with schedule headers, then another schedule on the same subject."""
    again = Pub("s", b"again", ((SCHEDULE, LATER), (TARGET, "{S}.t")))
    return Script(name, (Pub("s"), Pub("s", b"plan", headers), again), config)


SCHEDULES = [
    *(
        planned(f"a schedule of {value!r}", (SCHEDULE, value), (TARGET, "{S}.t"))
        for value in (
            LATER, "@at 2099-01-01T00:00:00+02:00", "@at 2099-01-01", "@at", "@at ", "@every 1h",
            "@every 500ms", "@every junk", "@hourly", "@never", "0 0 0 1 1 *", "* * * * *",
            "0 0 0 30 2 *", "0 0 0 ? jan mon", "0 0 0 1-5/2 * *", "0 0 0 5-1 * *", "0 60 * * * *",
            "0 0 0 * * 7", "0 0 0 ,1 * sun,tue", "0 0 0 1/0 * *", "-1 * * * * *",
        )
    ),
    *(
        planned(f"a schedule to {value!r}", (SCHEDULE, LATER), (TARGET, value))
        for value in ("{S}.t", "{S}.s", "{S}.*", "other", "", "{S}..t", "{S}.t ")
    ),
    *(
        planned(f"a schedule from {value!r}", (SCHEDULE, LATER), (TARGET, "{S}.t"),
                ("Nats-Schedule-Source", value))
        for value in ("{S}.q", "{S}.t", "{S}.s", "{S}.>", "other", "")
    ),
    *(
        planned(f"a schedule with {name} {value!r}", (SCHEDULE, LATER), (TARGET, "{S}.t"),
                (name, value))
        for name, value in (
            ("Nats-Schedule-TTL", "5m"), ("Nats-Schedule-TTL", "junk"), ("Nats-Schedule-TTL", ""),
            ("Nats-Schedule-Rollup", "sub"), ("Nats-Schedule-Rollup", "all"), (ROLLUP, "sub"),
            (ROLLUP, "all"), (ROLLUP, "Sub"), ("Nats-Schedule-Time-Zone", "UTC"),
            ("Nats-Schedule-Time-Zone", ""), (TTL, "1h"), (LAST, "1"), (LAST, "9"),
        )
    ),
    *(
        planned(f"a cron schedule in {zone!r}", (SCHEDULE, "0 0 3 * * *"), (TARGET, "{S}.t"),
                ("Nats-Schedule-Time-Zone", zone))
        for zone in ("UTC", "Europe/Berlin", "Nowhere/Land")
    ),
    planned("a schedule without a target", (SCHEDULE, LATER)),
    planned("a schedule TTL where none is allowed", (SCHEDULE, LATER), (TARGET, "{S}.t"),
            ("Nats-Schedule-TTL", "5m"), config=SCHEDULED | {"allow_msg_ttl": False}),
    *(
        script(f"the end of {scheduler!r} by {value!r}", Pub("q"),
               Pub("s", b"plan", ((SCHEDULE, LATER), (TARGET, "{S}.t"))),
               Pub("t", b"x", (("Nats-Schedule-Next", value), ("Nats-Scheduler", scheduler))),
               pub("s", SUBJECT="0"), config=SCHEDULED)
        for value, scheduler in (
            ("purge", "{S}.s"), ("purge", "{S}.q"), ("purge", "{S}.none"), ("purge", "{S}.t"),
            ("purge", "{S}.*"), ("purge", ""), ("PURGE", "{S}.s"), ("", "{S}.s"),
            ("2099-01-01T00:00:00Z", "{S}.s"),
        )
    ),
]  # fmt: skip

SCRIPTS = [
    *SCHEDULES,
    *ROLLUPS,
    *TTLS,
    *LIMITS,
    *COUNTERS,
    *TRANSFORMED,
    *DUPLICATES,
    *EXPECTATIONS,
    *REFUSED,
    *SIZES,
]
