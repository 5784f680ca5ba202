"""A value codec that encrypts: AES-GCM with a ring of keys.

Stored bytes, in this order:

====== ======= ================================================================
offset size    content
====== ======= ================================================================
0      1       format, 0x01
1      1       length n of the key id
2      n       key id, UTF-8
2+n    12      nonce, random for every value
14+n   m       ciphertext, as long as the value
14+n+m 16      GCM tag
====== ======= ================================================================

Authenticated in addition to the value: ``jetspark-kv-1`` 0x00 bucket 0x00 key 0x00, then the first
2+n stored bytes. A value that was moved to another key or bucket, or whose key id was changed,
does not decrypt. Deletions have no value and are not encrypted; keys and sizes are visible.

New values use the first key of the ring; values of all its keys can be read. To rotate a key, add
a new one in front, rewrite the values, and then remove the old one.
"""

import os
from collections.abc import Callable, Mapping
from typing import Final

from jetspark.errors import CodecFailed
from jetspark.errors.extras import extra

FORMAT: Final = 1
NONCE_SIZE: Final = 12
TAG_SIZE: Final = 16
KEY_SIZES: Final = (16, 24, 32)
KEY_ID_MAX: Final = 255


class AesGcmValues:
    """Encrypts values. ``keys`` maps key ids to AES keys of 16, 24 or 32 bytes, newest first."""

    def __init__(
        self, keys: Mapping[str, bytes], *, random_bytes: Callable[[int], bytes] = os.urandom
    ) -> None:
        with extra("nkeys", "AesGcmValues needs"):
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        if not keys:
            raise ValueError("AesGcmValues: give at least one key, {key id: key bytes}")
        for key_id, key in keys.items():
            size = len(key_id.encode())
            if not 1 <= size <= KEY_ID_MAX:
                raise ValueError(f"key id {key_id!r} has {size} bytes: expected 1 to {KEY_ID_MAX}")
            if len(key) not in KEY_SIZES:
                raise ValueError(
                    f"the key {key_id!r} has {len(key)} bytes: AES requires 16, 24 or 32"
                )
        self._ring = {key_id.encode(): AESGCM(key) for key_id, key in keys.items()}
        self._first = next(iter(self._ring))
        self._random_bytes = random_bytes
        self._invalid_tag = InvalidTag

    def __repr__(self) -> str:
        # The ids of the keys, never the keys.
        ids = ", ".join(repr(key_id.decode()) for key_id in self._ring)
        return f"AesGcmValues(keys of {ids})"

    def encode(self, bucket: str, key: str, value: bytes) -> bytes:
        """Encrypt with the first key of the ring."""
        head = bytes((FORMAT, len(self._first))) + self._first
        nonce = self._random_bytes(NONCE_SIZE)
        sealed = self._ring[self._first].encrypt(nonce, value, _bound(bucket, key, head))
        return head + nonce + sealed

    def decode(self, bucket: str, key: str, stored: bytes) -> bytes:
        """Decrypt with the key that the value names; CodecFailed if that fails."""
        where = f"value of key {key!r} in bucket {bucket!r}"
        if len(stored) < 2 or stored[0] != FORMAT:
            raise CodecFailed(
                f"{where} was not encrypted by AesGcmValues (format {FORMAT}): read it without "
                "this codec, or write it again with it"
            )
        start = 2 + stored[1]
        if len(stored) < start + NONCE_SIZE + TAG_SIZE:
            raise CodecFailed(f"{where} is truncated: {len(stored)} bytes")
        key_id = stored[2:start]
        cipher = self._ring.get(key_id)
        if cipher is None:
            raise CodecFailed(
                f"{where} was encrypted with key {key_id.decode('utf-8', 'replace')!r}, which is "
                "not in the ring"
            )
        nonce = stored[start : start + NONCE_SIZE]
        try:
            return cipher.decrypt(
                nonce, stored[start + NONCE_SIZE :], _bound(bucket, key, stored[:start])
            )
        except self._invalid_tag:
            raise CodecFailed(
                f"{where} cannot be decrypted: the key is different, or the value was changed or "
                "moved"
            ) from None


def _bound(bucket: str, key: str, head: bytes) -> bytes:
    return b"jetspark-kv-1\0%b\0%b\0%b" % (bucket.encode(), key.encode(), head)
