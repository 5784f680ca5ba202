"""The two dialects of fast ingest word by word: transcripts of what each receives.

ADR-50 for the headers, wire.md, Batches for the reply subjects; decisions.md says which errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.engine.batch.batching import by_headers, by_reply, codes, flush, made, stored, told

from jetspark.engine.batch.dialect import parse_reply
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

# Headers -----------------------------------------------------------------------------------------


def test_a_transcript_of_the_header_dialect(bench: Bench) -> None:
    stream = made(bench)
    by_headers(bench, stream, 1, flow="3", batch_gap="ok")
    flush(bench)
    assert [entry[4] for entry in bench.sent()] == [b'{"seq":1,"messages":3}']
    for number in (2, 3):
        by_headers(bench, stream, number)
    flush(bench)
    assert [entry[4] for entry in bench.sent()] == [b'{"seq":3,"messages":3}']
    by_headers(bench, stream, 6)
    assert [entry[4] for entry in bench.sent()] == [b'{"last_seq":3,"seq":6,"messages":3}']
    by_headers(bench, stream, 7, batch_commit="eob")
    flush(bench)

    assert [entry[4] for entry in bench.sent()] == [
        b'{"stream":"S","seq":4,"batch":"f","count":6}',
    ]


def test_the_first_message_is_acknowledged_when_it_is_durable(bench: Bench) -> None:
    stream = made(bench)
    by_headers(bench, stream, 1, flow="10")
    assert told(bench) == []

    flush(bench)

    assert told(bench) == [{"seq": 1, "messages": 10}]


def test_the_flow_may_count_bytes(bench: Bench) -> None:
    stream = made(bench)
    by_headers(bench, stream, 1, flow="1024B")
    flush(bench)
    assert told(bench) == [{"seq": 1, "bytes": 1024}]
    acks = []
    for number in range(2, 12):
        by_headers(bench, stream, number, body=b"x" * 200)
        flush(bench)
        acks += told(bench)

    # 78 bytes first, then 259 each: message 5 makes it 1,114, message 9 2,150.
    assert [ack["seq"] for ack in acks] == [5, 9]
    assert {ack["bytes"] for ack in acks} == {1024}


def test_a_gap_report_of_a_flow_in_bytes_says_so(bench: Bench) -> None:
    stream = made(bench)
    by_headers(bench, stream, 1, flow="100B", batch_gap="ok")
    flush(bench)
    told(bench)

    by_headers(bench, stream, 4)

    assert told(bench) == [{"last_seq": 1, "seq": 4, "bytes": 100}]


@pytest.mark.parametrize(("flow", "messages"), [("", 10), ("0", 10), ("x", 10), ("7", 7)])
def test_a_flow_that_is_no_number_is_ten(bench: Bench, flow: str, messages: int) -> None:
    stream = made(bench)
    by_headers(bench, stream, 1, flow=flow)
    flush(bench)

    assert told(bench) == [{"seq": 1, "messages": messages}]


def test_errors_have_the_words_of_the_document(bench: Bench) -> None:
    stream = made(bench)
    off = made(bench, name="OFF", subjects=("off.>",), allow_batched=False)
    by_headers(bench, off, 1)
    by_headers(bench, stream, "")
    by_headers(bench, stream, 5)
    by_headers(bench, stream, 1, batch="i" * 65)
    by_headers(bench, stream, 1, batch_gap="maybe")
    by_headers(bench, stream, 1, expected_last_msg_id="a")

    errors = [answer["error"] for answer in told(bench)]

    assert [(e["err_code"], e["code"], e["description"]) for e in errors] == [
        (10174, 400, "Batch publish not enabled on stream"),
        (10175, 400, "Batch publish sequence is missing"),
        (10176, 400, "Batch publish is incomplete and was abandoned"),
        (10179, 400, "Batch publish ID is invalid (exceeds 64 characters)"),
        (10202, 400, "Invalid batch gap mode"),
        (10177, 400, "Batch publish unsupported header used (Nats-Expected-Last-Msg-Id)"),
    ]


def test_a_duplicate_id_ends_the_batch(bench: Bench) -> None:
    stream = made(bench)
    by_headers(bench, stream, 1, flow="10", msg_id="1")
    flush(bench)
    told(bench)

    by_headers(bench, stream, 2, msg_id="1")
    flush(bench)

    (answer,) = told(bench)
    assert answer["error"]["err_code"] == 10201
    assert answer["error"]["description"] == (
        "Batch publish contains duplicate message id (Nats-Msg-Id)"
    )
    assert (answer["seq"], answer["batch"], answer["count"]) == (1, "f", 1)


@pytest.mark.parametrize(("gap", "commit", "code"), [("maybe", "1", 10202), ("ok", "yes", 10200)])
def test_an_invalid_word_abandons_an_open_batch(
    bench: Bench, gap: str, commit: str, code: int
) -> None:
    stream = made(bench)
    by_headers(bench, stream, 1, flow="10")
    flush(bench)
    told(bench)

    by_headers(bench, stream, 2, batch_gap=gap, batch_commit=commit)
    flush(bench)
    by_headers(bench, stream, 3)

    assert codes(bench)[0] == code
    assert stream.batches.fast.open == {}


def test_only_the_first_message_may_expect_a_last_sequence(bench: Bench) -> None:
    stream = made(bench)
    by_headers(bench, stream, 1, flow="10", expected_last_sequence="0")
    by_headers(bench, stream, 2, expected_last_sequence="1")
    flush(bench)

    assert codes(bench)[-1] == 10164


@pytest.mark.parametrize("durable", [True, False])
def test_a_subject_the_batch_wrote_before_cannot_be_expected(bench: Bench, durable: bool) -> None:
    stream = made(bench)
    bench.store(stream, b"s.other", b"x")
    by_headers(bench, stream, 1, b"s.1", flow="10")
    if durable:
        flush(bench)
    told(bench)

    by_headers(bench, stream, 2, b"s.2", expected_last_subject_sequence="0")
    by_headers(
        bench, stream, 3, b"s.3",
        expected_last_subject_sequence="1",
        expected_last_subject_sequence_subject="s.other",
    )  # fmt: skip
    flush(bench)
    assert 10164 not in codes(bench)
    by_headers(bench, stream, 4, b"s.1", expected_last_subject_sequence="2")
    flush(bench)

    assert codes(bench) == [10164]


def test_a_subject_that_another_client_wrote_can_be_expected(bench: Bench) -> None:
    stream = made(bench)
    by_headers(bench, stream, 1, b"s.1", flow="10")
    bench.publish(stream, b"s.2", b"x")
    by_headers(bench, stream, 2, b"s.2", expected_last_subject_sequence="2")
    by_headers(bench, stream, 3, batch_commit="eob")
    flush(bench)

    assert codes(bench)[-1] == {"stream": "S", "seq": 3, "batch": "f", "count": 2}


def test_a_batch_of_one_dialect_is_unknown_to_the_other(bench: Bench) -> None:
    stream = made(bench)
    by_headers(bench, stream, 1, flow="10")
    by_reply(bench, stream, 2)
    assert codes(bench) == [10208]

    by_reply(bench, stream, 1, 0, batch="g")
    by_headers(bench, stream, 2, batch="g")
    assert codes(bench)[-1] == 10176


# Reply subjects ----------------------------------------------------------------------------------


def test_a_transcript_of_the_reply_subject_dialect(bench: Bench) -> None:
    stream = made(bench)
    by_reply(bench, stream, 1, 0, gap="ok", flow=3)
    assert [(e[0], e[4]) for e in bench.sent()] == [
        (b"_INBOX.f.3.ok.1.0.$FI", b'{"type":"ack","seq":0,"msgs":3}'),
    ]
    for number in (2, 3):
        by_reply(bench, stream, number, gap="ok", flow=3)
    flush(bench)
    assert [(e[0], e[4]) for e in bench.sent()] == [
        (b"_INBOX.f.3.ok.3.1.$FI", b'{"type":"ack","seq":3,"msgs":3}'),
    ]
    by_reply(bench, stream, 6, gap="ok", flow=3)
    assert [(e[0], e[4]) for e in bench.sent()] == [
        (b"_INBOX.f.3.ok.6.1.$FI", b'{"type":"gap","last_seq":4,"seq":6}'),
    ]
    mismatch = error_body(ErrCode.WRONG_STREAM)
    by_reply(bench, stream, 7, gap="ok", flow=3, expected_stream="X")
    flush(bench)
    assert [(e[0], e[4]) for e in bench.sent()] == [
        (b"_INBOX.f.3.ok.7.1.$FI", b'{"type":"err","seq":7,"error":%b}' % mismatch),
        (b"_INBOX.f.3.ok.7.1.$FI", b'{"type":"ack","seq":6,"msgs":3}'),
    ]
    by_reply(bench, stream, 7, 4, gap="ok", flow=3)
    by_reply(bench, stream, 8, 2, gap="ok", flow=3)
    flush(bench)
    assert [(e[0], e[4]) for e in bench.sent()] == [
        (b"_INBOX.f.3.ok.7.4.$FI", b'{"type":"ack","seq":6,"msgs":3}'),
        (b"_INBOX.f.3.ok.8.2.$FI", b'{"stream":"S","seq":5,"batch":"f","count":8}'),
    ]


def test_a_ping_never_acknowledges_what_is_not_durable(bench: Bench) -> None:
    stream = made(bench)
    by_reply(bench, stream, 1, 0, flow=1)
    by_reply(bench, stream, 2, flow=1)
    bench.submit()
    told(bench)

    by_reply(bench, stream, 2, 4, flow=1)

    assert told(bench) == [{"type": "ack", "seq": 0, "msgs": 1}]


def test_a_ping_keeps_a_batch_alive(bench: Bench) -> None:
    stream = made(bench)
    by_reply(bench, stream, 1, 0)
    flush(bench)
    for _ in range(3):
        bench.now += 8_000_000_000
        by_reply(bench, stream, 1, 4)
        bench.engine.expire(bench.now, bench.outbox)

    assert list(stream.batches.fast.open) == [b"f"]


def test_duplicates_are_skipped_and_counted(bench: Bench) -> None:
    stream = made(bench)
    by_reply(bench, stream, 1, 0, flow=2, msg_id="1")
    by_reply(bench, stream, 2, flow=2, msg_id="1")
    flush(bench)
    by_reply(bench, stream, 3, flow=2, msg_id="1")
    by_reply(bench, stream, 4, flow=2, msg_id="1")
    assert [answer["seq"] for answer in told(bench)] == [0, 2, 4]

    by_reply(bench, stream, 5, 2, flow=2)
    flush(bench)

    assert told(bench) == [{"stream": "S", "seq": 2, "batch": "f", "count": 5}]
    assert len(stored(stream)) == 2


def test_a_duplicate_while_the_disk_works_is_acknowledged_after_it(bench: Bench) -> None:
    stream = made(bench)
    by_reply(bench, stream, 1, 0, flow=2, msg_id="1")
    bench.submit()
    told(bench)
    by_reply(bench, stream, 2, flow=2, msg_id="1")
    assert told(bench) == []

    bench.land()

    assert told(bench) == [{"type": "ack", "seq": 2, "msgs": 2}]


def test_answers_go_where_the_newest_message_wants_them(bench: Bench) -> None:
    stream = made(bench)
    by_reply(bench, stream, 1, 0, flow=2)
    flush(bench)
    bench.sent()
    bench.publish(stream, b"s.1", b"x", reply=b"elsewhere.f.2.fail.2.1.$FI")
    flush(bench)

    assert [entry[0] for entry in bench.sent()] == [b"elsewhere.f.2.fail.2.1.$FI"]


@pytest.mark.parametrize(
    "reply",
    [
        b".$FI", b"0.$FI", b"b.10.ok.1.0.$FI", b"p.b.10.ok.1.5.$FI", b"p.b.10.ok.0.0.$FI",
        b"p.b.10.ok.x.0.$FI", b"p.b.10.no.1.0.$FI", b"p.b.10.ok.2.0.$FI", b"p.b.10.ok.1.1.$FI",
        b"p.b.10.ok.1.3.$FI", b"p.b.10.ok..0.$FI", b"p.b.10.ok.1..$FI",
        b"p.b.10.ok.99999999999999999999.1.$FI",
    ],
)  # fmt: skip
def test_a_reply_subject_that_is_no_pattern(reply: bytes) -> None:
    assert parse_reply(reply) is None


def test_a_reply_subject_is_read_from_the_right() -> None:
    part = parse_reply(b"a.b.c.id.70000.ok.12.1.$FI")

    assert part is not None
    assert (part.batch_id, part.flow, part.gap_ok, part.seq, part.op) == (
        b"id", 65535, True, 12, 1,
    )  # fmt: skip
    assert part.head == b"a.b.c.id.70000.ok."
