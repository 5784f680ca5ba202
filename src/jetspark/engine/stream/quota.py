"""What a stream asks before it takes a message, while limits around it may refuse it."""

from typing import Protocol


class Quota(Protocol):
    """What may refuse a message because of what others have stored (engine/usage.py)."""

    def problem(self, subject: bytes, headers_length: int, body_length: int) -> bytes:
        """The error for a message; empty when it may be stored."""
        ...
