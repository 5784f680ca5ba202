"""Passwords and tokens: plain ones compared in constant time, bcrypt hashes checked.

Checking a hash takes tens of milliseconds or more, so run `check` in an executor; it releases the
interpreter lock meanwhile. Everything else here is fast.
"""

import hmac
import re
from typing import Final

from jetspark.errors.extras import extra

# A version, a cost of 4 to 31, 22 characters of salt and 31 of hash.
_HASH: Final = re.compile(r"\$2[abxy]\$(\d\d)\$[./A-Za-z0-9]{53}", re.ASCII)
_PREFIX_LENGTH: Final = len("$2b$11$")
_COST_MIN: Final = 4
_COST_MAX: Final = 31
_ALPHABET: Final = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_SALT_LENGTH: Final = 22
_SALT_BITS_OF_LAST: Final = 4  # 128 bits are 21 characters of 6 bits and 2 bits more
_DIGEST_LENGTH: Final = 31

# bcrypt reads no more. Go's ignores the rest, and so must we; the Python library refuses it.
_BYTES_MAX: Final = 72


def hash_problem(text: str) -> str | None:
    """Return what is wrong with a bcrypt hash, or None.

    nats-server treats everything that starts like one as a hash; a broken one then admits no one.
    """
    found = _HASH.fullmatch(text)
    if found is None:
        return "expected the 60 characters of a bcrypt hash, as `htpasswd -nB` writes them"
    if not _COST_MIN <= int(found[1]) <= _COST_MAX:
        return f"the cost of a bcrypt hash is from {_COST_MIN:02d} to {_COST_MAX}, not {found[1]}"
    salt_end = text[_PREFIX_LENGTH + _SALT_LENGTH - 1]
    if _ALPHABET.index(salt_end) % (1 << _SALT_BITS_OF_LAST):
        return "the salt of the bcrypt hash is damaged"
    return None


def need_bcrypt() -> None:
    """Load what `check` needs; the error says how to install it."""
    with extra("server", "bcrypt passwords need"):
        import bcrypt  # noqa: F401


def check(password_hash: str, password: str) -> bool:
    """Return whether ``password`` matches a hash that passed `hash_problem`.

    Slow: run it in an executor.
    """
    import bcrypt

    return bcrypt.checkpw(_bytes(password)[:_BYTES_MAX], password_hash.encode())


def same(expected: str, given: str) -> bool:
    """Compare secrets in a time that depends only on their length."""
    return hmac.compare_digest(_bytes(expected), _bytes(given))


def decoy(password_hash: str, noise: bytes) -> str:
    """Return a hash that costs as much to check as ``password_hash`` and has no known password.

    ``noise`` is 53 random bytes.
    """
    chars = [_ALPHABET[byte % len(_ALPHABET)] for byte in noise]
    if len(chars) != _SALT_LENGTH + _DIGEST_LENGTH:
        raise ValueError(f"expected {_SALT_LENGTH + _DIGEST_LENGTH} bytes, got {len(chars)}")
    chars[_SALT_LENGTH - 1] = "."
    return password_hash[:_PREFIX_LENGTH] + "".join(chars)


def _bytes(text: str) -> bytes:
    # JSON may contain a lone surrogate; no configured secret has one, so it only must not fail.
    return text.encode("utf-8", "surrogatepass")
