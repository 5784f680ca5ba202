"""What users may pass as headers, and the block that goes on the wire."""

from collections.abc import Iterable, Mapping

from jetspark.headers.block import encode_headers
from jetspark.headers.headers import Headers

HeaderInput = Headers | Mapping[str, str] | Iterable[tuple[str, str]] | None


def header_block(headers: HeaderInput) -> bytes:
    """Encode headers given as Headers, a mapping, or pairs; ValueError names a bad one."""
    if headers is None:
        return b""
    if isinstance(headers, Headers | Mapping):
        return encode_headers(headers.items())
    return encode_headers(headers)
