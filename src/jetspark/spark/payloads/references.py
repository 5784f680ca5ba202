"""The headers that name the registered schema of each message, in a task."""

from typing import NamedTuple

import pyarrow as pa

from jetspark.errors import PayloadMismatch
from jetspark.schemas.schema import parse_reference
from jetspark.spark.payloads.plan import DecodePlan, PayloadFormat


class Written(NamedTuple):
    """The version that each payload was written with, and the reasons for those to rescue."""

    versions: list[int]
    reasons: dict[int, str]


class References:
    """Reads the values of the header, each text once."""

    def __init__(self, plan: DecodePlan) -> None:
        self._name = plan.name
        self._version = plan.version
        self._known = {version for version, _ in plan.versions}
        # The others have names or numbers in the payload: any reader may try.
        self._needs_writer = plan.format is PayloadFormat.AVRO

    def read(self, given: pa.Array) -> Written:
        """Return the versions; a message without the header has the plan's."""
        texts = given.to_pylist()
        found = {text: self._one(text) for text in set(texts)}
        versions: list[int] = []
        reasons: dict[int, str] = {}
        for row, text in enumerate(texts):
            version, reason = found[text]
            versions.append(version)
            if reason:
                reasons[row] = reason
        return Written(versions, reasons)

    def _one(self, text: str | None) -> tuple[int, str]:
        if text is None:
            return self._version, ""
        try:
            name, version = parse_reference(text)
        except PayloadMismatch as error:
            return self._version, str(error)
        if name != self._name:
            return self._version, f"its header names schema {name!r}, expected {self._name!r}"
        if version not in self._known and self._needs_writer:
            known = ", ".join(map(str, sorted(self._known)))
            return self._version, (
                f"written with version {version} of schema {name!r}; when the query was planned, "
                f"there were {known}: restart it"
            )
        return version, ""
