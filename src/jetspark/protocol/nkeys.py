"""nkeys: Ed25519 keys as text (base32 of prefix, key and checksum), signing and verifying.

The text of a public key starts with the letter of its kind (U user, A account, O operator, N
server, C cluster), a seed with S and that letter. The checksum is CRC-16/XMODEM, little-endian.
"""

import base64
import binascii
import os
from typing import Final

from jetspark.errors import BadCredentials
from jetspark.errors.extras import extra

OPERATOR: Final = "O"
ACCOUNT: Final = "A"
USER: Final = "U"
SERVER: Final = "N"
CLUSTER: Final = "C"

KIND_WORDS: Final = {
    OPERATOR: "operator",
    ACCOUNT: "account",
    USER: "user",
    SERVER: "server",
    CLUSTER: "cluster",
}

EXTRA: Final = ("nkeys", "nkeys and credentials files need")

_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_PUBLIC_LENGTH: Final = 56
_SEED_LENGTH: Final = 58
_KEY_SIZE: Final = 32
_SEED_BITS: Final = _ALPHABET.index("S") << 3


class KeyPair:
    """A private key, with its public key and its seed."""

    def __init__(self, kind: str, raw_seed: bytes) -> None:
        with extra(*EXTRA):
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._kind = kind
        self._raw_seed = raw_seed
        self._key = Ed25519PrivateKey.from_private_bytes(raw_seed)

    @classmethod
    def generate(cls, kind: str) -> "KeyPair":
        """Generate a key of a kind such as ``USER``."""
        return cls(kind, os.urandom(_KEY_SIZE))

    @classmethod
    def from_seed(cls, text: str) -> "KeyPair":
        """Read a seed; BadCredentials says what is wrong without quoting it."""
        what = "expected an nkey seed: 58 characters that begin with S, such as SU..."
        text = text.strip()
        if len(text) == _PUBLIC_LENGTH and text[:1] in KIND_WORDS:
            raise BadCredentials(f"this is the public key {text}; {what}")
        if len(text) != _SEED_LENGTH or not text.startswith("S"):
            raise BadCredentials(f"{what}; got {len(text)} characters")
        raw = _decode(text, what)
        number = ((raw[0] & 7) << 5) | (raw[1] >> 3)
        kind = _ALPHABET[number >> 3]
        if raw[0] & 0xF8 != _SEED_BITS or number & 7 or kind not in KIND_WORDS:
            raise BadCredentials(f"{what}; this is a seed of an unknown kind")
        return cls(kind, raw[2:34])

    @property
    def kind(self) -> str:
        """The letter of the kind."""
        return self._kind

    @property
    def public_key(self) -> str:
        """The public key, as text."""
        return _encode(bytes([_number(self._kind)]) + self._key.public_key().public_bytes_raw())

    @property
    def seed(self) -> str:
        """The seed, as text: a secret."""
        number = _number(self._kind)
        head = bytes([_SEED_BITS | (number >> 5), (number & 31) << 3])
        return _encode(head + self._raw_seed)

    def sign(self, data: bytes) -> bytes:
        """Return the signature of ``data``, 64 bytes."""
        return self._key.sign(data)

    def __repr__(self) -> str:
        return f"KeyPair({self.public_key})"


def verify(public_key: str, data: bytes, signature: bytes) -> bool:
    """Return whether ``signature`` of ``data`` was made with the private key of ``public_key``."""
    with extra(*EXTRA):
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    _, raw = decode_public(public_key)
    try:
        Ed25519PublicKey.from_public_bytes(raw).verify(signature, data)
    except InvalidSignature:
        return False
    return True


def decode_public(text: str) -> tuple[str, bytes]:
    """Return kind and 32 bytes of a public key; BadCredentials says what is wrong with it."""
    what = "expected a public nkey: 56 characters that begin with U, A, O, N or C"
    if text.startswith("S") and len(text) == _SEED_LENGTH:
        raise BadCredentials(f"this is a seed, which is secret; {what}")
    if len(text) != _PUBLIC_LENGTH or text[:1] not in KIND_WORDS:
        raise BadCredentials(f"{what}; got {text!r}")
    return text[0], _decode(text, what)[1:33]


def _number(kind: str) -> int:
    return _ALPHABET.index(kind) << 3


def _encode(raw: bytes) -> str:
    checked = raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(checked).decode().rstrip("=")


def _decode(text: str, what: str) -> bytes:
    """Return the bytes before the checksum, after verifying it."""
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except binascii.Error:
        raise BadCredentials(f"{what}; it may contain only A to Z and 2 to 7") from None
    body, checksum = raw[:-2], int.from_bytes(raw[-2:], "little")
    if checksum != binascii.crc_hqx(body, 0):
        raise BadCredentials(f"{what}; its checksum is wrong: check it for typing errors")
    return body
