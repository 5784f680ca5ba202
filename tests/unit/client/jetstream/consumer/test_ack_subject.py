"""ADR-15, "JSAck": which reply subjects are acknowledgement subjects, and what they say."""

import pytest

from jetspark.client.jetstream.consumer.ack_subject import delivery_numbers, parse_ack_subject
from jetspark.errors import NotJetStreamMessage

V1 = "$JS.ACK.ORDERS.worker.2.17.5.1640995200123456789.3"
V2 = "$JS.ACK.hub.ACCHASH.ORDERS.worker.2.17.5.1640995200123456789.3"


def test_the_nine_token_form_is_read() -> None:
    found = parse_ack_subject(V1)

    assert (found.stream, found.consumer) == ("ORDERS", "worker")
    assert (found.num_delivered, found.stream_seq, found.consumer_seq) == (2, 17, 5)
    assert (found.time_ns, found.num_pending) == (1640995200123456789, 3)
    assert (found.domain, found.account_hash) == (None, None)
    assert found.time.isoformat() == "2022-01-01T00:00:00.123456+00:00"


@pytest.mark.parametrize("more", ["", ".random", ".random.and.more"])
def test_eleven_and_more_tokens_are_read(more: str) -> None:
    found = parse_ack_subject(V2 + more)

    assert (found.stream, found.consumer) == ("ORDERS", "worker")
    assert (found.stream_seq, found.consumer_seq, found.num_pending) == (17, 5, 3)
    assert (found.domain, found.account_hash) == ("hub", "ACCHASH")


def test_no_domain_is_none() -> None:
    """ADR-15: "When there is no domain, the server will still set the token to ... underscore"."""
    assert parse_ack_subject(V2.replace(".hub.", "._.")).domain is None


@pytest.mark.parametrize("reply", [V1, V2, V2 + ".x"])
def test_the_short_reading_agrees(reply: str) -> None:
    time_ns = parse_ack_subject(reply).time_ns

    assert delivery_numbers(reply) == (17, 5, time_ns, 3)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "_INBOX.x",
        "$JS.API.STREAM.NAMES",
        "$JS.ACK",
        V1.rpartition(".")[0],
        V1 + ".10",
        V1.replace(".17.", ".x."),
        V1.replace(".17.", ".-17."),
        V2.replace(".5.", ".five."),
        V1.replace(".17.", "."),
        V1.replace(".17.", ".."),
        V1.replace(".17.", ".1_7."),
        V1.replace(".17.", ".+17."),
        V1.replace(".17.", ".\N{ARABIC-INDIC DIGIT ONE}."),
        V1.replace(".worker.2.", ".worker.x."),
        V2.replace(".worker.2.", ".worker.-2."),
    ],
)
def test_anything_else_is_an_error(reply: str) -> None:
    """ADR-15: not $JS.ACK, not 9 tokens, not 11 or more, or tokens of the wrong type."""
    with pytest.raises(NotJetStreamMessage):
        parse_ack_subject(reply)
    with pytest.raises(NotJetStreamMessage):
        delivery_numbers(reply)
