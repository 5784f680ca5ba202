"""What errors show of a path: users also give a key or credentials in place of their file."""

import os
import re
from typing import Final

# PEM and credentials have lines, JWTs start with this, seeds are base32 after S and the kind.
_SECRET: Final = re.compile(r"[\x00-\x1f]|-----|^\s*eyJ[\w-]|^\s*S[A-Z][A-Z2-7]{18,}\s*$")
# No file system has longer names.
_NAME_MAX: Final = 255


def looks_secret(given: str) -> bool:
    """Whether this is a key or credentials, rather than the path of their file."""
    if _SECRET.search(given):
        return True
    return any(len(os.fsencode(name)) > _NAME_MAX for name in given.split("/"))


def shown_path(given: str) -> str:
    """The path in quotes; errors are in logs, so what looks like a secret is not repeated."""
    if looks_secret(given):
        return "(not shown: it is no path, but looks like a key or credentials)"
    return repr(given)
