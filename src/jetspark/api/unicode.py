"""JSON bodies as text, even if their bytes are not valid UTF-8."""

import re
from typing import Final

_ESCAPES: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def unicode_text(body: bytes) -> str:
    """Return JSON with U+FFFD for everything that is not Unicode: stray bytes, lone surrogates.

    The released server does the same, and such text could not be encoded in an answer.
    """
    text = body.decode("utf-8", "replace")
    if "\\ud" in text or "\\uD" in text:
        text = _ESCAPES.sub(lambda escape: r"\ufffd" if escape["lone"] else escape[0], text)
    return text
