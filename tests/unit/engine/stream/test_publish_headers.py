"""Publish headers: order of checks, codes, and what each reply waits for (wire.md, Publishing)."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from tests.unit.engine.publishing import SECOND, answers, ask, block, code, flush, made, publish

from jetspark.store.format.record import body_end, subject_end

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Bench


NO_SPACE = OSError(errno.ENOSPC, "No space left on device")


# Duplicates ------------------------------------------------------------------------------------


# An id that goes a shorter way, and the same id in company or written oddly.
ID_FORMS = [
    b"NATS/1.0\r\nNats-Msg-Id: one\r\n\r\n",
    b"NATS/1.0\r\nNats-Msg-Id:one\r\n\r\n",
    b"NATS/1.0\r\nNats-Msg-Id:   one\r\n\r\n",
    b"NATS/1.0\r\nNats-Msg-Id: one\r\nA: b\r\n\r\n",
    b"NATS/1.0\r\nA: b\r\nNats-Msg-Id: one\r\n\r\n",
    b"NATS/1.0\r\nNats-Msg-Id: one\r\nNats-Msg-Id: two\r\n\r\n",
    b"NATS/1.0 100 status\r\nNats-Msg-Id: one\r\n\r\n",
    b"NATS/1.0\r\nNats-Expected-Stream: S\r\nNats-Msg-Id: one\r\n\r\n",
    b"NATS/1.0\r\nNats-Msg-Id: one\r\n",
    b"NATS/1.0\r\nNats-Msg-Id: one\r\n\r\n\r\n",
]
OTHER_IDS = [
    b"NATS/1.0\r\nNats-Msg-Id: one \r\n\r\n",
    b"NATS/1.0\r\nNats-Msg-Id: o\rne\r\n\r\n",
    b"NATS/1.0\r\nNats-Msg-Id: \r\n\r\n",
    b"NATS/1.0\r\nNats-Msg-Id:\r\n\r\n",
    b"NATS/1.0\r\nnats-msg-id: one\r\n\r\n",
    b"NATS/1.0\r\nNats-Msg-Idd: one\r\n\r\n",
    b"NATS/1.0\r\nNats-Msg-Id: " + b"x" * 2_000 + b"\r\n\r\n",
    b"NATS/1.0\r\nNats-Msg-Id\r\n\r\n",
    b"NATS/1.0\r\nNats-\r\n\r\n",
    b"NATS/1.0\r\nN\r\n\r\n",
    b"NATS/1.0\r\nNest-Id: one\r\n\r\n",
    b"NATS/1.0\r\nA: Nats-Msg-Id: one\r\n\r\n",
    b"NATS/1.0\r\n\r\n",
    b"NATS/1.0\r\n",
    b"NATS/1.0\r",
    b"N",
    b"\r\n",
]


@pytest.mark.parametrize("first", ID_FORMS)
@pytest.mark.parametrize("second", ID_FORMS)
def test_an_id_is_the_same_however_it_is_written(
    bench: Bench, first: bytes, second: bytes
) -> None:
    stream = made(bench)
    publish(bench, stream, msg_id="before")

    bench.publish(stream, b"s.1", b"x", reply=b"r", headers=first)
    bench.publish(stream, b"s.2", b"y", reply=b"r", headers=second)
    flush(bench)

    assert answers(bench) == [1, 2, ("duplicate", 2)]
    assert stream.checks.last_id == b"one"


@pytest.mark.parametrize("other", OTHER_IDS)
def test_what_only_looks_like_an_id_is_none(bench: Bench, other: bytes) -> None:
    stream = made(bench)
    publish(bench, stream, msg_id="before")
    publish(bench, stream, msg_id="one")

    bench.publish(stream, b"s.1", b"x", reply=b"r", headers=other)
    bench.publish(stream, b"s.1", b"y", reply=b"r", headers=ID_FORMS[0])
    flush(bench)

    assert answers(bench) == [1, 2, 3, ("duplicate", 2)]
    data, at = stream.log.reader.locate(3)
    assert data[subject_end(data, at) : body_end(data, at)] == other + b"x"


def test_a_duplicate_is_answered_with_the_first_sequence_whatever_its_subject(
    bench: Bench,
) -> None:
    stream = made(bench)

    assert ask(bench, stream, b"s.1", msg_id="a") == 1
    assert ask(bench, stream, b"s.2", msg_id="a") == ("duplicate", 1)
    assert ask(bench, stream, b"s.2", msg_id="b") == 2
    assert stream.log.index.messages == 2


def test_the_answer_to_a_duplicate_has_the_released_bytes(bench: Bench) -> None:
    """nats-server 2.15.1 writes a blank before ``true``, observed."""
    stream = made(bench)
    ask(bench, stream, msg_id="a")
    publish(bench, stream, msg_id="a")

    assert bench.sent()[0][4] == b'{"stream":"S","seq":1,"duplicate": true}'


def test_an_empty_id_is_no_id(bench: Bench) -> None:
    stream = made(bench)

    assert [ask(bench, stream, msg_id="") for _ in range(2)] == [1, 2]


def test_the_first_of_two_ids_counts(bench: Bench) -> None:
    """As nats-server reads headers: the first line with the name."""
    stream = made(bench)
    two = b"NATS/1.0\r\nNats-Msg-Id: a\r\nNats-Msg-Id: b\r\n\r\n"
    bench.publish(stream, b"s.1", b"x", reply=b"r", headers=two)
    flush(bench)

    assert answers(bench) == [1]
    assert ask(bench, stream, msg_id="b") == 2
    assert ask(bench, stream, msg_id="a") == ("duplicate", 1)


def test_an_id_is_forgotten_when_the_window_is_over(bench: Bench) -> None:
    stream = made(bench, duplicate_window=10 * SECOND)
    ask(bench, stream, msg_id="a")

    bench.now += 10 * SECOND - 1
    assert ask(bench, stream, msg_id="a") == ("duplicate", 1)
    bench.now += 1
    assert ask(bench, stream, msg_id="a") == 2
    bench.now += 10 * SECOND - 1
    assert ask(bench, stream, msg_id="a") == ("duplicate", 2)


def test_a_duplicate_of_a_staged_copy_waits_for_that_copy(bench: Bench) -> None:
    """``duplicate: true`` for a first copy that is itself still staged."""
    stream = made(bench)
    publish(bench, stream, msg_id="a")
    publish(bench, stream, msg_id="a")
    bench.submit()
    publish(bench, stream, msg_id="a")
    publish(bench, stream, msg_id="b")
    publish(bench, stream, msg_id="b")
    assert answers(bench) == []

    bench.land()
    assert answers(bench) == [1, ("duplicate", 1), ("duplicate", 1)]
    bench.submit()
    assert answers(bench) == []
    bench.land()
    assert answers(bench) == [2, ("duplicate", 2)]


def test_a_header_that_extends_into_the_payload_is_refused(bench: Bench) -> None:
    """No block is refused, also one without an end; what follows it is the message."""
    stream = made(bench)
    publish(bench, stream, msg_id="before")

    for _ in range(2):
        bench.publish(
            stream, b"s.1", b"sg-Id: one\r\n\r\n", reply=b"r", headers=b"NATS/1.0\r\nNats-M"
        )
    flush(bench)

    assert answers(bench) == [1, 2, 3]


def test_ids_of_a_failed_group_are_forgotten(bench: Bench) -> None:
    stream = made(bench)
    ask(bench, stream, msg_id="kept")
    publish(bench, stream, msg_id="a")
    bench.submit()
    publish(bench, stream, msg_id="b")
    publish(bench, stream, msg_id="a")

    bench.fail(NO_SPACE)

    assert [code(answer) for answer in answers(bench)] == [10023, 10023, 10023]
    assert ask(bench, stream, msg_id="kept") == ("duplicate", 1)
    assert ask(bench, stream, msg_id="a") == 4
    assert ask(bench, stream, msg_id="b") == 5
    assert ask(bench, stream, msg_id="a") == ("duplicate", 4)


def test_ids_inside_the_window_survive_a_restart(bench: Bench) -> None:
    stream = made(bench, duplicate_window=10 * SECOND)
    ask(bench, stream, msg_id="old")
    bench.now += 5 * SECOND
    ask(bench, stream, msg_id="new")
    ask(bench, stream)
    bench.now += 5 * SECOND

    bench.restart()
    stream = bench.engine.streams["S"]

    assert ask(bench, stream, msg_id="old") == 4
    assert ask(bench, stream, msg_id="new") == ("duplicate", 2)
    bench.now += 5 * SECOND
    assert ask(bench, stream, msg_id="new") == 5


# Expectations ----------------------------------------------------------------------------------


def test_expected_last_sequence(bench: Bench) -> None:
    stream = made(bench)

    assert ask(bench, stream, expected_last_sequence="0") == 1
    assert ask(bench, stream, expected_last_sequence="0") == (10071, "wrong last sequence: 1")
    assert ask(bench, stream, expected_last_sequence="1") == 2
    assert ask(bench, stream, expected_last_sequence="junk") == (10071, "wrong last sequence: 2")
    assert ask(bench, stream, expected_last_sequence="-1") == (10071, "wrong last sequence: 2")
    assert ask(bench, stream, expected_last_sequence="000000000000000000000002") == 3
    assert code(ask(bench, stream, expected_last_sequence="9" * 40)) == 10071
    assert ask(bench, stream, expected_last_sequence="") == 4


def test_expected_last_subject_sequence(bench: Bench) -> None:
    stream = made(bench)
    name = "expected_last_subject_sequence"

    assert ask(bench, stream, b"s.1", **{name: "0"}) == 1
    assert ask(bench, stream, b"s.2", **{name: "0"}) == 2
    assert ask(bench, stream, b"s.1", **{name: "0"}) == (10071, "wrong last sequence: 1")
    assert ask(bench, stream, b"s.1", **{name: "1"}) == 3
    assert ask(bench, stream, b"s.9", **{name: "1"}) == (10071, "wrong last sequence: 0")


@pytest.mark.parametrize(("subject", "last"), [("s.1", 3), ("s.*", 4), ("s.>", 5), ("x.*", 0)])
def test_expected_last_sequence_of_another_subject(bench: Bench, subject: str, last: int) -> None:
    stream = made(bench)
    for known in (b"s.1", b"s.2", b"s.1", b"s.2", b"s.2.x"):
        ask(bench, stream, known)
    expect = {"expected_last_subject_sequence_subject": subject}

    wrong = ask(bench, stream, b"s.7", expected_last_subject_sequence="77", **expect)
    assert wrong == (10071, f"wrong last sequence: {last}")
    assert ask(bench, stream, b"s.7", expected_last_subject_sequence=str(last), **expect) == 6
    assert code(ask(bench, stream, b"s.7", **expect)) == 10193


def test_expectations_see_what_is_staged(bench: Bench) -> None:
    """Decisions use staged state, and their replies wait for it."""
    stream = made(bench)
    publish(bench, stream, expected_last_subject_sequence="0")
    publish(bench, stream, expected_last_subject_sequence="0")
    publish(bench, stream, expected_last_sequence="1")
    assert answers(bench) == []

    flush(bench)

    assert answers(bench) == [1, 2, (10071, "wrong last sequence: 1")]


def test_a_refusal_waits_for_the_state_it_stands_on(bench: Bench) -> None:
    """``wrong last sequence: N`` waits for the position of N."""
    stream = made(bench)
    publish(bench, stream)
    bench.submit()
    publish(bench, stream, expected_last_sequence="0")
    assert answers(bench) == []
    bench.land()
    assert answers(bench) == [1, (10071, "wrong last sequence: 1")]

    publish(bench, stream, expected_last_sequence="0")
    assert answers(bench) == [(10071, "wrong last sequence: 1")]


def test_a_refusal_that_stood_on_a_failed_group_says_so(bench: Bench) -> None:
    stream = made(bench)
    publish(bench, stream)
    bench.submit()
    publish(bench, stream, expected_last_sequence="0")

    bench.fail(NO_SPACE)

    assert [code(answer) for answer in answers(bench)] == [10023, 10023]


def test_expectations_of_a_failed_group_are_undone(bench: Bench) -> None:
    """The numbers are used up, but what readers see is what holds."""
    stream = made(bench)
    ask(bench, stream)
    publish(bench, stream)
    publish(bench, stream, b"s.2")
    bench.submit()
    bench.fail(NO_SPACE)
    answers(bench)

    assert ask(bench, stream, expected_last_sequence="3") == (10071, "wrong last sequence: 1")
    assert ask(bench, stream, b"s.2", expected_last_subject_sequence="0") == 4
    assert ask(bench, stream, expected_last_subject_sequence="1") == 5
    assert ask(bench, stream, expected_last_sequence="5") == 6


def test_expected_last_message_id(bench: Bench) -> None:
    stream = made(bench)

    assert ask(bench, stream, expected_last_msg_id="a") == (10070, "wrong last msg ID: ")
    assert ask(bench, stream, msg_id="a") == 1
    assert ask(bench, stream, expected_last_msg_id="b") == (10070, "wrong last msg ID: a")
    assert ask(bench, stream, msg_id="b", expected_last_msg_id="a") == 2
    bench.restart()
    stream = bench.engine.streams["S"]
    assert ask(bench, stream, expected_last_msg_id="a") == (10070, "wrong last msg ID: b")
    assert ask(bench, stream) == 3
    assert ask(bench, stream, expected_last_msg_id="b") == (10070, "wrong last msg ID: ")


def test_the_last_message_id_of_a_failed_group_is_forgotten(bench: Bench) -> None:
    stream = made(bench)
    ask(bench, stream, msg_id="a")
    publish(bench, stream, msg_id="b")
    publish(bench, stream)
    bench.submit()
    bench.fail(NO_SPACE)
    answers(bench)

    assert ask(bench, stream, expected_last_msg_id="a", msg_id="c") == 4


# The rest --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"expected_stream": "T"}, 10060),
        ({"stream_source": "T"}, 10227),
        ({"ttl": "5s"}, 10166),
        ({"ttl": "never"}, 10166),
        ({"ttl": "0"}, 10165),
        ({"ttl": "500ms"}, 10165),
        ({"ttl": "-5"}, 10165),
        ({"ttl": "junk"}, 10165),
        ({"rollup": "sub"}, 10111),
        ({"incr": "1"}, 10168),
        ({"incr": "1x"}, 10171),
        ({"schedule": "@at 2099-01-01T00:00:00Z"}, 10188),
        ({"schedule": "junk"}, 10188),
        ({"schedule_time_zone": ""}, 10188),
        ({"schedule_next": "purge"}, 10212),
        ({"scheduler": "x"}, 10212),
        ({"batch_id": "x"}, 10174),
        ({"fast_batch_id": "x"}, 10174),
        # Of two mistakes the one that nats-server looks at first is said.
        ({"incr": "x", "expected_stream": "T"}, 10171),
        ({"expected_stream": "T", "ttl": "5s"}, 10060),
        ({"ttl": "5s", "expected_last_subject_sequence": "9"}, 10166),
        ({"expected_last_subject_sequence_subject": "s", "expected_last_sequence": "9"}, 10193),
        ({"expected_last_sequence": "9", "schedule": "junk"}, 10071),
        ({"schedule": "junk", "stream_source": "T"}, 10188),
        ({"expected_last_msg_id": "q", "rollup": "sub"}, 10070),
        ({"rollup": "sub", "ttl": "junk"}, 10111),
    ],
)
def test_what_is_refused_and_in_which_order(
    bench: Bench, headers: dict[str, str], expected: int
) -> None:
    stream = made(bench)

    assert code(ask(bench, stream, **headers)) == expected
    assert stream.log.staged.seq == 0


def test_a_duplicate_is_found_before_a_wrong_last_id(bench: Bench) -> None:
    stream = made(bench)
    ask(bench, stream, msg_id="a")

    again = ask(bench, stream, msg_id="a", expected_last_msg_id="q", rollup="sub")
    assert again == ("duplicate", 1)
    assert code(ask(bench, stream, msg_id="a", expected_last_sequence="9")) == 10071


def test_unknown_headers_are_stored_unchanged(bench: Bench) -> None:
    stream = made(bench, allow_direct=True)

    assert ask(bench, stream, foo="1", schedule_target="t", batch_sequence="1") == 1
    (entry,) = bench.get(stream, b'{"seq":1}')
    assert entry[3].startswith(
        b"NATS/1.0\r\nNats-Foo: 1\r\nNats-Schedule-Target: t\r\nNats-Batch-Sequence: 1\r\n"
    )


def test_a_fast_batch_is_refused_by_its_reply_subject(bench: Bench) -> None:
    """A stream without allow_batched answers 10205."""
    stream = made(bench)

    bench.publish(stream, b"s.1", b"x", reply=b"_I.id.1.fail.0.1.$FI")

    assert code(answers(bench)[0]) == 10205
    assert stream.log.staged.seq == 0


def test_a_stream_without_acks_answers_nothing(bench: Bench) -> None:
    stream = made(bench, no_ack=True)
    publish(bench, stream)
    publish(bench, stream, expected_last_sequence="9")
    flush(bench)

    assert answers(bench) == []
    assert stream.log.index.messages == 1


def test_a_sealed_stream_takes_nothing(bench: Bench) -> None:
    stream = made(bench, sealed=True)

    assert ask(bench, stream) == (10109, "invalid operation on sealed stream")


def test_the_size_of_a_message_counts_its_headers(bench: Bench) -> None:
    stream = made(bench, max_msg_size=40)
    headers = block(foo="1")
    room = 40 - len(headers)

    bench.publish(stream, b"s.1", b"x" * room, reply=b"r", headers=headers)
    bench.publish(stream, b"s.1", b"x" * (room + 1), reply=b"r", headers=headers)
    bench.publish(stream, b"s.1", b"x" * 41, reply=b"r")
    flush(bench)

    assert answers(bench) == [
        (10054, "message size exceeds maximum allowed"),
        (10054, "message size exceeds maximum allowed"),
        1,
    ]
