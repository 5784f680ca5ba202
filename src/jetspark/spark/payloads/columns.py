"""Converts decoded values to Arrow arrays, including nested ones, without a dict per value."""

import datetime as dt
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from operator import attrgetter, itemgetter
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from jetspark.schemas.shapes import FLOAT_MAX
from jetspark.spark.payloads.plan import EPOCH_UNITS

# Raised by Arrow for a value that does not fit its type.
UNFIT: Final = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError, ValueError)

Getter = Callable[[Any], Any]


def taken(get: Getter, structs: Sequence[Any], *, whole: bool) -> list[Any]:
    """Return a field of each struct, None where there is no struct; ``whole``: none is missing."""
    if whole:
        return list(map(get, structs))
    return [None if one is None else get(one) for one in structs]


class ColumnBuilder:
    """Builds arrays. ``by_name``: structs are dicts; otherwise structs of Shapes."""

    def __init__(self, *, by_name: bool, epoch: str = "", zone: str = "UTC") -> None:
        self._by_name = by_name
        self._epoch = epoch
        self._scale = EPOCH_UNITS.get(epoch, 1)
        self._zone = None if zone == "UTC" else ZoneInfo(zone)

    def getter(self, index: int, name: str) -> Getter:
        """Return a function that gets a field of a decoded struct."""
        return itemgetter(name) if self._by_name else attrgetter(f"f{index}")

    def build(self, values: Sequence[Any], kind: pa.DataType) -> pa.Array:
        """Return ``values`` as an array of ``kind``; raises one of ``UNFIT``."""
        if pa.types.is_struct(kind):
            return self._struct(values, kind)
        if pa.types.is_map(kind):
            return self._map(values, kind)
        if pa.types.is_list(kind):
            return self._list(values, kind)
        if pa.types.is_timestamp(kind) and kind.tz is not None:
            return _instants(self._timestamps(values), kind)
        if pa.types.is_decimal(kind):
            return _decimals(values, kind)
        if pa.types.is_float32(kind):
            return _floats(values, kind)
        return pa.array(values, kind)

    def _struct(self, values: Sequence[Any], kind: pa.StructType) -> pa.Array:
        whole = None not in values
        children = [
            self.build(taken(self.getter(index, field.name), values, whole=whole), field.type)
            for index, field in enumerate(kind)
        ]
        mask = None if whole else pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)

    def _list(self, values: Sequence[Any], kind: pa.ListType) -> pa.Array:
        if None not in values:
            flat = list(chain.from_iterable(values))
            edges: list[int | None] = list(accumulate(map(len, values), initial=0))
        else:
            flat = []
            edges = []
            for value in values:
                edges.append(None if value is None else len(flat))
                if value:
                    flat += value
            edges.append(len(flat))
        return pa.ListArray.from_arrays(
            pa.array(edges, pa.int32()), self.build(flat, kind.value_type), type=kind
        )

    def _map(self, values: Sequence[Any], kind: pa.MapType) -> pa.Array:
        keys: list[Any] = []
        items: list[Any] = []
        offsets: list[int | None] = []
        for value in values:
            offsets.append(None if value is None else len(keys))
            if value:
                keys += value.keys()
                items += value.values()
        offsets.append(len(keys))
        return pa.MapArray.from_arrays(
            pa.array(offsets, pa.int32()),
            self.build(keys, kind.key_type),
            self.build(items, kind.item_type),
            type=kind,
        )

    def _timestamps(self, values: Sequence[Any]) -> Sequence[Any]:
        if not self._epoch and self._zone is None:
            return values  # Arrow interprets naive times as UTC, the default
        return [self._timestamp(value) for value in values]

    def _timestamp(self, value: Any) -> Any:
        if isinstance(value, dt.datetime):
            naive = self._zone is not None and value.tzinfo is None
            return value.replace(tzinfo=self._zone) if naive else value
        if value is None:
            return None
        # Arrow accepts a number as microseconds only if all are, so convert each to a time.
        micros = value // 1000 if self._scale == 0 else value * self._scale
        return _EPOCH + dt.timedelta(microseconds=round(micros))


def _decimals(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except UNFIT:
        # Arrow counts the exponent of a zero as digits: 0e2 would not fit decimal(2,2).
        return pa.array([0 if value == 0 else value for value in values], kind)


def _floats(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return numbers as floats; refuse those that Arrow would silently make infinite."""
    exact = pa.array(values, pa.float64())
    finite = exact.filter(pc.is_finite(exact))
    if (pc.max(pc.abs(finite)).as_py() or 0.0) > FLOAT_MAX:
        raise ValueError(f"Expected `float` >= {-FLOAT_MAX} and <= {FLOAT_MAX}")
    return exact.cast(kind, safe=False)


_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _instants(values: Sequence[Any], kind: pa.TimestampType) -> pa.Array:
    """Return times with a zone as an array; others, and numbers, are left to Arrow.

    Arrow gets the offset of each time through Python, which costs eight times as much as
    subtracting two UTC times.
    """
    try:
        since = [None if value is None else value - _EPOCH for value in values]
    except TypeError:
        # One has no zone.
        return pa.array(values, kind)
    return pa.array(since, pa.duration("us")).view(pa.int64()).view(kind)
