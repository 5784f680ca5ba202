"""Direct get (ADR-31) and its gate for read-after-write (ADR-53)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.engine.conftest import RecordingOutlet

from jetspark.engine.limits import MIN_LAST_SEQ_WAIT_NS, READ_RECORDS_PER_TURN

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench

    from jetspark.engine.stream.stream import Stream


@pytest.fixture
def stream(bench: Bench) -> Stream:
    """Six messages on three subjects, a second apart."""
    made = bench.create("KV_b", "$KV.b.>")
    for n in range(6):
        bench.now += 1_000_000_000
        bench.store(made, b"$KV.b.k%d" % (n % 3), b"v%d" % n)
    return made


def test_a_reply_has_the_headers_of_the_document(bench: Bench, stream: Stream) -> None:
    """ADR-31, response format; the time is RFC 3339 (decisions.md)."""
    (entry,) = bench.get(stream, b'{"last_by_subj":"$KV.b.k1"}')

    headers = (
        b"NATS/1.0\r\nNats-Stream: KV_b\r\nNats-Subject: $KV.b.k1\r\nNats-Sequence: 5\r\n"
        b"Nats-Time-Stamp: 2025-11-15T07:00:05Z\r\n\r\n"
    )
    assert entry == (b"_INBOX.1", b"_INBOX.1", b"", headers, b"v4")


@pytest.mark.parametrize(
    ("body", "payload"),
    [
        (b'{"seq":2}', b"v1"),
        (b'{"last_by_subj":"$KV.b.*"}', b"v5"),
        (b'{"next_by_subj":"$KV.b.k2"}', b"v2"),
        (b'{"next_by_subj":"$KV.b.k2","seq":4}', b"v5"),
        (b'{"next_by_subj":"$KV.b.>","seq":6}', b"v5"),
        (b'{"start_time":"2025-11-15T07:00:03Z"}', b"v2"),
        (b'{"start_time":"2025-11-15T07:00:03Z","next_by_subj":"$KV.b.k0"}', b"v3"),
        (b'{"seq":1,"batch":0}', b"v0"),
    ],
    ids=lambda value: value.decode(),
)
def test_a_message_is_found_by_any_selection(
    bench: Bench, stream: Stream, body: bytes, payload: bytes
) -> None:
    assert [entry[4] for entry in bench.get(stream, body)] == [payload]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"seq":7}', b"404 Message Not Found"),
        (b'{"last_by_subj":"$KV.b.none"}', b"404 Message Not Found"),
        (b'{"start_time":"2030-01-01T00:00:00Z"}', b"404 Message Not Found"),
        (b"", b"408 Empty Request"),
        (b"{}", b"408 Empty Request"),
        (b'{"min_last_seq":1}', b"408 Empty Request"),
        (b"nonsense", b"408 Malformed Request"),
        (b'{"seq":-1}', b"408 Malformed Request"),
        (b'{"seq":1,"last_by_subj":"a"}', b"408 Bad Request"),
        (b'{"seq":1,"start_time":"2025-11-15T07:00:03Z"}', b"408 Bad Request"),
        (b'{"last_by_subj":"a","batch":1}', b"408 Bad Request"),
        (b'{"next_by_subj":"a","multi_last":["b"]}', b"408 Bad Request"),
    ],
    ids=lambda value: value.decode(),
)
def test_a_request_without_an_answer_gets_a_status(
    bench: Bench, stream: Stream, body: bytes, status: bytes
) -> None:
    """wire.md, Direct get, the table of answers."""
    (entry,) = bench.get(stream, body)

    assert entry[3] == b"NATS/1.0 " + status + b"\r\n\r\n"
    assert entry[4] == b""


def test_the_appended_subject_names_the_message(bench: Bench, stream: Stream) -> None:
    """ADR-31, subject-appended form; a payload that selects something else is 408."""
    assert bench.get(stream, b"", b"$KV.b.k0")[0][4] == b"v3"
    assert bench.get(stream, b"{}", b"$KV.b.k0")[0][4] == b"v3"
    assert (
        bench.get(stream, b'{"seq":1}', b"$KV.b.k0")[0][3] == b"NATS/1.0 408 Bad Request\r\n\r\n"
    )


def test_headers_are_dropped_on_request(bench: Bench, stream: Stream) -> None:
    assert bench.get(stream, b'{"seq":1,"no_hdr":true}')[0][3] == b""


def test_a_batch_counts_down_and_ends_with_eob(bench: Bench, stream: Stream) -> None:
    """ADR-31, batched requests: each reply says what is left, EOB says where it ended."""
    bench.get(stream, b'{"seq":1,"batch":2,"next_by_subj":"$KV.b.k1"}')

    assert bench.engine.advance() is False

    written = bench.outlet.written
    assert [entry[3] for entry in written] == [b"v1", b"v4", b""]
    assert b"Nats-Num-Pending: 1\r\nNats-Last-Sequence: 0\r\n\r\n" in written[0][2]
    assert b"Nats-Num-Pending: 0\r\nNats-Last-Sequence: 2\r\n\r\n" in written[1][2]
    assert written[2][2] == (
        b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 5\r\n\r\n"
    )


def test_a_batch_that_stops_early_says_what_is_left(bench: Bench, stream: Stream) -> None:
    bench.get(stream, b'{"batch":4}')
    bench.engine.advance()

    assert [entry[3] for entry in bench.outlet.written] == [b"v0", b"v1", b"v2", b"v3", b""]
    assert b"Nats-Num-Pending: 2\r\n" in bench.outlet.written[-1][2]


def test_max_bytes_ends_a_batch_after_the_message_that_reaches_it(
    bench: Bench, stream: Stream
) -> None:
    """Subject, stored headers and payload are counted; at least one is sent."""
    bench.get(stream, b'{"seq":1,"batch":6,"max_bytes":11}')
    bench.engine.advance()

    assert [entry[3] for entry in bench.outlet.written] == [b"v0", b"v1", b""]


def test_an_empty_batch_is_a_404_without_eob(bench: Bench, stream: Stream) -> None:
    bench.get(stream, b'{"seq":1,"batch":6,"next_by_subj":"$KV.b.none"}')
    bench.engine.advance()

    assert [entry[2] for entry in bench.outlet.written] == [
        b"NATS/1.0 404 Message Not Found\r\n\r\n"
    ]


def test_a_large_batch_takes_several_turns(bench: Bench) -> None:
    """Reads are bounded per turn, so that one does not stop the others."""
    stream = bench.create()
    for n in range(READ_RECORDS_PER_TURN + 10):
        bench.publish(stream, b"s.1", b"%d" % n)
    bench.submit()
    bench.land()

    bench.get(stream, b'{"seq":1,"batch":100000}')
    assert bench.engine.advance() is True
    assert len(bench.outlet.written) == READ_RECORDS_PER_TURN
    assert bench.engine.advance() is False

    assert len(bench.outlet.written) == READ_RECORDS_PER_TURN + 10 + 1


def test_a_batch_waits_for_a_full_receiver_and_ends_when_it_disconnects(
    bench: Bench, stream: Stream
) -> None:
    bench.outlet.full_after = 2
    bench.get(stream, b'{"seq":1,"batch":6}')

    # Nothing is left to do until the receiver has room: no turn of the loop is wanted.
    assert bench.engine.advance() is False
    assert bench.engine.unstall() is False
    assert len(bench.outlet.written) == 2
    bench.outlet.full_after = 3
    assert bench.engine.unstall() is True
    bench.outlet.full_after = 2
    bench.outlet.is_gone = True

    assert bench.engine.advance() is False
    assert bench.engine.direct.stalled == []
    assert len(bench.outlet.written) == 2


def test_a_satisfied_minimum_is_answered_at_once_with_the_proof(
    bench: Bench, stream: Stream
) -> None:
    """ADR-53; decisions.md: the proof travels with the answer."""
    (entry,) = bench.get(stream, b'{"seq":1,"min_last_seq":6}')

    assert entry[4] == b"v0"
    assert b"Nats-Min-Last-Sequence: 6\r\n" in entry[3]


def test_a_read_is_held_until_its_sequence_arrives(bench: Bench, stream: Stream) -> None:
    """Answered as soon as the sequence arrives."""
    assert bench.get(stream, b'{"last_by_subj":"$KV.b.k0","min_last_seq":7}') == []

    bench.store(stream, b"$KV.b.k0", b"new")

    (entry,) = bench.sent()
    assert entry[4] == b"new"
    assert b"Nats-Min-Last-Sequence: 7\r\n" in entry[3]


def test_a_read_that_waited_long_enough_is_refused(bench: Bench, stream: Stream) -> None:
    """ADR-53: 412 Min Last Sequence, after the delay and not before."""
    bench.get(stream, b'{"seq":1,"min_last_seq":9}')
    deadline = bench.engine.next_deadline()
    assert deadline == bench.now + MIN_LAST_SEQ_WAIT_NS

    bench.engine.expire(deadline - 1, bench.outbox)
    assert bench.sent() == []
    bench.engine.expire(deadline, bench.outbox)

    (entry,) = bench.sent()
    assert entry[3] == (b"NATS/1.0 412 Min Last Sequence\r\nNats-Min-Last-Sequence: 6\r\n\r\n")
    assert bench.engine.next_deadline() is None


def test_a_contradictory_request_is_refused_before_the_gate(bench: Bench, stream: Stream) -> None:
    """wire.md, Read-after-write: 408 wins over 412."""
    (entry,) = bench.get(stream, b'{"seq":1,"last_by_subj":"a","min_last_seq":99}')

    assert entry[3] == b"NATS/1.0 408 Bad Request\r\n\r\n"


@pytest.mark.parametrize("level", [b"6", b"x", b"99999999999999999999"])
def test_a_request_that_needs_a_newer_server_is_refused(
    bench: Bench, stream: Stream, level: bytes
) -> None:
    """Status 412 on direct gets."""
    headers = b"NATS/1.0\r\nNats-Required-Api-Level: %s\r\n\r\n" % level
    for appended, body in ((b"", b'{"seq":1}'), (b"$KV.b.k0", b"")):
        bench.engine.direct.get(stream, appended, body, b"r", bench.now, bench.outbox, headers)
        (entry,) = bench.sent()
        assert entry[3] == b"NATS/1.0 412 Required Api Level\r\n\r\n"


def test_a_damaged_record_costs_only_itself(bench: Bench, stream: Stream) -> None:
    """Neighbours are served, and the damage is said."""
    bench.restart()
    stream = bench.engine.streams["KV_b"]
    folder = stream.log.segments.folder
    (name,) = [each for each in bench.files.list_folder(folder) if each.endswith(".seg")]
    at = bench.files.read_file(folder / name).index(b"v2\r\n")
    handle = bench.files.open(folder / name)
    bench.files.write(handle, [b"vX"], at)
    bench.files.close(handle)

    bench.get(stream, b'{"seq":1,"batch":6}')
    bench.engine.advance()

    assert [entry[3] for entry in bench.outlet.written] == [b"v0", b"v1", b""]
    assert bench.outlet.written[-1][2].startswith(b"NATS/1.0 500 ")
    assert bench.get(stream, b'{"seq":3}')[0][3].startswith(b"NATS/1.0 500 ")
    assert b'"code":500' in bench.request(b"STREAM.MSG.GET.KV_b", b'{"seq":3}')
    assert bench.get(stream, b'{"seq":4}')[0][4] == b"v3"


def test_keys_in_any_case_and_nulls_are_read(bench: Bench, stream: Stream) -> None:
    """nats-server 2.15.1, observed; direct gets are not strict (contracts.md, JSON)."""
    assert bench.get(stream, b'{"SEQ":2}')[0][4] == b"v1"
    assert bench.get(stream, b'{"seq":null,"Last_By_Subj":"$KV.b.k1"}')[0][4] == b"v4"


def test_a_batch_without_headers_still_proves_its_point(bench: Bench, stream: Stream) -> None:
    """ADR-31 no_hdr, decisions.md: every reply to `min_last_seq` has the proof."""
    bench.get(stream, b'{"seq":5,"batch":9,"no_hdr":true,"min_last_seq":6}')
    bench.engine.advance()

    proof = b"NATS/1.0\r\nNats-Min-Last-Sequence: 6\r\n\r\n"
    assert [entry[2:] for entry in bench.outlet.written[:2]] == [(proof, b"v4"), (proof, b"v5")]


class Broken(RecordingOutlet):
    """An outlet that raises what no one expects."""

    def write(self, _subject: bytes, _reply: bytes, _headers: bytes, _payload: bytes) -> None:
        raise RuntimeError("a mistake of ours")


def test_an_unexpected_error_in_one_read_costs_no_other_read_its_answer(
    bench: Bench, stream: Stream
) -> None:
    body = b'{"seq":1,"batch":10}'
    bench.outlet = Broken()
    assert bench.get(stream, body) == []
    bench.outlet = good = RecordingOutlet()
    assert bench.get(stream, body) == []

    while bench.engine.advance(bench.now, bench.outbox):
        pass

    assert [row[3] for row in good.written][:6] == [b"v0", b"v1", b"v2", b"v3", b"v4", b"v5"]
    assert bench.engine.failures.count == 1
