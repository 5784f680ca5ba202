"""Checks of rare headers: counters and rollups (wire.md, Publishing).

Not compiled: such messages are rare.
"""

from typing import TYPE_CHECKING

from jetspark.engine.stream.counters import is_integer
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode

if TYPE_CHECKING:
    from jetspark.engine.stream.headers import PublishHeaders
    from jetspark.engine.stream.rules import Rules


def increment_problem(headers: "PublishHeaders", rules: "Rules", body_length: int) -> bytes:
    """Check a counter: a valid number, a stream that counts, no body, no expectation."""
    if not is_integer(headers.incr):
        return error_body(ErrCode.COUNTER_INCREMENT_INVALID)
    if not rules.allow_counter:
        return error_body(ErrCode.COUNTER_DISABLED)
    if body_length > 0:
        return error_body(ErrCode.COUNTER_HAS_PAYLOAD)
    if headers.rollup or headers.expects_anything():
        return error_body(ErrCode.COUNTER_INCREMENT_INVALID)
    return b""


def rollup_problem(headers: "PublishHeaders", rules: "Rules") -> bytes:
    """Check a rollup: allowed by the stream, and one of the two values."""
    if not rules.allow_rollup:
        return error_body(ErrCode.ROLLUP_FAILED, err="rollup not permitted")
    word = headers.rollup.lower()
    if word not in {b"sub", b"all"}:
        text = word.decode(errors="replace")
        return error_body(ErrCode.ROLLUP_FAILED, err=f'rollup value invalid: "{text}"')
    return b""
