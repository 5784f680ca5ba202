"""Codecs for the keys and values of a bucket (ADR-8 1.1).

A key codec maps the program's keys to keys that a bucket allows, token by token, so that filters
keep their meaning. A value codec maps bytes to bytes and knows bucket and key.
"""

import base64
from typing import Final, Protocol

from jetspark.errors import BadName, CodecFailed

ROOT: Final = "_root_"


class KeyCodec(Protocol):
    """Maps keys to stored keys and back."""

    def encode(self, key: str) -> str:
        """The stored form of a key."""

    def encode_filter(self, pattern: str) -> str:
        """The stored form of a pattern; ``*`` and ``>`` stay wildcards."""

    def decode(self, stored: str) -> str:
        """The key of a stored form; CodecFailed if it is invalid."""


class ValueCodec(Protocol):
    """Maps values to stored bytes and back."""

    def encode(self, bucket: str, key: str, value: bytes) -> bytes:
        """The bytes to store."""

    def decode(self, bucket: str, key: str, stored: bytes) -> bytes:
        """The value of stored bytes; CodecFailed if they are invalid."""


class PlainKeys:
    """Keys are stored as they are."""

    def encode(self, key: str) -> str:
        """The key itself."""
        return key

    def encode_filter(self, pattern: str) -> str:
        """The pattern itself."""
        return pattern

    def decode(self, stored: str) -> str:
        """The key itself."""
        return stored


class Base64Keys:
    """Any text as key: each token between dots is stored as URL-safe base64 without padding.

    Compatible with orbit.go's codec; that of nats.js makes one token of the whole key.
    """

    def __repr__(self) -> str:
        return "Base64Keys()"

    def encode(self, key: str) -> str:
        """Encode token by token."""
        if not key or key.startswith(".") or key.endswith(".") or ".." in key:
            raise BadName("key", key, "it has a leading, trailing or double dot")
        return ".".join(_to_base64(token) for token in key.split("."))

    def encode_filter(self, pattern: str) -> str:
        """Encode all tokens but the wildcards."""
        return ".".join(
            token if token in {"*", ">"} else _to_base64(token) for token in pattern.split(".")
        )

    def decode(self, stored: str) -> str:
        """Decode token by token."""
        return ".".join(_from_base64(token, stored) for token in stored.split("."))


class PathKeys:
    """Keys that look like paths: ``a/b/c`` is stored as ``a.b.c``; dots are not allowed in them.

    A leading slash is stored as the token ``_root_``, as in orbit.go's codec.
    """

    def __repr__(self) -> str:
        return "PathKeys()"

    def encode(self, key: str) -> str:
        """Slashes become dots."""
        if "." in key:
            raise BadName("key", key, "a path key must not contain dots: they separate tokens")
        if key == ROOT or key.startswith(f"{ROOT}/"):
            raise BadName("key", key, f"{ROOT!r} is the stored form of a leading slash")
        return self.encode_filter(key)

    def encode_filter(self, pattern: str) -> str:
        """Slashes become dots, wildcards stay."""
        if pattern == "/":
            return ROOT
        return (ROOT + pattern if pattern.startswith("/") else pattern).replace("/", ".")

    def decode(self, stored: str) -> str:
        """Dots become slashes."""
        if stored == ROOT:
            return "/"
        if stored.startswith(f"{ROOT}."):
            stored = stored.removeprefix(ROOT)
        return stored.replace(".", "/")


class PlainValues:
    """Values are stored as they are."""

    def encode(self, bucket: str, key: str, value: bytes) -> bytes:  # noqa: ARG002
        """The value itself."""
        return value

    def decode(self, bucket: str, key: str, stored: bytes) -> bytes:  # noqa: ARG002
        """The value itself."""
        return stored


def _to_base64(token: str) -> str:
    try:
        return base64.urlsafe_b64encode(token.encode()).rstrip(b"=").decode()
    except UnicodeEncodeError:
        raise BadName("key", token, "it contains a lone surrogate") from None


def _from_base64(token: str, stored: str) -> str:
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
        # Python's decoder ignores invalid characters; so encode the result again and compare.
        if text and _to_base64(text) == token:
            return text
    except ValueError:
        pass
    raise CodecFailed(f"stored key {stored!r} is not base64: it was written without this codec")
