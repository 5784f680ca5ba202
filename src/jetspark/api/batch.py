"""Acknowledgements of fast batches, in both dialects (ADR-50; decisions.md, Batches).

A PubAck closes a batch in either dialect; all other messages that the publisher receives while
the batch is open are here. ``decode_flow`` tells them apart.
"""

from typing import Final

import msgspec

from jetspark.api.base import ApiErrorBody, ApiStruct, decoder, shown
from jetspark.api.message import PubAck

__all__ = [
    "BatchFlowAck",
    "FlowAck",
    "FlowError",
    "FlowGap",
    "FlowMessage",
    "decode_flow",
]


class BatchFlowAck(ApiStruct, frozen=True, kw_only=True):
    """Header dialect: the current flow, and a gap when ``last_seq`` is set.

    Exactly one of ``messages`` and ``bytes`` is set: how often the server acknowledges.
    """

    last_seq: int = 0
    seq: int = 0
    messages: int = 0
    bytes: int = 0


class FlowAck(ApiStruct, frozen=True, kw_only=True):
    """``$FI`` dialect: everything up to ``seq`` is stored; the next ack follows ``msgs`` later."""

    type: str = shown("ack")
    seq: int = shown(0)
    msgs: int = shown(0)


class FlowGap(ApiStruct, frozen=True, kw_only=True):
    """``$FI`` dialect: batch sequence ``last_seq`` was expected and ``seq`` arrived."""

    type: str = shown("gap")
    last_seq: int = shown(0)
    seq: int = shown(0)


class FlowError(ApiStruct, frozen=True, kw_only=True):
    """``$FI`` dialect: the message with batch sequence ``seq`` was refused."""

    type: str = shown("err")
    seq: int = shown(0)
    error: ApiErrorBody = shown(ApiErrorBody())


FlowMessage = BatchFlowAck | FlowAck | FlowGap | FlowError | PubAck


class _Any(ApiStruct, frozen=True, kw_only=True):
    """The fields that distinguish the messages."""

    type: str = ""
    stream: str | None = None
    error: ApiErrorBody | None = None


_KIND: Final = decoder(_Any)
_PUB_ACK: Final = decoder(PubAck)
_BATCH_FLOW_ACK: Final = decoder(BatchFlowAck)
_BY_TYPE: Final[dict[str, msgspec.json.Decoder[FlowAck | FlowGap | FlowError]]] = {
    "ack": decoder(FlowAck),
    "gap": decoder(FlowGap),
    "err": decoder(FlowError),
}


def decode_flow(payload: bytes) -> FlowMessage:
    """Decode a message to the publisher of a fast batch.

    ADR-50 tells a flow ack from a PubAck by the absence of ``batch``; a PubAck always names its
    stream as well, also in the answer of a server without batches.
    Raises ``msgspec.MsgspecError`` if it is none of them.
    """
    kind = _KIND.decode(payload)
    by_type = _BY_TYPE.get(kind.type)
    if by_type is not None:
        return by_type.decode(payload)
    if kind.type:
        raise msgspec.ValidationError(f"unknown kind of batch message: {kind.type[:32]!r}")
    if kind.stream is not None or kind.error is not None:
        return _PUB_ACK.decode(payload)
    return _BATCH_FLOW_ACK.decode(payload)
