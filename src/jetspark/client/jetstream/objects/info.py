"""Object metadata: the meta message (ADR-20)."""

import base64
import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from jetspark.api.base import ZERO_TIME, ApiStruct, Timestamp, encode, shown
from jetspark.client.jetstream.objects.config import ObjectStoreConfig
from jetspark.client.jetstream.timestamps import from_nanoseconds
from jetspark.client.models.stream import StreamInfo
from jetspark.client.unreadable import UNREADABLE
from jetspark.errors import BadName, ProtocolViolation
from jetspark.subjects.tokens import is_valid_literal

CHUNK_SIZE: Final = 128 * 1024
# A name is part of a subject, and servers close connections at lines above 4,096 bytes.
NAME_BYTES_MAX: Final = 2048
DIGEST_PREFIX: Final = "SHA-256="


class ObjectLink(ApiStruct, frozen=True, kw_only=True):
    """The target of a link: an object, or a whole store if ``name`` is empty."""

    bucket: str = shown("")
    name: str = ""


class ObjectOptions(ApiStruct, frozen=True, kw_only=True):
    """Storage options of an object."""

    link: ObjectLink | None = None
    max_chunk_size: int = 0


class ObjectInfo(ApiStruct, frozen=True, kw_only=True):
    """Metadata of an object, from its meta message.

    ``seq`` is the sequence of that message, the highest of the object (ADR-53); ``time`` is when
    the store received it, ``time_ns`` the same in ns since 1970.
    """

    name: str = shown("")
    description: str = ""
    headers: dict[str, list[str]] | None = None
    metadata: dict[str, str] | None = None
    options: ObjectOptions | None = None
    bucket: str = shown("")
    nuid: str = shown("")
    size: int = shown(0)
    time_ns: Timestamp = msgspec.field(default_factory=lambda: ZERO_TIME, name="mtime")
    chunks: int = shown(0)
    digest: str = ""
    deleted: bool = False
    seq: int = 0

    @property
    def time(self) -> datetime:
        """``time_ns`` as UTC, truncated to microseconds."""
        return from_nanoseconds(self.time_ns)

    @property
    def link(self) -> ObjectLink | None:
        """The target, if it is a link."""
        return self.options.link if self.options is not None else None


class ObjectStoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of an object store."""

    bucket: str
    size: int
    sealed: bool
    config: ObjectStoreConfig
    stream_info: StreamInfo

    @property
    def backing_store(self) -> str:
        """The kind of backend."""
        return "JetStream"


# The time is the message's: the field may contain anything (nats-py: empty when deleted).
_decode: Final = msgspec.json.Decoder(ObjectInfo, dec_hook=lambda _type, _value: ZERO_TIME).decode


def encode_info(info: ObjectInfo) -> bytes:
    """The body of a meta message; the sequence is that of the message."""
    return encode(msgspec.structs.replace(info, seq=0))


def decode_info(data: bytes, seq: int, time_ns: int) -> ObjectInfo:
    """Decode a meta message."""
    try:
        found = _decode(data)
    except UNREADABLE as error:
        raise ProtocolViolation(f"the meta message {seq} cannot be decoded: {error}") from error
    nuid = found.nuid
    if found.size < 0 or ((nuid or found.size) and not is_valid_literal(nuid.encode())):
        # As part of a subject it would match the chunks of other objects, and remove them.
        raise ProtocolViolation(
            f"the meta message {seq} is invalid: {found.size} bytes in the chunks {nuid!r}"
        )
    return msgspec.structs.replace(found, seq=seq, time_ns=Timestamp(time_ns))


def check_name(name: str) -> str:
    """Refuse an empty name and one that does not fit into a subject; others are valid."""
    if not isinstance(name, str):
        raise TypeError(f"an object's name must be str, not {type(name).__name__}")
    if not name:
        raise BadName("object", name, "it is empty")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise BadName("object", name, f"it cannot be encoded as UTF-8: {error.reason}") from None
    if size > NAME_BYTES_MAX:
        shown_part = f"{name[:40]}..."
        raise BadName(
            "object", shown_part, f"it has {size} bytes, expected at most {NAME_BYTES_MAX}"
        )
    return name


def checked_headers(headers: Mapping[str, list[str]] | None) -> dict[str, list[str]] | None:
    """A copy, None if there are none; TypeError for types that other clients could not read."""
    if headers is not None and not isinstance(headers, Mapping):
        raise TypeError(f"headers={headers!r}: expected a mapping of names to lists of str")
    given: Mapping[str, object] = headers or {}
    for name, texts in given.items():
        if not isinstance(texts, list | tuple) or not all(isinstance(t, str) for t in texts):
            raise TypeError(f"headers[{name!r}]={texts!r}: expected a list of str")
    return {name: list(texts) for name, texts in headers.items()} if headers else None


def checked_metadata(metadata: Mapping[str, str] | None) -> dict[str, str] | None:
    """A copy, None if there is none; TypeError for types that other clients could not read."""
    if metadata is not None and not isinstance(metadata, Mapping):
        raise TypeError(f"metadata={metadata!r}: expected a mapping of str to str")
    for name, text in (metadata or {}).items():
        if not isinstance(text, str):
            raise TypeError(f"metadata[{name!r}]={text!r}: expected a str")
    return dict(metadata) if metadata else None


def encode_name(name: str) -> str:
    """The token for a name in a subject: URL-safe base64 with padding."""
    return base64.urlsafe_b64encode(name.encode()).decode()


class Digest:
    """SHA-256 in the format of object stores."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def update(self, data: bytes) -> None:
        """Add more of the object."""
        self._hash.update(data)

    def text(self) -> str:
        """``SHA-256=`` and URL-safe base64 with padding."""
        return DIGEST_PREFIX + base64.urlsafe_b64encode(self._hash.digest()).decode()

    def fits(self, stored: str) -> bool:
        """Whether it equals the stored digest; some clients leave out the padding."""
        return self.text().rstrip("=") == stored.rstrip("=")
