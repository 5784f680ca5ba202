"""The formats of payloads, by name."""

from functools import lru_cache
from typing import Any, Final, Protocol

from jetspark.errors import InvalidSchema
from jetspark.schemas.choices import FORMATS
from jetspark.schemas.types import RecordType

# A process uses few schemas; parsing one takes up to some milliseconds.
_CODECS_KEPT: Final = 256


class Codec(Protocol):
    """Encodes and decodes payloads of one schema; other codecs it gets are of its format."""

    @property
    def record(self) -> RecordType:
        """The types of the fields."""

    @property
    def identity(self) -> object:
        """Equal for texts that mean the same."""

    def encode(self, value: Any) -> bytes:
        """Return the payload; PayloadMismatch names the field that does not fit."""

    def decode(self, data: bytes, writer: Any) -> dict[str, Any]:
        """Return all fields of this schema, from a payload written with ``writer``."""

    def problems_reading(self, writer: Any) -> list[str]:
        """Return why payloads of ``writer`` could not be decoded with this schema."""


@lru_cache(maxsize=_CODECS_KEPT)
def codec_of(format_name: str, text: str) -> Codec:
    """Return the codec of a schema; InvalidSchema if its text is none of this format."""
    if not text.strip():
        raise InvalidSchema("the schema is empty")
    match format_name:
        case "json" | "msgpack":
            from jetspark.schemas.objects import ObjectCodec

            return ObjectCodec(format_name, text)
        case "avro":
            from jetspark.schemas.avro import AvroCodec

            return AvroCodec(text)
        case "protobuf":
            from jetspark.schemas.protobuf.codec import ProtobufCodec

            return ProtobufCodec(text)
    raise ValueError(f"format={format_name!r}: expected one of {', '.join(FORMATS)}")
