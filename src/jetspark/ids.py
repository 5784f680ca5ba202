"""Identifiers: NUIDs in the format of NATS clients, and inbox subjects built from them."""

import hashlib
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Final

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BASE: Final = 62
_PREFIX_LENGTH: Final = 12
_SEQUENCE_LENGTH: Final = 10
_SHORT_LENGTH: Final = 8
_PREFIX_COUNT: Final = _BASE**_PREFIX_LENGTH
_SEQUENCE_COUNT: Final = _BASE**_SEQUENCE_LENGTH
_STEP_MIN: Final = 33
_STEP_MAX: Final = 333

# A modulus of 16 random bytes favours no prefix by more than one part in 2**56.
_PREFIX_BYTES: Final = 16
_SEQUENCE_BYTES: Final = 16
_STEP_BYTES: Final = 8


class Nuid:
    """A source of unique ids of 22 base-62 characters: a random prefix and a counter.

    The counter advances by a random step, so ids cannot be guessed by counting. A new prefix is
    drawn when the counter is exhausted, and after a fork, because parent and child would otherwise
    produce the same ids. Safe to share between threads.
    """

    def __init__(
        self,
        random_bytes: Callable[[int], bytes] = os.urandom,
        *,
        process_id: Callable[[], int] = os.getpid,
    ) -> None:
        self._random_bytes = random_bytes
        self._process_id = process_id
        self._run = self._new_run()

    def next(self) -> str:
        """Return an id that this source has not returned before."""
        owner, prefix, numbers = self._run
        number = next(numbers)
        while number >= _SEQUENCE_COUNT or owner != self._process_id():
            self._run = self._new_run()
            owner, prefix, numbers = self._run
            number = next(numbers)
        return prefix + _format_base62(number, _SEQUENCE_LENGTH)

    def _new_run(self) -> tuple[int, str, Iterator[int]]:
        """Draw a prefix, a first number and a step.

        They are replaced as one tuple, and advancing the counter is one call into C, so threads
        never see halves of two runs and never get the same number.
        """
        prefix = _format_base62(self._draw(_PREFIX_BYTES, _PREFIX_COUNT), _PREFIX_LENGTH)
        step = _STEP_MIN + self._draw(_STEP_BYTES, _STEP_MAX - _STEP_MIN + 1)
        first = self._draw(_SEQUENCE_BYTES, _SEQUENCE_COUNT)
        return self._process_id(), prefix, itertools.count(first, step)

    def _draw(self, size: int, below: int) -> int:
        return int.from_bytes(self._random_bytes(size), "big") % below


def short_id(number: int) -> str:
    """Return 8 characters from a random number: the name servers give to unnamed consumers."""
    return _format_base62(number, _SHORT_LENGTH)


def name_hash(name: str) -> str:
    """Return the 8 characters by which released servers identify a name (SHA-256, base 62)."""
    digest = hashlib.sha256(name.encode()).digest()
    return "".join(_DIGITS[byte % _BASE] for byte in digest[:_SHORT_LENGTH])


def new_inbox(nuid: Nuid, prefix: str = "_INBOX") -> str:
    """Return a unique subject for replies: ``<prefix>.<nuid>``."""
    return f"{prefix}.{nuid.next()}"


def _format_base62(number: int, length: int) -> str:
    """Return ``number`` in base 62, filled with zeros to ``length`` characters."""
    digits: list[str] = []
    for _ in range(length):
        number, digit = divmod(number, _BASE)
        digits.append(_DIGITS[digit])
    digits.reverse()
    return "".join(digits)
