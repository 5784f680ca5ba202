"""JSON and MessagePack: objects with the fields of a DDL schema."""

from typing import Any, Final

import msgspec

from jetspark.errors import PayloadMismatch
from jetspark.schemas.compatibility import reading_problems
from jetspark.schemas.ddl import parse_ddl, to_ddl
from jetspark.schemas.shapes import UNREADABLE, Shapes, check_shape
from jetspark.schemas.types import RecordType
from jetspark.schemas.values import Checker, plain


class ObjectCodec:
    """Encodes and decodes objects of one schema."""

    def __init__(self, format_name: str, text: str) -> None:
        record = parse_ddl(text)
        check_shape(record)
        self.record: Final[RecordType] = record
        # Equal for texts that mean the same.
        self.identity: Final[object] = to_ddl(record)
        json = format_name == "json"
        self._json = json
        self._format = "JSON" if json else "MessagePack"
        codec: Any = msgspec.json if json else msgspec.msgpack
        row = Shapes(epoch=False, forbid_extra=False).of_struct(record, "")
        self._decoder = codec.Decoder(row)
        self._encoder = codec.Encoder(decimal_format="number" if json else "string")
        self._checker = Checker(finite=json)

    def encode(self, value: Any) -> bytes:
        """Return the payload; PayloadMismatch names the field that does not fit."""
        data: bytes = self._encoder.encode(self._checker.record(value, self.record))
        return data

    def decode(self, data: bytes, writer: "ObjectCodec") -> dict[str, Any]:
        """Return all fields of this schema; those that the payload does not have are None."""
        del writer  # names are in the payload
        try:
            found = self._decoder.decode(data)
            if self._json and not data.isascii():
                data.decode()  # the decoder does not look at fields that it leaves out
        except msgspec.ValidationError as error:
            raise PayloadMismatch(str(error)) from None
        except UNREADABLE as error:
            raise PayloadMismatch(f"invalid {self._format}: {error}") from None
        row: dict[str, Any] = plain(found, self.record)
        return row

    def problems_reading(self, writer: "ObjectCodec") -> list[str]:
        """Return why payloads of ``writer`` could not be decoded with this schema."""
        return reading_problems(self.record, writer.record)
