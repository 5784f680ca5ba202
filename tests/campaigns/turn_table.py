"""The longest turn of the loop for each request to a stream of many subjects, and each large one.

``python -m tests.campaigns.turn_table [SUBJECTS]`` prints a row per request: the longest turn that
it caused and all turns together, in milliseconds of CPU time of the loop's thread.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from tests.support.turn_probe import TurnProbe, Wire

KEYS: Final = 1000
"""Subjects of one first token."""
EXPECTS: Final = b"Nats-Expected-Last-Subject-Sequence"
PURGES: Final = "purge"
MIDDLE: Final = 5_000
MEGABYTE: Final = 1024 * 1024


@dataclass(frozen=True)
class Row:
    """One kind of request; ``ask`` sends it and waits for the whole answer."""

    name: str
    ask: Callable[[Wire], None]


def slow_rows(probe: TurnProbe, client: Wire, rows: Iterable[Row]) -> dict[str, str]:
    """Ask everything, one after the other; what took a turn that was too long, and how long."""
    slow: dict[str, str] = {}
    for row in rows:
        row.ask(client)
        client.settle()
        try:
            probe.check()
        except AssertionError as error:
            slow[row.name] = str(error)
    return slow


def fill(client: Wire, subjects: int, name: str = "S") -> None:
    """Create a stream with a number of subjects ``aN.kM``, one message each."""
    first = "a" if name == "S" else name
    config = {
        "name": name,
        "subjects": [f"{first}{n}.*" for n in range(subjects // KEYS)],
        "storage": "memory",
        "allow_direct": True,
        "max_bytes": -1,
    }
    answer = client.request(b"STREAM.CREATE.%b" % name.encode(), json.dumps(config).encode())
    assert b'"error"' not in answer, answer
    for n in range(subjects // KEYS):
        token = f"{first}{n}".encode()
        client.send(b"".join(b"PUB %b.k%d 0\r\n\r\n" % (token, k) for k in range(KEYS)))
        client.settle()


def info(name: str, pattern: str, total: Callable[[int], int]) -> Row:
    """STREAM.INFO of the subjects that match."""

    def ask(client: Wire) -> None:
        body = json.dumps({"subjects_filter": pattern}).encode()
        found = json.loads(client.request(b"STREAM.INFO.S", body))
        assert found["total"] == total(found["state"]["num_subjects"]), found["total"]
        page = found["state"].get("subjects", {})
        assert len(page) == min(found["total"], 100_000)

    return Row(f"STREAM.INFO {name}", ask)


def consumer(name: str, pending: Callable[[int], int], **config: object) -> Row:
    """Create a consumer, fetch one message of it, and remove it."""

    def ask(client: Wire) -> None:
        body = json.dumps({"stream_name": "S", "config": {"name": "C", **config}}).encode()
        answer = json.loads(client.request(b"CONSUMER.CREATE.S.C", body))
        assert "error" not in answer, answer
        subjects = json.loads(client.request(b"STREAM.INFO.S", b""))["state"]["num_subjects"]
        assert answer["num_pending"] == pending(subjects), answer["num_pending"]
        if answer["num_pending"]:
            client.send(b"SUB _m 8888888\r\nUNSUB 8888888 1\r\n")
            client.send(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C _m 1\r\n1\r\n")
            client.until(b"MSG ")
            client.until(b"\r\n\r\n")
        client.request(b"CONSUMER.DELETE.S.C", b"")

    return Row(f"consumer {name}", ask)


def direct(name: str, body: dict[str, object], end: bytes) -> Row:
    """A direct get, up to what ends it."""

    def ask(client: Wire) -> None:
        asked = json.dumps(body).encode()
        client.send(b"SUB _d 7777777\r\n")
        client.send(b"PUB $JS.API.DIRECT.GET.S _d %d\r\n%b\r\n" % (len(asked), asked))
        client.until(end)
        client.send(b"UNSUB 7777777\r\n")
        client.settle()

    return Row(f"direct get {name}", ask)


def expectation(name: str, pattern: bytes, wrong: int = 0) -> Row:
    """A message that expects a last sequence of subjects; it is refused."""

    def ask(client: Wire) -> None:
        block = b"NATS/1.0\r\n%b: %d\r\n%b-Subject: %b\r\n\r\n" % (
            EXPECTS,
            wrong,
            EXPECTS,
            pattern,
        )
        client.send(b"SUB _e 6666666\r\nUNSUB 6666666 1\r\n")
        client.send(b"HPUB a0.k0 _e %d %d\r\n%b\r\n" % (len(block), len(block), block))
        client.until(b"MSG _e ")
        assert b'"error"' in client.until(b"}\r\n")

    return Row(f"expectation {name}", ask)


def purge(name: str, **body: object) -> Row:
    """A purge that takes something out."""

    def ask(client: Wire) -> None:
        answer = json.loads(client.request(b"STREAM.PURGE.S", json.dumps(body).encode()))
        assert answer["purged"] > 0, answer

    return Row(f"{PURGES} {name}", ask)


def asked(name: str, verb: bytes, body: object, error: int = 0) -> Row:
    """One request of up to a megabyte; it is refused with this error, if any."""
    data = body if isinstance(body, bytes) else compact(body)
    assert len(data) <= MEGABYTE, f"{name}: {len(data)} bytes"

    def ask(client: Wire) -> None:
        answer = client.request(verb, data)
        if error:
            assert json.loads(answer)["error"]["err_code"] == error, answer[:300]
        else:
            assert b'"error"' not in answer[:200], answer[:300]

    return Row(name, ask)


def compact(value: object) -> bytes:
    """JSON without blanks."""
    return json.dumps(value, separators=(",", ":")).encode()


def stream_rows(
    what: str, config: Mapping[str, object], changed: Mapping[str, object]
) -> list[Row]:
    """Everything that is asked about a stream with such a configuration."""
    first = {"name": "B", "storage": "memory", **config}
    return [
        asked(f"stream create, {what}", b"STREAM.CREATE.B", first),
        asked(f"stream create again, {what}", b"STREAM.CREATE.B", first),
        asked(f"stream info, {what}", b"STREAM.INFO.B", b""),
        asked(f"stream list, {what}", b"STREAM.LIST", b""),
        asked(f"stream names of *.>, {what}", b"STREAM.NAMES", {"subject": "*.>"}),
        asked(f"stream update, {what}", b"STREAM.UPDATE.B", {**first, **changed}),
        asked(f"stream delete, {what}", b"STREAM.DELETE.B", b""),
    ]


def consumer_rows(
    what: str, config: Mapping[str, object], changed: Mapping[str, object]
) -> list[Row]:
    """Everything that is asked about a consumer with such a configuration."""
    first = {"name": "C", **config}
    body = {"stream_name": "T", "config": first}
    verb = b"CONSUMER.CREATE.T.C"
    return [
        asked(f"consumer create, {what}", verb, body),
        asked(f"consumer create again, {what}", verb, body),
        asked(f"consumer info, {what}", b"CONSUMER.INFO.T.C", b""),
        asked(f"consumer list, {what}", b"CONSUMER.LIST.T", b""),
        asked(f"consumer update, {what}", verb, {**body, "config": {**first, **changed}}),
        asked(f"consumer delete, {what}", b"CONSUMER.DELETE.T.C", b""),
    ]


def repeated(before: bytes, part: bytes, after: bytes, size: int) -> bytes:
    """A body of about this size that says the same thing again and again."""
    return before + part * ((size - len(before) - len(after)) // len(part)) + after


def junk(size: int) -> list[Row]:
    """Bodies of this size that are no request, or none that can be."""
    long = size > 260 * 1024  # for a text
    bodies = {
        "arrays": (repeated(b'{"subjects":[', b"[],", b"[]]}", size), 10025),
        "objects": (repeated(b'{"sources":[', b"{},", b"{}]}", size), 10025),
        "nesting": (repeated(b"", b"[", b"", size), 10025),
        "nulls": (repeated(b'{"subjects":[', b"null,", b"null]}", size), 10056),
        "the same key": (repeated(b"{", b'"name":"x",', b'"name":"B"}', size), 0),
        "integers": (repeated(b'{"subjects":[', b"1,", b"1]}", size), 10025),
        "empty texts": (repeated(b'{"subjects":[', b'"",', b'""]}', size), 10056),
        "digits": (repeated(b'{"max_age":', b"1", b"}", size), 10025),
        "surrogates": (repeated(b'{"description":"', rb"\ud800", b'"}', size), 10056),
        "no UTF-8": (
            repeated(b'{"description":"', b"\xff", b'"}', size),
            10025 if long else 10056,
        ),
        "blanks": (repeated(b"", b" ", b"", size), 10056),
        "tokens": (
            repeated(b'{"name":"B","subjects":["', b"a.", b'a"]}', size),
            10025 if long else 10052,
        ),
    }
    rows = [
        asked(f"stream create, junk of {what}", b"STREAM.CREATE.B", body, error)
        for what, (body, error) in bodies.items()
    ]
    other = repeated(b'{"x":[', b"{},", b"{}]}", size)
    verbs = (
        "STREAM.INFO.T STREAM.PURGE.T STREAM.MSG.GET.T STREAM.MSG.DELETE.T STREAM.SNAPSHOT.T "
        "STREAM.RESTORE.R STREAM.NAMES STREAM.LIST CONSUMER.NAMES.T CONSUMER.LIST.T "
        "CONSUMER.PAUSE.T.C CONSUMER.UNPIN.T.C CONSUMER.EXPLAIN.T.C"
    )
    rows += [asked(f"junk for {verb}", verb.encode(), other, 10025) for verb in verbs.split()]
    return rows


def published(name: str, subject: bytes, headers: bytes, payload: bytes, end: bytes) -> Row:
    """A message that is no request with an answer in JSON, up to what ends its answer."""

    def ask(client: Wire) -> None:
        client.send(b"SUB _p 5555555\r\n")
        size = len(headers)
        client.send(b"HPUB %b _p %d %d\r\n" % (subject, size, size + len(payload)))
        client.send(headers + payload + b"\r\n")
        if end:
            client.until(end)
        client.send(b"UNSUB 5555555\r\n")

    return Row(name, ask)


def messages(size: int) -> list[Row]:
    """Messages with headers and bodies of this size, to everything that reads them."""
    none = b"NATS/1.0\r\n\r\n"
    lines = repeated(b"NATS/1.0\r\n", b"a:b\r\n", b"\r\n", size)
    few = repeated(b"NATS/1.0\r\n", b"a:b\r\n", b"\r\n", min(size, 60_000))
    long = repeated(b"NATS/1.0\r\nNats-TTL: ", b"1", b"\r\n\r\n", size)
    names = [f"t.{n}" for n in range(size // 26)]
    upper = [name.upper() for name in names]
    objects = repeated(b'{"x":[', b"{},", b"{}]}", size)
    next_one = b"$JS.API.CONSUMER.MSG.NEXT.T.P"
    get = b"$JS.API.DIRECT.GET.T"
    consumer = {"stream_name": "T", "config": {"durable_name": "P", "ack_policy": "explicit"}}
    return [
        asked("consumer create P", b"CONSUMER.DURABLE.CREATE.T.P", consumer),
        published("publish, very many headers", b"t.1", lines, b"", b"}\r\n"),
        published("publish, many headers", b"t.1", few, b"", b"}\r\n"),
        published("publish, a long TTL", b"t.1", long, b"", b"}\r\n"),
        published(
            "stream info, very many headers", b"$JS.API.STREAM.INFO.T", lines, b"", b"}\r\n"
        ),
        published("direct get, very many headers", get, lines, b'{"seq":1}', b"HMSG _p "),
        published("direct get, junk", get, none, objects, b" 408 "),
        published(
            "direct get, very many subjects", get, none, compact({"multi_last": names}), b" 204 "
        ),
        published(
            "direct get, very many SUBJECTS", get, none, compact({"multi_last": upper}), b" 404 "
        ),
        published("pull, very many headers", next_one, lines, b"1", b"HMSG t.1 "),
        published("pull, junk", next_one, none, objects, b""),
        published(
            "acknowledgement, junk", b"$JS.ACK.T.P.1.1.1.1.0", none, b"-NAK " + objects, b""
        ),
    ]


def large_requests(count: int) -> list[Row]:
    """Requests with a given number of subjects, filters, sources and so on."""
    size = min(26 * count, MEGABYTE)
    names = [f"b.{n}.*" for n in range(count)]
    others = [f"c.{n}.*" for n in range(count)]
    sources = [{"name": f"s{n}"} for n in range(count)]
    transforms = [{"src": f"s{n}", "dest": f"t{n}"} for n in range(count * 5 // 8)]
    filters = [f"t.{n}.*" for n in range(count)]
    most = 512
    taken = [*others[1:], "u.7.x"]
    in_queue = {"name": "W", "subjects": ["w.>"], "storage": "memory", "retention": "workqueue"}
    rival = {"ack_policy": "explicit", "filter_subjects": [f"w.{n}.*" for n in range(count)]}
    last = {"filter_subjects": filters, "deliver_policy": "last"}
    last_each = {"filter_subjects": filters, "deliver_policy": "last_per_subject"}
    metadata = {str(n): "" for n in range(count // 3)}
    return [
        *stream_rows("many subjects", {"subjects": names}, {"subjects": others}),
        *stream_rows(
            "many subjects, republished",
            {"subjects": names, "republish": {"src": ">", "dest": "z.>"}},
            {},
        ),
        *stream_rows("many subjects in files", {"subjects": names, "storage": "file"}, {}),
        *stream_rows("512 sources", {"sources": sources[:most]}, {"sources": sources[7:most]}),
        *stream_rows(
            "511 transforms",
            {"sources": [{"name": "s", "subject_transforms": transforms[: most - 1]}]},
            {"description": "d"},
        ),
        *stream_rows("many tags", {"placement": {"tags": names}}, {}),
        *stream_rows("much metadata", {"metadata": metadata}, {"description": "d"}),
        asked("many sources", b"STREAM.CREATE.B", {"name": "B", "sources": sources}, 10025),
        asked(
            "many transforms",
            b"STREAM.CREATE.B",
            {"name": "B", "mirror": {"name": "s", "subject_transforms": transforms}},
            10025,
        ),
        asked("stream create U", b"STREAM.CREATE.U", {"name": "U", "subjects": ["u.>"]}),
        asked(
            "stream create, the last of many subjects is taken",
            b"STREAM.CREATE.B",
            {"name": "B", "subjects": taken},
            10065,
        ),
        asked(
            "stream create, the last of many subjects overlaps another",
            b"STREAM.CREATE.B",
            {"name": "B", "subjects": [*others[1:], "c.7.x"]},
            10052,
        ),
        asked(
            "stream create T",
            b"STREAM.CREATE.T",
            {"name": "T", "subjects": ["t.>"], "storage": "memory", "allow_direct": True},
        ),
        *consumer_rows("many filters", {"filter_subjects": filters}, {"description": "d"}),
        *consumer_rows("the last of many filters", last, {}),
        *consumer_rows("the last of each of many filters", last_each, {}),
        *consumer_rows("much metadata", {"metadata": metadata}, {"description": "d"}),
        *consumer_rows("1,024 pauses", {"backoff": [10**9] * 1024, "max_deliver": 1024}, {}),
        asked(
            "consumer create, many pauses",
            b"CONSUMER.CREATE.T.C",
            {"stream_name": "T", "config": {"name": "C", "backoff": [10**9] * count}},
            10052,
        ),
        asked(
            "consumer create, the last of many filters overlaps another",
            b"CONSUMER.CREATE.T.C",
            {"stream_name": "T", "config": {"name": "C", "filter_subjects": [*filters, "t.7.x"]}},
            10138,
        ),
        asked("stream create W", b"STREAM.CREATE.W", in_queue),
        asked(
            "consumer create, many filters of a work queue",
            b"CONSUMER.CREATE.W.A",
            {"stream_name": "W", "config": {"name": "A", **rival}},
        ),
        asked(
            "consumer create, many filters that another consumer has",
            b"CONSUMER.CREATE.W.B",
            {"stream_name": "W", "config": {"name": "B", **rival}},
            10100,
        ),
        asked(
            "stream restore, many subjects",
            b"STREAM.RESTORE.R",
            {"config": {"name": "R", "subjects": names}, "state": {}},
        ),
        asked(
            "stream restore, many deleted messages",
            b"STREAM.RESTORE.Q",
            {"config": {"name": "Q", "subjects": ["q"]}, "state": {"deleted": [7] * count}},
        ),
        *messages(size),
        *junk(size),
    ]


ROWS: Final[list[Row]] = [
    info("one subject", "a7.k7", lambda _: 1),
    info("a7.*", "a7.*", lambda _: KEYS),
    info("*.k7", "*.k7", lambda subjects: subjects // KEYS),
    info("*.none", "*.none", lambda _: 0),
    info("all", ">", lambda subjects: subjects),
    consumer("of one subject", lambda _: 1, filter_subject="a7.k7"),
    consumer("a7.*", lambda _: KEYS, filter_subject="a7.*"),
    consumer("*.k7", lambda subjects: subjects // KEYS, filter_subject="*.k7"),
    consumer("*.none", lambda _: 0, filter_subject="*.none"),
    consumer("of all", lambda subjects: subjects),
    consumer("a11.*", lambda _: KEYS, filter_subject="a11.*"),
    consumer(
        "a11.* from the middle", lambda _: KEYS, filter_subject="a11.*",
        deliver_policy="by_start_sequence", opt_start_seq=MIDDLE,
    ),
    consumer(
        "*.* from the middle", lambda subjects: subjects - MIDDLE + 1, filter_subject="*.*",
        deliver_policy="by_start_sequence", opt_start_seq=MIDDLE,
    ),
    consumer(
        "last per subject", lambda subjects: subjects, filter_subject=">",
        deliver_policy="last_per_subject",
    ),
    consumer(
        "last per subject, in memory", lambda subjects: subjects, filter_subject=">",
        deliver_policy="last_per_subject", mem_storage=True,
    ),
    consumer(
        "last per subject a7.*", lambda _: KEYS, filter_subject="a7.*",
        deliver_policy="last_per_subject",
    ),
    consumer(
        "last per subject *.k7", lambda subjects: subjects // KEYS, filter_subject="*.k7",
        deliver_policy="last_per_subject",
    ),
    consumer("last *.k7", lambda _: 1, filter_subject="*.k7", deliver_policy="last"),
    consumer(
        "two filters", lambda subjects: 2 * (subjects // KEYS), filter_subjects=["*.k7", "*.k8"],
    ),
    consumer(
        "many filters", lambda _: 900, filter_subjects=[
            f"a{a}.k{k}" for a in range(9) for k in range(100)
        ],
    ),
    direct("multi_last a7.*", {"multi_last": ["a7.*"]}, b" 204 EOB"),
    direct("multi_last *.k7", {"multi_last": ["*.k7"]}, b" 204 EOB"),
    direct("multi_last *.none", {"multi_last": ["*.none"]}, b" 404 "),
    direct("multi_last all", {"multi_last": [">"]}, b" 413 "),
    direct("last of *.k7", {"last_by_subj": "*.k7"}, b"Nats-Sequence"),
    direct("last of *.none", {"last_by_subj": "*.none"}, b" 404 "),
    direct("next of *.k7", {"next_by_subj": "*.k7", "seq": MIDDLE}, b"Nats-Sequence"),
    direct("next of *.none", {"next_by_subj": "*.none"}, b" 404 "),
    direct("batch of *.k7", {"next_by_subj": "*.k7", "seq": 1, "batch": 10}, b" 204 EOB"),
    direct("batch of *.*", {"next_by_subj": "*.*", "seq": MIDDLE, "batch": 10}, b" 204 EOB"),
    direct("next batch of *.*", {"next_by_subj": "*.*", "seq": 5_010, "batch": 9}, b" 204 EOB"),
    direct("batch of *.none", {"next_by_subj": "*.none", "seq": 1, "batch": 10}, b" 404 "),
    expectation("a7.*", b"a7.*"),
    expectation("*.k7", b"*.k7"),
    expectation("*.none", b"*.none", 5),
    expectation("all", b"*.*"),
    purge("of one subject", filter="a9.k9"),
    purge("a9.*", filter="a9.*"),
    purge("*.k9", filter="*.k9"),
    purge("*.k8 keep", filter="*.k8", keep=5),
    purge("by sequence", seq=2_500),
    purge("*.* by sequence", filter="*.*", seq=4_500),
    purge("all but ten", keep=10),
]  # fmt: skip


def measured(
    probe: TurnProbe, rows: list[Row], subjects: int
) -> Iterator[tuple[str, float, float]]:
    """Send every request to a stream with this many subjects: name, longest turn, all turns."""
    with probe.client() as client:
        fill(client, subjects)
        yield "publish all of them", *probe.spent_ms()
        for row in rows:
            row.ask(client)
            client.settle()
            yield row.name, *probe.spent_ms()
        fill(client, subjects, "F")
        probe.spent_ms()
        client.request(b"STREAM.PURGE.F", b"")
        client.settle()
        yield "purge all of them", *probe.spent_ms()
        fill(client, subjects, "G")
        probe.spent_ms()
        client.request(b"STREAM.DELETE.G", b"")
        client.settle()
        yield "stream delete", *probe.spent_ms()


def main() -> None:
    """Print the table."""
    subjects = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    head = f"{'longest turn':>14} {'all turns':>10}   ms of CPU, {subjects} subjects"
    sys.stdout.write(head + "\n")
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
        TurnProbe(Path(folder), patch) as probe,
    ):
        chosen = [
            row
            for row in [*ROWS, *large_requests(40_000)]
            if len(sys.argv) < 3 or sys.argv[2] in row.name
        ]
        for name, longest, total in measured(probe, chosen, subjects):
            sys.stdout.write(f"{longest:14.1f} {total:10.1f}   {name}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
