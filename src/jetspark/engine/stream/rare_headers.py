"""Checks of headers that few messages have: counters and rollups (wire.md, Publishing).

Not compiled: the messages that come here are rare.
"""

from typing import TYPE_CHECKING

from jetspark.engine.stream.counters import is_integer
from jetspark.errors.bodies import error_body
from jetspark.errors.codes import ErrCode

if TYPE_CHECKING:
    from jetspark.engine.stream.headers import PublishHeaders
    from jetspark.engine.stream.rules import Rules


def increment_problem(headers: "PublishHeaders", rules: "Rules", body_length: int) -> bytes:
    """Counters: a valid number, a stream that counts, no body, no expectation."""
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
    """Rollups: allowed by the stream, and one of the two words."""
    if not rules.allow_rollup:
        return error_body(ErrCode.ROLLUP_FAILED, err="rollup not permitted")
    word = headers.rollup.lower()
    if word not in {b"sub", b"all"}:
        text = word.decode(errors="replace")
        return error_body(ErrCode.ROLLUP_FAILED, err=f'rollup value invalid: "{text}"')
    return b""
