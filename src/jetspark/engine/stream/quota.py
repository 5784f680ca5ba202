"""The quota: limits of account and server that may refuse a message of a stream."""

from typing import Protocol


class Quota(Protocol):
    """Refuses messages because of what others have stored (engine/usage.py)."""

    def problem(self, subject: bytes, headers_length: int, body_length: int) -> bytes:
        """Return the error for a message; empty if it may be stored."""
        ...
