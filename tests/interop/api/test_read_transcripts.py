"""Every example of ADR-31 and ADR-53, asked of our server over the wire.

Times are RFC 3339 instead of the form that ADR-31 shows (decisions.md).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.raw_requests import RawClient, Reply
from tests.support.served import Served

from jetspark.headers.block import decode_headers

TIME = re.compile(rb"\d{4}-\d\d-\d\dT[0-9:.]+Z")
# ADR-31, batched and multi-subject requests: foo.A, foo.B ... one after the other, three times.
LETTERS = "ABCDE"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("store"), "-p", "-1", "-js")
    yield served
    served.end()


@pytest.fixture(scope="module")
def filled(server: Served) -> Iterator[RawClient]:
    """A bucket with the keys of the examples, and a stream of letters."""
    client = connect(server)
    create(client, "KV_mykv1", "$KV.mykv1.>")
    client.ask("$KV.mykv1.mykey1", b"hello")
    client.ask("$KV.mykv1.mykey2", b"goodbye")
    create(client, "LETTERS", "foo.>")
    for n in range(3):
        for letter in LETTERS:
            client.ask(f"foo.{letter}", f"{letter}{n}".encode())
    yield client
    client.close()


def connect(server: Served, options: str = "") -> RawClient:
    return RawClient(server.url.removeprefix("nats://"), options)


def create(client: RawClient, name: str, subject: str) -> None:
    config = {"name": name, "subjects": [subject], "allow_direct": True}
    (reply,) = client.ask(f"$JS.API.STREAM.CREATE.{name}", json.dumps(config).encode())
    assert b'"error"' not in reply.payload


def found(subject: str, seq: int) -> bytes:
    return (
        b"NATS/1.0\r\nNats-Stream: KV_mykv1\r\nNats-Subject: %s\r\nNats-Sequence: %d\r\n"
        b"Nats-Time-Stamp: TIME\r\n\r\n" % (subject.encode(), seq)
    )


BAD_REQUEST = b"NATS/1.0 408 Bad Request\r\n\r\n"


@pytest.mark.parametrize(
    ("subject", "body", "headers", "payload"),
    [
        (
            "$JS.API.DIRECT.GET.KV_mykv1",
            b'{"last_by_subj": "$KV.mykv1.mykey1"}',
            found("$KV.mykv1.mykey1", 1),
            b"hello",
        ),
        (
            "$JS.API.DIRECT.GET.KV_mykv1",
            b'{"seq":1, "next_by_subj": "$KV.mykv1.mykey2"}',
            found("$KV.mykv1.mykey2", 2),
            b"goodbye",
        ),
        (
            "$JS.API.DIRECT.GET.KV_mykv1.$KV.mykv1.mykey1",
            b"",
            found("$KV.mykv1.mykey1", 1),
            b"hello",
        ),
        (
            "$JS.API.DIRECT.GET.KV_mykv1.$KV.mykv1.mykey2",
            b'{"seq":1, "next_by_subj": "$KV.mykv1.mykey2"}',
            BAD_REQUEST,
            b"",
        ),
    ],
    ids=["last_by_subj", "next_by_subj", "appended", "illegal"],
)
def test_the_example_calls(
    filled: RawClient, subject: str, body: bytes, headers: bytes, payload: bytes
) -> None:
    """ADR-31, example calls: all four."""
    (reply,) = filled.ask(subject, body)

    assert (TIME.sub(b"TIME", reply.headers), reply.payload) == (headers, payload)


def read(client: RawClient, body: bytes) -> tuple[list[str], dict[str, str]]:
    """The messages, and the headers of the EOB after them."""
    replies = client.ask("$JS.API.DIRECT.GET.LETTERS", body, many=True)
    assert replies[-1].headers.startswith(b"NATS/1.0 204 EOB\r\n")
    check_batch(replies)
    end = dict(decode_headers(replies[-1].headers).items())
    return [reply.payload.decode() for reply in replies[:-1]], end


def check_batch(replies: list[Reply]) -> None:
    """ADR-31: each reply names the one before it, and counts what is left."""
    before = 0
    for reply in replies[:-1]:
        headers = decode_headers(reply.headers)
        assert headers.get("Nats-Last-Sequence") == str(before)
        before = int(headers.get("Nats-Sequence") or 0)
    pending = [int(decode_headers(r.headers).get("Nats-Num-Pending") or 0) for r in replies]
    assert pending[:-1] == sorted(pending[:-1], reverse=True)
    assert pending[-1] == pending[-2]


def time_of(client: RawClient, seq: int) -> bytes:
    (reply,) = client.ask("$JS.API.DIRECT.GET.LETTERS", b'{"seq":%d}' % seq)
    return (decode_headers(reply.headers).get("Nats-Time-Stamp") or "").encode()


@pytest.mark.parametrize(
    ("body", "messages", "pending", "last"),
    [
        (b'{"batch":3,"seq":1,"next_by_subj":"foo.>"}', ["A0", "B0", "C0"], 12, 3),
        (b'{"batch":3,"seq":4,"next_by_subj":"foo.>"}', ["D0", "E0", "A1"], 9, 6),
        (b'{"batch":3,"start_time":"@9","next_by_subj":"foo.>"}', ["D1", "E1", "A2"], 4, 11),
        (b'{"batch":3,"max_bytes":10,"seq":1,"next_by_subj":"foo.>"}', ["A0", "B0"], 13, 2),
        (b'{"batch":3,"max_bytes":2002,"seq":4,"next_by_subj":"foo.>"}',
         ["D0", "E0", "A1"], 9, 6),
        (b'{"batch":3,"max_bytes":2002,"start_time":"@9","next_by_subj":"foo.>"}',
         ["D1", "E1", "A2"], 4, 11),
        (b'{"batch":3,"next_by_subj":"foo.>"}', ["A0", "B0", "C0"], 12, 3),
        (b'{"batch":3}', ["A0", "B0", "C0"], 12, 3),
    ],
    ids=str,
)  # fmt: skip
def test_the_calls_for_a_batch(
    filled: RawClient, body: bytes, messages: list[str], pending: int, last: int
) -> None:
    """ADR-31, batched requests: the six calls, and a start at 1 when none is given."""
    body = body.replace(b"@9", time_of(filled, 9))

    assert read(filled, body) == (
        messages,
        {"Nats-Num-Pending": str(pending), "Nats-Last-Sequence": str(last)},
    )


@pytest.mark.parametrize(
    ("more", "messages", "end"),
    [
        (b"", ["A2", "D2"], (0, 14, 15)),
        (b',"up_to_seq":13', ["D1", "A2"], (0, 11, 13)),
        (b',"up_to_time":"@9"', ["A1", "D1"], (0, 9, 9)),
        (b',"batch":1', ["A2"], (1, 11, 15)),
        (b',"batch":1,"up_to_seq":13', ["D1"], (1, 9, 13)),
        (b',"batch":1,"up_to_time":"@9"', ["A1"], (1, 6, 9)),
    ],
    ids=str,
)
def test_the_calls_for_many_subjects(
    filled: RawClient, more: bytes, messages: list[str], end: tuple[int, int, int]
) -> None:
    """ADR-31, multi-subject requests: the six calls; up to a time is inclusive."""
    body = b'{"multi_last":["foo.A","foo.D"]%s}' % more.replace(b"@9", time_of(filled, 9))

    names = ("Nats-Num-Pending", "Nats-Last-Sequence", "Nats-UpTo-Sequence")
    wanted = dict(zip(names, map(str, end), strict=True))
    assert read(filled, body) == (messages, wanted)


@pytest.mark.parametrize("direct", [True, False], ids=["direct get", "message get"])
def test_a_read_after_a_write(server: Served, *, direct: bool) -> None:
    """ADR-53, note about testing: too high a sequence is refused; written, it is read."""
    name = "DIRECT" if direct else "LEADER"
    verb = "$JS.API.DIRECT.GET" if direct else "$JS.API.STREAM.MSG.GET"
    reader, writer = connect(server), connect(server)
    create(writer, name, f"{name}.foo")
    writer.ask(f"{name}.foo", b"one")

    begun = time.monotonic()
    (refused,) = reader.ask(f"{verb}.{name}", b'{"seq":1,"min_last_seq":2}')
    assert time.monotonic() - begun > 0.4  # delayed, so that clients do not ask again at once
    writer.ask(f"{name}.foo", b"two")
    (answered,) = reader.ask(f"{verb}.{name}", b'{"seq":2,"min_last_seq":2}')

    if direct:
        assert refused.headers == (
            b"NATS/1.0 412 Min Last Sequence\r\nNats-Min-Last-Sequence: 1\r\n\r\n"
        )
        assert answered.payload == b"two"
        assert b"\r\nNats-Min-Last-Sequence: 2\r\n" in answered.headers
        (appended,) = reader.ask(f"{verb}.{name}.{name}.foo", b'{"min_last_seq":1}')
        assert appended.payload == b"two"
    else:
        error = json.loads(refused.payload)["error"]
        assert error == {"code": 412, "err_code": 10180, "description": "min last sequence"}
        assert json.loads(answered.payload)["message"]["seq"] == 2
    reader.close()
    writer.close()


def test_a_user_with_one_subject_reads_only_that_subject(tmp_path: Path) -> None:
    """ADR-31, subject-appended form: what it is for."""
    config = tmp_path / "server.conf"
    config.write_text(
        'listen: "127.0.0.1:-1"\njetstream { store_dir: "%s" }\n'
        "authorization { users [\n"
        "  { user: admin, password: a }\n"
        "  { user: reader, password: r, permissions {\n"
        '      publish { allow: ["$JS.API.DIRECT.GET.S.s.mine"] }\n'
        '      subscribe { allow: ["_INBOX.>"] } } }\n'
        "] }\n" % (tmp_path / "store")
    )
    served = Served(tmp_path / "store", "-c", str(config))
    admin = connect(served, '"user":"admin","pass":"a",')
    reader = connect(served, '"user":"reader","pass":"r",')
    create(admin, "S", "s.>")
    admin.ask("s.mine", b"1")
    admin.ask("s.other", b"2")

    assert reader.ask("$JS.API.DIRECT.GET.S.s.mine")[0].payload == b"1"
    for subject, body in (
        ("$JS.API.DIRECT.GET.S.s.other", b""),
        ("$JS.API.DIRECT.GET.S.s.*", b""),
        ("$JS.API.DIRECT.GET.S", b'{"last_by_subj":"s.mine"}'),
        ("$JS.API.STREAM.MSG.GET.S", b'{"last_by_subj":"s.mine"}'),
    ):
        (refused,) = reader.ask(subject, body)
        assert refused.payload.startswith(b"-ERR 'Permissions Violation for Publish")
    (selecting,) = reader.ask("$JS.API.DIRECT.GET.S.s.mine", b'{"seq":2}')
    assert selecting.headers == BAD_REQUEST
    reader.close()
    admin.close()
    served.end()
