"""The check of a credentials file."""

import base64
import binascii
import re
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from jetspark.cli.output import Output
from jetspark.cli.quantities import show_seconds
from jetspark.cli.server.check.result import Result
from jetspark.cli.server.check.running import finish, take_format

_JWT: Final = re.compile(rb"-+BEGIN NATS USER JWT-+\s+(\S+)\s+-+END NATS USER JWT-+")


def credential(
    output: Output, *, credential: Path, validity_warn: float | None,
    validity_critical: float | None, require_expiry: bool, **given: Any,
) -> None:  # fmt: skip
    """Check when a credentials file expires."""
    form, namespace, target = take_format(output, given)
    result = Result("credential", "Credential")
    try:
        expires = _expiry(credential.read_bytes())
    except (OSError, ValueError) as error:
        result.critical(f"{credential}: {error}")
        finish(output, result, form, namespace, target)
    result.measure("expiry", expires, "Unix time when the credential expires", unit="s")
    left = expires - time.time()
    if not expires:
        (result.critical if require_expiry else result.ok)("never expires")
    elif left <= 0:
        result.critical(f"expired {show_seconds(-left)} ago")
    elif validity_critical is not None and left <= validity_critical:
        result.critical(f"expires in {show_seconds(left)}")
    elif validity_warn is not None and left <= validity_warn:
        result.warn(f"expires in {show_seconds(left)}")
    else:
        result.ok(f"expires in {show_seconds(left)}")
    finish(output, result, form, namespace, target)


def _expiry(text: bytes) -> float:
    """When the JWT of a credentials file expires; 0 is never."""
    found = _JWT.search(text)
    if found is None:
        raise ValueError("no user JWT found: expected a file of `nsc generate creds`")
    try:
        encoded = found[1].split(b".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(encoded + b"=="))
        return float(claims.get("exp") or 0)
    except (IndexError, binascii.Error, msgspec.MsgspecError, AttributeError) as error:
        raise ValueError(f"its JWT cannot be read: {error}") from None
