"""Pull requests, gets, batches and words: what is read without strictness (contracts.md, JSON)."""

import pickle

import msgspec
import pytest

from jetspark.api.base import ApiErrorBody, Timestamp, decoder, encode
from jetspark.api.batch import BatchFlowAck, FlowAck, FlowError, FlowGap, FlowMessage, decode_flow
from jetspark.api.consumer import (
    ConsumerConfig,
    NakOptions,
    PullRequest,
    decode_nak_options,
    decode_pull_request,
)
from jetspark.api.enums import AckPolicy, Retention
from jetspark.api.message import MsgGetRequest, PubAck, decode_msg_get, decode_pub_ack
from jetspark.api.stream import StreamConfig
from jetspark.units import seconds


@pytest.mark.parametrize(
    ("body", "batch"),
    [
        (b"", 1),
        (b"  ", 1),
        (b"7", 7),
        (b" 7\r\n", 7),
        (b"+7", 7),
        (b"-7", -7),
        (b"seven", 1),
        (b"1e3", 1),
        (b"99999999999999999999", 1),
        (b"{}", 0),
        (b'{"batch":5,"unknown":true}', 5),
    ],
)
def test_pull_request_is_nothing_a_number_or_json(body: bytes, batch: int) -> None:
    """Empty or a number is the batch, other text asks for one."""
    assert PullRequest(batch=batch) == decode_pull_request(body)


def test_pull_request_in_full() -> None:
    body = (
        b'{"expires":5000000000,"batch":3,"max_bytes":100,"no_wait":true,"idle_heartbeat":1000000000,'
        b'"group":"g","min_pending":1,"min_ack_pending":2,"id":"p","priority":4}'
    )
    request = decode_pull_request(body)

    assert request.expires == seconds(5)
    assert encode(request) == body


@pytest.mark.parametrize("body", [b"{", b'{"batch":"3"}', b'{"expires":1.5}', b'{"batch":3} x'])
def test_broken_pull_request_raises(body: bytes) -> None:
    """wire.md, Consumers: 400 Bad Request."""
    with pytest.raises(msgspec.MsgspecError):
        decode_pull_request(body)


def test_nak_options() -> None:
    assert NakOptions(delay=seconds(2)) == decode_nak_options(b'{"delay":2000000000,"x":1}')


def test_direct_get_is_read_tolerantly() -> None:
    """wire.md: unknown fields of DIRECT.GET are ignored."""
    request = decode_msg_get(
        b'{"multi_last":["a.>"],"up_to_time":"1970-01-01T00:00:01Z","min_last_seq":4,"zz":{}}'
    )

    assert request == MsgGetRequest(
        multi_last=("a.>",), up_to_time=Timestamp(1_000_000_000), min_last_seq=4
    )


@pytest.mark.parametrize("body", [b'{"seq":-1}', b'{"seq":"1"}', b'{"start_time":"x"}', b"x"])
def test_malformed_direct_get_raises(body: bytes) -> None:
    """wire.md, Direct get: 408 Malformed Request."""
    with pytest.raises(msgspec.MsgspecError):
        decode_msg_get(body)


def test_sequences_are_cut_to_signed_64_bits() -> None:
    request = decode_msg_get(b'{"seq":18446744073709551615,"up_to_seq":5}')

    assert (request.seq, request.up_to_seq, request.min_last_seq) == (2**63 - 1, 5, 0)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_numbers_beyond_64_bits_are_refused(value: int) -> None:
    with pytest.raises(msgspec.ValidationError):
        decoder(StreamConfig).decode(b'{"max_msgs":%d}' % value)
    with pytest.raises(msgspec.ValidationError):
        decoder(ConsumerConfig).decode(b'{"ack_wait":%d}' % value)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (b'{"type":"ack","seq":2,"msgs":10}', FlowAck(seq=2, msgs=10)),
        (b'{"type":"gap","last_seq":4,"seq":7}', FlowGap(last_seq=4, seq=7)),
        (
            b'{"type":"err","seq":1,"error":{"code":400,"err_code":10071,"description":"d"}}',
            FlowError(seq=1, error=ApiErrorBody(code=400, err_code=10071, description="d")),
        ),
        (b'{"seq":10,"messages":10}', BatchFlowAck(seq=10, messages=10)),
        (b'{"last_seq":3,"seq":9,"bytes":1024}', BatchFlowAck(last_seq=3, seq=9, bytes=1024)),
        (
            b'{"stream":"A","seq":8,"batch":"b","count":8}',
            PubAck(stream="A", seq=8, batch="b", count=8),
        ),
        (b'{"stream":"A","seq":8}', PubAck(stream="A", seq=8)),
        (
            b'{"error":{"code":400,"err_code":10208,"description":"d"},"stream":"A","seq":0}',
            PubAck(error=ApiErrorBody(code=400, err_code=10208, description="d"), stream="A"),
        ),
    ],
)
def test_messages_of_a_fast_batch_are_recognised(wire: bytes, expected: FlowMessage) -> None:
    """ADR-50, BatchFlowAck and PubAck; wire.md, Batches for the released dialect."""
    assert expected == decode_flow(wire)
    assert wire == encode(expected)


@pytest.mark.parametrize("wire", [b"", b"[]", b'{"type":"wave"}', b'{"seq":"x"}'])
def test_what_is_no_batch_message_raises(wire: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_flow(wire)


def test_pub_ack_of_a_duplicate_with_a_blank() -> None:
    """Observed: nats-server 2.15.1 writes this one with a blank."""
    wire = b'{"stream":"A","seq":4,"duplicate": true}'

    assert PubAck(stream="A", seq=4, duplicate=True) == decode_pub_ack(wire)


def test_word_of_a_newer_server_is_kept() -> None:
    config = decoder(ConsumerConfig).decode(b'{"ack_policy":"flow_control"}')

    assert config.ack_policy == "flow_control"
    assert not config.ack_policy.known
    assert b'"ack_policy":"flow_control"' in encode(config)
    assert config == pickle.loads(pickle.dumps(config))


def test_unknown_words_are_not_mistaken_for_each_other() -> None:
    assert AckPolicy("x") != AckPolicy("y")
    assert AckPolicy("x") == AckPolicy("x")
    assert list(Retention) == [Retention.LIMITS, Retention.INTEREST, Retention.WORKQUEUE]
    assert all(word.known for word in Retention)


def test_a_number_is_no_word() -> None:
    with pytest.raises(msgspec.ValidationError):
        decoder(ConsumerConfig).decode(b'{"ack_policy":1}')
