"""The types accepted as headers, and their encoding for the wire."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from jetspark.headers.block import encode_headers
from jetspark.headers.headers import Headers

HeaderInput = Headers | Mapping[str, str | Sequence[str]] | Iterable[tuple[str, str]] | None


_EXPECTED: Final = "expected a mapping, pairs of name and value, or Headers"


def header_block(headers: HeaderInput) -> bytes:
    """Encode headers given as Headers, a mapping (a value may be a list), or pairs.

    Raises ValueError for a header that cannot be sent, TypeError for a value that is no str.
    """
    if headers is None:
        return b""
    if isinstance(headers, Headers):
        return encode_headers(headers.items())
    pairs: list[tuple[str, str]] = []
    for name, value in headers.items() if isinstance(headers, Mapping) else _pairs(headers):
        values = value if isinstance(value, list | tuple) else [value]
        for one in values:
            if not isinstance(name, str) or not isinstance(one, str):
                raise TypeError(
                    f"header {name!r} has a value of type {type(one).__name__}: expected str, or "
                    "a list of str for several values"
                )
            pairs.append((name, one))
    return encode_headers(pairs)


def _pairs(headers: object) -> Iterator[tuple[str, object]]:
    """The pairs of an iterable; TypeError for anything else."""
    if isinstance(headers, str | bytes) or not isinstance(headers, Iterable):
        raise TypeError(f"headers: {_EXPECTED}, not {type(headers).__name__}")
    for pair in headers:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"headers: {_EXPECTED}; one of the items is {pair!r}")
        yield pair[0], pair[1]
