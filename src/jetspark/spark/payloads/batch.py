"""Decodes one Arrow array of payloads into one struct array of columns, in a task."""

import gc
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from jetspark.errors import PayloadMismatch
from jetspark.spark.payloads.columns import UNFIT, ColumnBuilder, taken
from jetspark.spark.payloads.plan import DecodePlan, PayloadFormat
from jetspark.spark.payloads.quick import QuickDecoder
from jetspark.spark.payloads.references import References, Written
from jetspark.spark.payloads.rows import Decoded, MsgspecRows, RowDecoder

# A worker process serves one query after the other; creating a decoder takes a millisecond.
_DECODERS_KEPT: Final = 16
_EXCERPT: Final = 200


class BatchDecoder:
    """Decodes batches by one plan."""

    def __init__(self, plan: DecodePlan) -> None:
        self._rescue = plan.rescue
        self._fields = plan.arrow_fields()
        self._columns = self._fields if plan.rescue is None else self._fields[:-1]
        self._rows = _row_decoder(plan)
        by_name = plan.format in {PayloadFormat.AVRO, PayloadFormat.PROTOBUF}
        self._builder = ColumnBuilder(by_name=by_name, epoch=plan.epoch, zone=plan.zone)
        self._quick = None if by_name else QuickDecoder(plan, self._builder)
        self._references = References(plan)
        self._json = plan.format is PayloadFormat.JSON

    def decode(self, payloads: pa.Array, references: pa.Array | None = None) -> pa.Array:
        """Return a struct for each payload, binary or text; the struct itself is never NULL.

        ``references``: the header of each message that names its schema.
        """
        # A batch creates thousands of structs and lists that live until its end and form no
        # cycles. The cyclic collector would traverse them repeatedly, which took half the time.
        collecting = gc.isenabled()
        gc.disable()
        try:
            return self._decode(payloads, references)
        finally:
            if collecting:
                gc.enable()

    def _decode(self, payloads: pa.Array, references: pa.Array | None) -> pa.Array:
        if not pa.types.is_binary(payloads.type):
            try:
                payloads = payloads.cast(pa.binary())
            except pa.ArrowNotImplementedError:
                raise TypeError(
                    f"the column of payloads is {payloads.type}: expected binary or string"
                ) from None
        written = Written([], {}) if references is None else self._references.read(references)
        text = not self._json or is_text(payloads)
        quick = None if written.reasons or not text else self._quick
        arrays = None if quick is None else quick.decode(payloads)
        if arrays is not None:
            if self._rescue is not None:
                arrays.append(pa.nulls(len(payloads), self._fields[-1].type))
            return pa.StructArray.from_arrays(arrays, fields=self._fields)
        given: list[bytes | None] = payloads.to_pylist()
        arrays, reasons = self._exactly(given, written)
        if not text:
            reasons = _not_text(given) | reasons
        if self._rescue is not None:
            arrays.append(self._rescued(given, reasons))
        elif reasons:
            row, reason = min(reasons.items())
            raise PayloadMismatch(
                f"{reason} (payload {(given[row] or b'')[:_EXCERPT]!r}). To keep such payloads "
                "with the reason in a separate column, call the decoder with rescue="
            )
        return pa.StructArray.from_arrays(arrays, fields=self._fields)

    def _exactly(
        self, given: list[bytes | None], written: Written
    ) -> tuple[list[pa.Array], dict[int, str]]:
        """Return the columns, NULL where a value does not match, and the reasons by row."""
        if written.reasons:
            given = [None if row in written.reasons else one for row, one in enumerate(given)]
        rows, reasons = self._rows.decode(given, written.versions)
        decoded = Decoded(rows, reasons | written.reasons)
        arrays = [self._column(index, field, decoded) for index, field in enumerate(self._columns)]
        return arrays, decoded.reasons

    def _column(self, index: int, field: pa.Field, decoded: Decoded) -> pa.Array:
        get = self._builder.getter(index, field.name)
        values = taken(get, decoded.rows, whole=decoded.whole)
        try:
            return self._builder.build(values, field.type)
        except UNFIT:
            # For example a decimal with too many digits: find out which, and keep the others.
            self._rescue_unfit(values, field, decoded.reasons)
            return self._builder.build(values, field.type)

    def _rescue_unfit(self, values: list[Any], field: pa.Field, reasons: dict[int, str]) -> None:
        for row, value in enumerate(values):
            try:
                self._builder.build([value], field.type)
            except UNFIT as error:
                values[row] = None
                reason = f"{field.name}: {error}"
                reasons[row] = f"{reasons[row]}; {reason}" if row in reasons else reason

    def _rescued(self, payloads: list[bytes | None], reasons: dict[int, str]) -> pa.Array:
        kind = self._fields[-1].type
        if not reasons:
            return pa.nulls(len(payloads), kind)
        every = range(len(payloads))
        text = [reasons.get(row) for row in every]
        data = [payloads[row] if row in reasons else None for row in every]
        # Names from a payload may not be valid UTF-8.
        clean = [None if one is None else one.encode(errors="replace").decode() for one in text]
        return pa.StructArray.from_arrays(
            [pa.array(clean, pa.string()), pa.array(data, pa.binary())],
            fields=list(kind),
            mask=pa.array([one is None for one in text], pa.bool_()),
        )


def is_text(payloads: pa.Array) -> bool:
    """Whether all payloads are UTF-8; a decoder does not look at fields that are left out."""
    try:
        payloads.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _not_text(payloads: list[bytes | None]) -> dict[int, str]:
    """Return a reason for each payload that is not UTF-8: a field of it may be unrecognizable."""
    reasons: dict[int, str] = {}
    for row, payload in enumerate(payloads):
        try:
            (payload or b"").decode()
        except UnicodeDecodeError as error:
            reasons[row] = f"invalid JSON: byte {error.start} is not UTF-8"
    return reasons


def _row_decoder(plan: DecodePlan) -> RowDecoder:
    if plan.format is PayloadFormat.AVRO:
        from jetspark.spark.payloads.avro import AvroRows

        return AvroRows(plan)
    if plan.format is PayloadFormat.PROTOBUF:
        from jetspark.spark.payloads.protobuf import ProtobufRows

        return ProtobufRows(plan)
    return MsgspecRows(plan)


@lru_cache(maxsize=_DECODERS_KEPT)
def decoder_of(plan: DecodePlan) -> BatchDecoder:
    """Return the decoder of a plan, created once per worker process."""
    return BatchDecoder(plan)
