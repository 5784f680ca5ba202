"""Templates in subjects, payloads and header values: natscli's functions.

`{{Count}}`, `{{TimeStamp}}`, `{{Unix}}`, `{{UnixNano}}`, `{{Time}}`, `{{ID}}`,
`{{Random 10 100}}`; in replies also `{{Request}}`. Other text in braces stays as it is: it belongs
to the payload.
"""

import random
import re
import string
import time
from datetime import UTC, datetime
from typing import Final

_CALL: Final = re.compile(rb"\{\{\s*\.?(\w+)\s*\(?\s*(\d+)?[\s,]*(\d+)?\s*\)?\s*\}\}")
_RANDOM_MAX: Final = 64 * 1024 * 1024
_LETTERS: Final = (string.ascii_letters + string.digits).encode()


def expand(template: bytes, count: int, *, request: bytes | None = None) -> bytes:
    """The template filled in for the message with the ordinal ``count``."""
    if b"{{" not in template:
        return template
    return _CALL.sub(lambda call: _value(call, count, request), template)


def expand_text(template: str, count: int) -> str:
    """The same for a subject or the value of a header."""
    if "{{" not in template:
        return template
    return expand(template.encode(), count).decode()


def _value(call: re.Match[bytes], count: int, request: bytes | None) -> bytes:
    name, least, most = call[1].decode(), call[2], call[3]
    if name == "Random" and least is not None and most is not None:
        low, high = sorted((min(int(least), _RANDOM_MAX), min(int(most), _RANDOM_MAX)))
        size = random.randint(low, high)  # noqa: S311 - test data
        return bytes(random.choices(_LETTERS, k=size))  # noqa: S311
    if least is not None:
        return call[0]
    if name == "Request" and request is not None:
        return request
    text = _text(name, count)
    return call[0] if text is None else text.encode()


def _text(name: str, count: int) -> str | None:
    match name:
        case "Count" | "Cnt":
            return str(count)
        case "TimeStamp" | "Timestamp":
            return datetime.now().astimezone().isoformat(timespec="seconds")
        case "Unix":
            return str(int(time.time()))
        case "UnixNano":
            return str(time.time_ns())
        case "Time":
            return datetime.now(UTC).astimezone().strftime("%I:%M%p").lstrip("0")
        case "ID":
            from jetspark.ids import Nuid

            return Nuid().next()
        case _:
            return None
