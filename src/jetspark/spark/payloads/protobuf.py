"""Protobuf payloads as rows for columns."""

from collections.abc import Sequence
from typing import Any

from jetspark.errors import PayloadMismatch
from jetspark.schemas.protobuf.codec import ProtobufCodec
from jetspark.spark.payloads.plan import DecodePlan
from jetspark.spark.payloads.rows import Decoded


class ProtobufRows:
    """Decodes one message per payload into a dict."""

    def __init__(self, plan: DecodePlan) -> None:
        self._codec = ProtobufCodec(plan.reader)

    def decode(self, payloads: Sequence[bytes | None], versions: Sequence[int] = ()) -> Decoded:
        """Return a dict for each payload; None for None and for undecodable ones."""
        del versions  # numbers are in the payload
        rows: list[Any] = []
        reasons: dict[int, str] = {}
        for index, payload in enumerate(payloads):
            rows.append(None)
            if payload is None:
                continue
            try:
                rows[index] = self._codec.decode(payload, self._codec)
            except PayloadMismatch as error:
                reasons[index] = str(error)
        return Decoded(rows, reasons)
