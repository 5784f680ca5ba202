"""Decoded values to Arrow arrays, nested ones as well, without a dict for each value."""

import datetime as dt
from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from jetspark.spark.decode_plan import EPOCH_UNITS

# What Arrow raises for a value that its type does not hold.
UNFIT: Final = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError, ValueError)

Getter = Callable[[Any], Any]


class ColumnBuilder:
    """Builds arrays. ``by_name``: structs are dicts; otherwise they are the structs of Shapes."""

    def __init__(self, *, by_name: bool, epoch: str = "", zone: str = "UTC") -> None:
        self._by_name = by_name
        self._epoch = epoch
        self._scale = EPOCH_UNITS.get(epoch, 1)
        self._zone = None if zone == "UTC" else ZoneInfo(zone)

    def getter(self, index: int, name: str) -> Getter:
        """Return what takes a field out of a decoded struct."""
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
            values = self._timestamps(values)
        return pa.array(values, kind)

    def _struct(self, values: Sequence[Any], kind: pa.StructType) -> pa.Array:
        missing = [value is None for value in values]
        children = []
        for index, field in enumerate(kind):
            get = self.getter(index, field.name)
            taken = [None if value is None else get(value) for value in values]
            children.append(self.build(taken, field.type))
        return pa.StructArray.from_arrays(
            children, fields=list(kind), mask=pa.array(missing, pa.bool_())
        )

    def _list(self, values: Sequence[Any], kind: pa.ListType) -> pa.Array:
        flat: list[Any] = []
        offsets: list[int | None] = []
        for value in values:
            offsets.append(None if value is None else len(flat))
            if value:
                flat += value
        offsets.append(len(flat))
        return pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), self.build(flat, kind.value_type), type=kind
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
            return values  # Arrow takes naive times as UTC, which is the default
        return [self._timestamp(value) for value in values]

    def _timestamp(self, value: Any) -> Any:
        if isinstance(value, dt.datetime):
            naive = self._zone is not None and value.tzinfo is None
            return value.replace(tzinfo=self._zone) if naive else value
        if value is None:
            return None
        # Arrow takes a number as microseconds only where all are, so that each becomes a time.
        micros = value // 1000 if self._scale == 0 else value * self._scale
        return _EPOCH + dt.timedelta(microseconds=round(micros))


_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
