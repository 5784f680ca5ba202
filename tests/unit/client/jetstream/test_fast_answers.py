"""What a fast batch concludes from what it receives, without a server (ADR-50, client design)."""

from typing import Literal

import pytest

from jetspark.client.jetstream.publishing.fast_answers import FastAnswers
from jetspark.client.jetstream.publishing.fast_dialect import HeaderDialect, ReplyDialect
from jetspark.client.jetstream.publishing.fast_window import FastWindow
from jetspark.client.message import Message
from jetspark.errors import BatchIncomplete, NoResponders, PayloadTooLarge

NOBODY = Message("r.500.ok.7.1.$FI", b"", "", b"NATS/1.0 503\r\n\r\n")
ANSWERED = ".4.$FI"  # the reply subject of a ping


class Batch:
    """Answers to a batch of which ten messages were sent."""

    def __init__(self, gap: Literal["fail", "ok"], *, can_ping: bool = True) -> None:
        self.gaps: list[tuple[int, int]] = []
        self.window = FastWindow(5, 0, 2)
        self.window.send_many(10)
        self.answers = FastAnswers(
            self.window,
            gap,
            can_ping=can_ping,
            on_gap=lambda *gap: self.gaps.append(gap),
            on_refused=None,
            report=lambda _error: None,
        )

    def hear(self, body: bytes, subject: str = "r.1.$FI") -> None:
        self.answers.take(Message(subject, body), "s")


def test_an_early_end_says_how_much_is_stored() -> None:
    batch = Batch("fail")
    batch.hear(b'{"stream":"S","seq":7,"batch":"b","count":7}')

    with pytest.raises(BatchIncomplete, match="after 7 of 10 messages"):
        batch.answers.check()
    assert (batch.answers.exact, batch.window.acked) == (True, 7)


def test_an_unknown_batch_may_still_get_its_last_ack() -> None:
    batch = Batch("fail")
    batch.hear(b'{"error":{"code":400,"err_code":10208,"description":"x"},"stream":"S","seq":0}')
    batch.answers.check()
    assert batch.answers.unknown is not None
    assert not batch.answers.exact

    batch.hear(b'{"stream":"S","seq":7,"batch":"b","count":7}')

    assert batch.answers.exact


@pytest.mark.parametrize("gap", ["fail", "ok"])
def test_no_responders_on_the_subject_mean_a_leader_to_wait_for(
    gap: Literal["fail", "ok"],
) -> None:
    batch = Batch(gap)
    batch.answers.take(NOBODY, "s")

    batch.answers.check()
    assert batch.answers.leaderless
    assert not batch.answers.quiet


@pytest.mark.parametrize(
    "ack",
    [b'{"type":"ack","seq":10,"msgs":2}', b'{"seq":10,"messages":2}'],
    ids=["reply", "headers"],
)
def test_the_flow_of_an_ack_is_the_one_in_force(ack: bytes) -> None:
    """ADR-50: clients adjust to acks whose flow differs from the active one."""
    batch = Batch("fail")
    batch.hear(ack)

    assert (batch.window.flow, batch.window.room(), batch.window.acked) == (2, 4, 10)


def test_no_responders_for_the_first_message_mean_no_stream() -> None:
    batch = Batch("ok")
    batch.window.sent = 1
    batch.answers.take(NOBODY, "s")

    with pytest.raises(NoResponders):
        batch.answers.check()


def test_who_cannot_ask_gives_up() -> None:
    batch = Batch("fail", can_ping=False)
    batch.hear(b'{"seq":5,"messages":5}')
    batch.answers.take(NOBODY, "s")

    with pytest.raises(BatchIncomplete, match="at least 5 of 10 messages"):
        batch.answers.check()
    assert not batch.answers.exact


def test_a_gap_that_two_cuts_may_have_hidden_is_reported() -> None:
    """The server tells of a gap once; who did not hear the answer to a ping cannot know."""
    batch = Batch("ok")
    batch.hear(b'{"type":"ack","seq":5,"msgs":5}')
    batch.answers.on_cut()
    batch.window.send_many(3)
    batch.answers.on_cut()

    assert batch.gaps == [(6, 11)]


def test_an_answer_to_a_ping_settles_a_cut() -> None:
    batch = Batch("ok")
    batch.answers.on_cut()
    batch.hear(b'{"type":"gap","last_seq":8,"seq":11}', ANSWERED)
    batch.hear(b'{"type":"ack","seq":10,"msgs":5}', ANSWERED)
    batch.answers.on_cut()

    assert batch.gaps == [(8, 11)]


@pytest.mark.parametrize("dialect", ["reply", "headers"])
def test_frames_of_columns_are_those_of_single_messages(dialect: str) -> None:
    made = (
        ReplyDialect("_I", "b", 5, "ok")
        if dialect == "reply"
        else HeaderDialect("_I", "b", "5", "ok")
    )
    block = b"NATS/1.0\r\nA: b\r\n\r\n"
    frames = made.frames(9, [b"s", b"t"], [b"", block], [b"one", b"two"], 1000)
    marks = [made.mark(9, 1, b""), made.mark(10, 1, block)]

    for frame, subject, (reply, marked), payload in zip(
        frames, (b"s", b"t"), marks, (b"one", b"two"), strict=True
    ):
        sizes = b"%d %d" % (len(marked), len(marked) + 3) if marked else b"3"
        verb = b"HPUB" if marked else b"PUB"
        head = b"%b %b %b %b\r\n" % (verb, subject, reply, sizes)
        assert frame == head + marked + payload + b"\r\n"
    with pytest.raises(PayloadTooLarge):
        made.frames(1, [b"s"], [b""], [bytes(2000)], 1000)


def test_frames_end_where_enough_bytes_are() -> None:
    made = ReplyDialect("_I", "b", 5, "ok")

    frames = made.frames(1, [b"s"] * 9, [b""] * 9, [bytes(100_000)] * 9, 1 << 20)

    assert len(frames) == 3
