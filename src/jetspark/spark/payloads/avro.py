"""Avro payloads as rows for columns."""

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql.types import StructType

from jetspark.errors import PayloadMismatch
from jetspark.schemas.avro import MARKER, AvroCodec, record_of, single_object_head
from jetspark.spark.payloads.plan import DecodePlan
from jetspark.spark.payloads.rows import Decoded
from jetspark.spark.payloads.spark_types import columns_of

_HEAD: Final = 10


def spark_schema(text: str, what: str) -> StructType:
    """Return the columns of an Avro record; raises ``InvalidSchema`` with all problems."""
    return columns_of(record_of(text, what))


class AvroRows:
    """Decodes one record per payload into a dict."""

    def __init__(self, plan: DecodePlan) -> None:
        self._writer = AvroCodec(plan.writer)
        self._reader = AvroCodec(plan.reader) if plan.reader else self._writer
        self._head = single_object_head(plan.writer) if plan.framing != "plain" else b""
        self._writers = {version: AvroCodec(text) for version, text in plan.versions}

    def decode(self, payloads: Sequence[bytes | None], versions: Sequence[int] = ()) -> Decoded:
        """Return a dict for each payload; None for None and for undecodable ones."""
        rows: list[Any] = []
        reasons: dict[int, str] = {}
        skip = len(self._head)
        for index, payload in enumerate(payloads):
            rows.append(None)
            if payload is None:
                continue
            if not payload.startswith(self._head):
                reasons[index] = self._other_head(payload)
                continue
            writer = self._writers[versions[index]] if versions else self._writer
            try:
                rows[index] = self._reader.decode(payload[skip:], writer)
            except PayloadMismatch as error:
                reasons[index] = str(error)
        return Decoded(rows, reasons)

    def _other_head(self, payload: bytes) -> str:
        if len(payload) < _HEAD or not payload.startswith(MARKER):
            return "not Avro single-object encoding: it does not start with C3 01"
        return (
            f"written with another schema: its fingerprint is {payload[2:_HEAD].hex()}, "
            f"expected {self._head[2:].hex()}"
        )
