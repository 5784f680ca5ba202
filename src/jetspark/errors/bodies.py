"""Descriptions and JSON bodies of API errors, for servers."""

from __future__ import annotations

from typing import Final

import msgspec

from jetspark.errors.codes import FAST_HEADER_TEXTS, ErrCode

__all__ = ["describe", "error_body", "fast_header_body"]

_quote: Final = msgspec.json.encode


def describe(err_code: int, /, **fields: object) -> str:
    """Return the text of ``err_code`` with its fields filled in.

    Raises ``KeyError`` if a field of the text is missing and ``ValueError`` for an unknown code:
    both are errors of the caller, never of a client.
    """
    return ErrCode(err_code).text.format_map(fields)


def error_body(err_code: int, /, **fields: object) -> bytes:
    """Return the JSON of an error: ``{"code":..,"err_code":..,"description":..}``."""
    if not fields:
        return _CONSTANT[err_code]
    known = ErrCode(err_code)
    return _body(known.code, err_code, known.text.format_map(fields))


def fast_header_body(err_code: int, /, **fields: object) -> bytes:
    """Return the JSON of an error of the fast header dialect, which uses the texts of ADR-50."""
    text = FAST_HEADER_TEXTS[err_code]
    return _body(ErrCode(err_code).code, err_code, text.format_map(fields))


def _body(code: int, err_code: int, description: str) -> bytes:
    return b'{"code":%d,"err_code":%d,"description":%s}' % (code, err_code, _quote(description))


# Most texts have no field: their bodies are created once, so that a refused publish costs one
# dict lookup.
_CONSTANT: Final[dict[int, bytes]] = {
    int(known): _body(known.code, int(known), known.text)
    for known in ErrCode
    if "{" not in known.text
}
