"""The digest of a configuration: the same text that nats-server prints and shows in ``/varz``.

It is the SHA-256 of the tree as Go encodes it to JSON (keys sorted, some characters escaped). Two
files with equal digests mean the same to both servers, which makes it the strictest comparison of
our parser with the real one.
"""

import hashlib
import json
import re
from datetime import datetime
from decimal import Decimal
from typing import Final

from jetspark.server.config.language.tree import Node, Value

_ESCAPED: Final = re.compile("[<>&\u2028\u2029]")


def config_digest(tree: dict[str, Node]) -> str:
    """Return ``sha256:...`` of a tree."""
    return f"sha256:{hashlib.sha256((_encode(tree) + chr(10)).encode()).hexdigest()}"


def _encode(value: Value) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _number(value)
        case str():
            return _string(value)
        case datetime():
            return _string(value.strftime("%Y-%m-%dT%H:%M:%SZ"))
        case list():
            return f"[{','.join(_encode(node.value) for node in value)}]"
        case dict():
            # Go sorts by bytes of UTF-8, which is the order of code points.
            entries = (f"{_string(key)}:{_encode(value[key].value)}" for key in sorted(value))
            return f"{{{','.join(entries)}}}"


def _string(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def _number(value: float) -> str:
    """Return a float as Go writes it: with an exponent only below 1e-6 and from 1e21 on."""
    text = repr(value)
    if value != 0 and not 1e-6 <= abs(value) < 1e21:
        mantissa, _, exponent = text.partition("e")
        return f"{mantissa}e{exponent[0]}{exponent[1:].lstrip('0')}"
    return f"{Decimal(text):f}".removesuffix(".0")
