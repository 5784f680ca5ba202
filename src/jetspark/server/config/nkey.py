"""Public nkeys in configurations: base32 of a prefix, 32 bytes and a checksum."""

import base64
import binascii
from typing import Final

USER: Final = "U"
ACCOUNT: Final = "A"

_KEY_LENGTH: Final = 56
_PAYLOAD_SIZE: Final = 33
_WORDS: Final = {USER: "user", ACCOUNT: "account"}


def public_key_problem(key: str, prefix: str) -> str | None:
    """Return what is wrong with a public key of the kind ``prefix``, or None."""
    what = f"expected the public nkey of {'an' if prefix in 'AO' else 'a'} {_WORDS[prefix]}"
    if key.startswith("S"):
        return f"{what}, got a seed: never put a seed into a configuration"
    if len(key) != _KEY_LENGTH or not key.startswith(prefix):
        return f"{what}: {_KEY_LENGTH} characters that start with {prefix}"
    try:
        raw = base64.b32decode(key)
    except binascii.Error:
        return f"{what}: only the letters A to Z and the digits 2 to 7"
    checksum = int.from_bytes(raw[_PAYLOAD_SIZE:], "little")
    if checksum != binascii.crc_hqx(raw[:_PAYLOAD_SIZE], 0):
        return f"{what}; its checksum is wrong: check it for typing errors"
    return None
