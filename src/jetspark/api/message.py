"""Stored messages on the wire: publish acknowledgements, gets and deletes."""

from typing import Final

from msgspec.structs import force_setattr

from jetspark.api.base import (
    INT64_MAX,
    ZERO_TIME,
    ApiErrorBody,
    ApiStruct,
    Count,
    Int64,
    Response,
    Success,
    Timestamp,
    Unsigned,
    decoder,
    shown,
)
from jetspark.api.tolerant import Tolerant

__all__ = [
    "MSG_DELETE",
    "MSG_GET",
    "CounterValue",
    "MsgDeleteRequest",
    "MsgGetRequest",
    "MsgGetResponse",
    "PubAck",
    "StoredMessage",
    "decode_msg_get",
    "decode_msg_get_response",
    "decode_pub_ack",
]


class PubAck(ApiStruct, frozen=True, kw_only=True):
    """The answer to a publish: where the message was stored, or why it was refused.

    The batch fields close an atomic or fast batch (ADR-50); ``val`` is the new value of a counter.
    """

    error: ApiErrorBody | None = None
    stream: str = shown("")
    seq: int = shown(0)
    domain: str = ""
    duplicate: bool = False
    val: str = ""
    batch: str = ""
    count: int = 0


class CounterValue(ApiStruct, frozen=True, kw_only=True):
    """Body of a counter message: an integer of any size, as text."""

    val: str = shown("0")


class MsgGetRequest(ApiStruct, frozen=True, kw_only=True):
    """Body of STREAM.MSG.GET and DIRECT.GET (ADR-31; ``min_last_seq`` ADR-53).

    Sequences beyond 2**63 - 1 become that number: clients may send the largest unsigned one for
    *all*, and the engine counts in signed 64 bits.
    """

    seq: Unsigned = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    batch: Int64 = 0
    max_bytes: Int64 = 0
    start_time: Timestamp | None = None
    multi_last: tuple[str, ...] = ()
    up_to_seq: Unsigned = 0
    up_to_time: Timestamp | None = None
    no_hdr: bool = False
    min_last_seq: Unsigned = 0

    def __post_init__(self) -> None:
        """Limit sequences to 64 signed bits."""
        if max(self.seq, self.up_to_seq, self.min_last_seq) > INT64_MAX:
            for name in ("seq", "up_to_seq", "min_last_seq"):
                force_setattr(self, name, min(getattr(self, name), INT64_MAX))


class StoredMessage(ApiStruct, frozen=True, kw_only=True):
    """A message as MSG.GET shows it; ``hdrs`` is the whole header block."""

    subject: str = shown("")
    seq: int = shown(0)
    hdrs: bytes = b""
    data: bytes = b""
    time: Timestamp = shown(ZERO_TIME)


class MsgGetResponse(ApiStruct, frozen=True, kw_only=True):
    """Answer of STREAM.MSG.GET, error or not.

    ``min_last_seq`` is present only if the request had one: the last sequence of the copy that
    answered, next to ``message`` or ``error`` (decisions.md, Read-after-write). It is 0 in an
    answer that proves nothing.
    """

    error: ApiErrorBody | None = None
    message: StoredMessage | None = None
    min_last_seq: int = 0


class MsgDeleteRequest(ApiStruct, frozen=True, kw_only=True):
    """Body of STREAM.MSG.DELETE."""

    seq: Count = shown(0)
    no_erase: bool = False


MSG_GET: Final = Response("stream_msg_get", MsgGetResponse)
MSG_DELETE: Final = Response("stream_msg_delete", Success)

decode_pub_ack: Final = decoder(PubAck).decode
# The error too, because a 404 without ``min_last_seq`` does not prove that the message is missing.
decode_msg_get_response: Final = decoder(MsgGetResponse).decode
decode_msg_get: Final = Tolerant(MsgGetRequest).decode
