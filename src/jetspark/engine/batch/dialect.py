"""Fast ingest on the wire: a message's place in its batch, in either dialect (decisions.md).

The released dialect uses the reply subject, ``<prefix>.<id>.<flow>.<gap>.<seq>.<op>.$FI``, parsed
from the right; ADR-50 uses headers.
"""

from dataclasses import dataclass
from typing import Final

from jetspark.engine.batch.members import BY_HEADERS, BY_REPLY
from jetspark.engine.stream.expectations import NO_SEQUENCE, expected_sequence
from jetspark.engine.stream.headers import PublishHeaders
from jetspark.errors.bodies import error_body, fast_header_body
from jetspark.errors.codes import ErrCode

# ADR-50; released servers use the code for something else (decisions.md).
GAP_INVALID: Final = 10202

START: Final = 0
APPEND: Final = 1
COMMIT: Final = 2
END: Final = 3
PING: Final = 4

FLOW_DEFAULT: Final = 10  # for anything that is not a number, as in released servers
FLOW_MAX: Final = 65_535
FLOW_BYTES_MAX: Final = 2**40
GAP_MODES: Final = (b"ok", b"fail")
# Batch sequences are unsigned 64-bit words on the wire; no client counts beyond ours.
NUMBER_MAX: Final = 2**62
_UNSIGNED_MAX: Final = 2**64 - 1
_DIGITS_MAX: Final = 20
_LARGEST: Final = b"%d" % _UNSIGNED_MAX  # in a reply subject it means none
_TOKENS: Final = 7  # id, flow, gap, sequence, operation, $FI, and everything before the id


@dataclass(slots=True)
class Part:
    """One message of a fast batch, as its publisher describes it."""

    dialect: int
    batch_id: bytes
    op: int
    seq: int
    gap_ok: bool
    flow: int
    flow_bytes: int = 0
    # The part of the reply subject that all messages of the batch share.
    head: bytes = b""


def batch_number(text: bytes) -> int:
    """Return a batch sequence; NO_SEQUENCE if invalid. Values beyond our words are clamped."""
    if not text.isdigit() or len(text.lstrip(b"0")) > _DIGITS_MAX or int(text) > _UNSIGNED_MAX:
        return NO_SEQUENCE
    return min(int(text), NUMBER_MAX)


def parse_reply(reply: bytes) -> Part | None:
    """Parse a reply subject that ends with ``.$FI``; None if it is not one of fast ingest."""
    tokens = reply.rsplit(b".", _TOKENS - 1)
    if len(tokens) < _TOKENS:
        return None
    _, batch_id, flow, gap, number, op_word, _ = tokens
    op = int(expected_sequence(op_word)) if op_word else NO_SEQUENCE
    seq = batch_number(number)
    if (
        not START <= op <= PING
        or seq <= 0
        or number.lstrip(b"0") == _LARGEST
        or gap not in GAP_MODES
        or (op == START and seq != 1)
        or (op in {APPEND, END} and seq == 1)
    ):
        return None
    head = reply[: len(reply) - len(number) - len(op_word) - len(b"..$FI")]
    return Part(BY_REPLY, batch_id, op, seq, gap == b"ok", _messages(flow), 0, head)


def parse_headers(headers: PublishHeaders, reply: bytes) -> Part | bytes:
    """Parse the headers of ADR-50; return an error body if they do not describe a batch."""
    seq = batch_number(headers.batch_seq)
    if seq == NO_SEQUENCE:
        return fast_header_body(ErrCode.ATOMIC_SEQUENCE_MISSING)
    # Absent means fail; any other word ends the batch, an empty one too.
    if headers.has_gap and headers.batch_gap not in GAP_MODES:
        return fast_header_body(GAP_INVALID)
    op = START if seq == 1 else APPEND
    if headers.has_commit:
        if headers.batch_commit == b"1":
            op = COMMIT
        elif headers.batch_commit == b"eob":
            op = END
        else:
            return error_body(ErrCode.ATOMIC_COMMIT_INVALID)
    size = _bytes(headers.flow)
    return Part(
        BY_HEADERS,
        headers.fast_batch_id,
        op,
        seq,
        headers.batch_gap == b"ok",
        0 if size else _messages(headers.flow),
        size,
        reply,
    )


def _messages(text: bytes) -> int:
    """Return how many messages an ack is requested for; the default if invalid."""
    number = int(expected_sequence(text)) if text else 0
    return min(number, FLOW_MAX) if number > 0 else FLOW_DEFAULT


def _bytes(text: bytes) -> int:
    """Return how many bytes an ack is requested for; 0 if the flow does not count bytes."""
    number = int(expected_sequence(text[:-1])) if text[-1:] == b"B" and len(text) > 1 else 0
    return min(max(number, 0), FLOW_BYTES_MAX)
