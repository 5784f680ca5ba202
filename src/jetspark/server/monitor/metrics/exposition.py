"""Metrics as text for Prometheus, format version 0.0.4.

All lines of one metric are together, after its HELP and TYPE lines, whatever the order in which
they were added.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

GAUGE: Final = "gauge"
COUNTER: Final = "counter"
HISTOGRAM: Final = "histogram"

_SECOND_NS: Final = 1_000_000_000


class Family:
    """One metric: a name, its meaning, and its samples."""

    __slots__ = ("_head", "_lines", "_name")

    def __init__(self, name: str, kind: str, meaning: str) -> None:
        self._name = name
        meaning = meaning.replace("\\", "\\\\").replace("\n", "\\n")
        self._head = f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n"
        self._lines: list[str] = []

    def add(self, labels: str, value: float, suffix: str = "") -> None:
        """Add a sample; ``labels`` come from `format_labels`."""
        self._lines.append(f"{self._name}{suffix}{labels} {format_value(value)}\n")

    def text(self) -> str:
        """Return all lines; none if there is no sample."""
        return self._head + "".join(self._lines) if self._lines else ""


class Exposition:
    """All metrics of one answer."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}

    def family(self, name: str, meaning: str, kind: str = GAUGE) -> Family:
        """Return the metric of that name; the first call defines it."""
        found = self._families.get(name)
        if found is None:
            found = self._families[name] = Family(name, kind, meaning)
        return found

    def histogram(
        self,
        name: str,
        meaning: str,
        labels: Sequence[tuple[str, str]],
        bounds_ns: Sequence[int],
        counts: Sequence[int],
        sum_ns: int,
    ) -> None:
        """Add a histogram of durations; ``counts`` has one number more than ``bounds_ns``."""
        family = self.family(name, meaning, HISTOGRAM)
        edges = [*(format_value(bound / _SECOND_NS) for bound in bounds_ns), "+Inf"]
        below = 0
        for edge, count in zip(edges, counts, strict=True):
            below += count
            family.add(format_labels((*labels, ("le", edge))), below, "_bucket")
        family.add(format_labels(labels), sum_ns / _SECOND_NS, "_sum")
        family.add(format_labels(labels), below, "_count")

    def parts(self) -> Iterator[str]:
        """Return the body of the answer, metric by metric."""
        for family in self._families.values():
            yield family.text()

    def text(self) -> str:
        """Return the body of the answer."""
        return "".join(self.parts())


def format_labels(pairs: Iterable[tuple[str, str]]) -> str:
    """Return labels as in a line; build them once for many samples."""
    inner = ",".join(f'{name}="{escape(value)}"' for name, value in pairs)
    return f"{{{inner}}}" if inner else ""


def escape(value: str) -> str:
    """Return a label value with backslash, quote and line feed escaped."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def format_value(value: float) -> str:
    """Return a number in the format; integers without a fraction."""
    if isinstance(value, int):
        return str(int(value))  # also for booleans
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
