"""Values that must not appear in logs and tracebacks."""

import msgspec


class Secret(msgspec.Struct, frozen=True):
    """A password, token or key. Only ``value`` reveals it."""

    value: str = ""

    def __repr__(self) -> str:
        return "Secret('')" if not self.value else "Secret([REDACTED])"

    def __bool__(self) -> bool:
        return bool(self.value)
