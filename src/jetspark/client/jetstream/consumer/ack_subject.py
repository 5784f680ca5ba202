"""The acknowledgement subject of a delivered message (ADR-15, "JSAck") and its metadata.

Two forms: 9 tokens, ``$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer
seq>.<time>.<pending>``, and 11 or more, with ``<domain>.<account hash>`` after ``$JS.ACK``; tokens
after the eleventh are for routing.
"""

import re
from datetime import datetime
from typing import Final

import msgspec

from jetspark.client.jetstream.timestamps import from_nanoseconds
from jetspark.errors import NotJetStreamMessage

_V1_TOKENS: Final = 9
_V2_TOKENS: Final = 11
_NO_DOMAIN: Final = "_"
# The form with 9 tokens, which servers send by default.
_USUAL: Final = re.compile(
    r"\$JS\.ACK\.[^.]+\.[^.]+\.[0-9]+\.([0-9]+)\.([0-9]+)\.([0-9]+)\.([0-9]+)"
).fullmatch

DeliveryNumbers = tuple[int, int, int, int]


class MessageMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of a delivery.

    ``num_delivered`` counts deliveries of this message from 1, ``consumer_seq`` counts deliveries
    of the consumer, ``num_pending`` is the number of messages not delivered yet after this one.
    ``domain`` is None if the server has none (``_`` on the wire) or does not send it.
    """

    stream: str
    consumer: str
    num_delivered: int
    stream_seq: int
    consumer_seq: int
    time_ns: int
    num_pending: int
    domain: str | None = None
    account_hash: str | None = None

    @property
    def time(self) -> datetime:
        """``time_ns``, when the message was stored, as UTC, truncated to microseconds."""
        return from_nanoseconds(self.time_ns)


def parse_ack_subject(reply: str) -> MessageMetadata:
    """Parse an acknowledgement subject; NotJetStreamMessage if it is invalid."""
    domain: str | None = None
    account: str | None = None
    tokens = reply.split(".")
    if tokens[:2] != ["$JS", "ACK"]:
        raise NotJetStreamMessage(
            f"reply subject {reply!r} does not begin with $JS.ACK: the message was not delivered "
            "by a consumer"
        )
    if len(tokens) >= _V2_TOKENS:
        domain = None if tokens[2] == _NO_DOMAIN else tokens[2]
        account = tokens[3]
        fields = tokens[4:11]
    elif len(tokens) == _V1_TOKENS:
        fields = tokens[2:]
    else:
        raise NotJetStreamMessage(
            f"ack subject {reply!r} has {len(tokens)} tokens: expected 9, or 11 or more"
        )
    numbers = fields[2:]
    if not all(text.isascii() and text.isdecimal() for text in numbers):
        raise NotJetStreamMessage(
            f"ack subject {reply!r}: expected numbers after the consumer's name, got "
            f"{'.'.join(numbers)!r}"
        )
    delivered, stream_seq, consumer_seq, time_ns, pending = map(int, numbers)
    return MessageMetadata(
        stream=fields[0],
        consumer=fields[1],
        num_delivered=delivered,
        stream_seq=stream_seq,
        consumer_seq=consumer_seq,
        time_ns=time_ns,
        num_pending=pending,
        domain=domain,
        account_hash=account,
    )


def delivery_numbers(reply: str) -> DeliveryNumbers:
    """Stream sequence, consumer sequence, time in ns and pending count, parsed quickly."""
    usual = _USUAL(reply)
    if usual is not None:
        stream_seq, consumer_seq, time_ns, pending = usual.groups()
        return int(stream_seq), int(consumer_seq), int(time_ns), int(pending)
    whole = parse_ack_subject(reply)  # raises with the reason
    return whole.stream_seq, whole.consumer_seq, whole.time_ns, whole.num_pending
