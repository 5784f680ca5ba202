"""Exceptions about schemas of payloads."""

from __future__ import annotations

from typing import Final

from jetspark.errors.base import Error

__all__ = ["IncompatibleSchema", "InvalidSchema", "PayloadMismatch", "SchemaNotFound"]


class InvalidSchema(Error, ValueError):
    """A schema that cannot be used; the text lists all problems."""


class PayloadMismatch(Error, ValueError):
    """A payload, or a value to encode, does not match its schema."""


class SchemaNotFound(Error, LookupError):
    """The registry has no such schema, or not in that version (0: no version at all)."""

    def __init__(self, bucket: str, name: str, version: int = 0) -> None:
        super().__init__(bucket, name, version)
        self.bucket: Final = bucket
        self.name: Final = name
        self.version: Final = version

    def __str__(self) -> str:
        version = f"version {self.version} of schema" if self.version else "schema"
        return f"{version} {self.name!r} not found in registry {self.bucket!r}"


class IncompatibleSchema(Error, ValueError):
    """A schema was not registered: it breaks the compatibility that its name promises.

    ``problems`` has a sentence for each difference that breaks it.
    """

    def __init__(self, name: str, compatibility: str, problems: tuple[str, ...]) -> None:
        super().__init__(name, compatibility, problems)
        self.name: Final = name
        self.compatibility: Final = compatibility
        self.problems: Final = problems

    def __str__(self) -> str:
        return (
            f"schema {self.name!r} must be {self.compatibility} compatible: "
            f"{'; '.join(self.problems)}"
        )
