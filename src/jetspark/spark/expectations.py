"""Data-quality rules: rows that satisfy them, the others with their reasons, and counts."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jetspark.spark.needs import needs_spark

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

VIOLATIONS: Final = "_violations"
# Not `drop`: on a Connect server it resolves its rows at once, which Spark's own pipeline runner
# refuses for tables of the same pipeline.
_WITHOUT: Final = f"* EXCEPT ({VIOLATIONS})"
# Counted in addition to each rule.
_ROWS: Final = "rows"
_VIOLATING: Final = "violating"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# How much of a row an error shows.
_SHOWN: Final = 500


@dataclass(frozen=True)
class Expected:
    """Rows, divided by whether they satisfy all rules; every row is in exactly one part."""

    valid: "DataFrame"
    """The rows that satisfy all rules. Counts all rows, and the violations of each rule."""
    quarantined: "DataFrame"
    """The other rows, with the names of the rules that they violate in ``_violations``."""
    marked: "DataFrame"
    """All rows, with ``_violations``: empty for valid ones. Counts as ``valid`` does."""
    required: "DataFrame"
    """All rows; the first one that violates a rule fails the query, with rule and row."""


def expect(
    rows: "DataFrame", rules: "Mapping[str, Column | str]", *, name: str = "expectations"
) -> Expected:
    """Divide rows by rules: SQL conditions, or columns, by name.

    A rule that is NULL for a row is violated. ``valid`` and ``marked`` count ``rows``,
    ``violating`` rows, and the violations of each rule, as metrics ``name`` of the query's
    progress (``progress_report``, ``watch``, ``jetspark pipeline run --continuous --json``). Works
    in batch and streaming queries and in pipelines.
    """
    with needs_spark():
        from pyspark.sql import functions as f

        from jetspark.spark.columns import known_columns

    _check_rules(rules)
    # If they are not known, Spark reports a second one as an ambiguous reference.
    if VIOLATIONS in (known_columns(rows) or ()):
        raise ValueError(f"expect: the rows already have a column {VIOLATIONS!r}: rename it")
    violated = {
        rule: ~f.coalesce(f.expr(test) if isinstance(test, str) else test, f.lit(False))
        for rule, test in rules.items()
    }
    listed = f.array_compact(
        f.array(*[f.when(bad, f.lit(rule)) for rule, bad in violated.items()])
    )
    # Not `withColumn`, which would replace a column of this name.
    marked = rows.select("*", listed.alias(VIOLATIONS))
    violating = f.size(VIOLATIONS) > 0
    counted = marked.observe(
        name,
        f.count(f.lit(1)).alias(_ROWS),
        f.count_if(violating).alias(_VIOLATING),
        *[f.count_if(f.array_contains(VIOLATIONS, rule)).alias(rule) for rule in rules],
    )
    shown = f.substring(f.to_json(f.struct("*")), 1, _SHOWN)
    message = f.concat(
        f.lit("expectation "), f.array_join(listed, ", "), f.lit(" is violated by "), shown
    )
    satisfied = f.when(f.size(listed) > 0, f.raise_error(message).cast("boolean")).otherwise(
        f.lit(True)
    )
    required = rows.select("*", satisfied.alias(VIOLATIONS)).where(f.col(VIOLATIONS))
    return Expected(
        valid=counted.where(~violating).selectExpr(_WITHOUT),
        quarantined=marked.where(violating),
        marked=counted,
        required=required.selectExpr(_WITHOUT),
    )


def _check_rules(rules: "Mapping[str, Column | str]") -> None:
    form = 'expected names and conditions, {"has_id": "id > 0"}'
    given: object = rules
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"expect: rules is {rules!r}: {form}")
    folded = Counter(rule.lower() for rule in rules)
    for rule, test in rules.items():
        if not isinstance(test, str) and not hasattr(test, "alias"):
            raise ValueError(f"expect: rule {rule!r} is {test!r}: {form}, or a column")
        if folded[rule.lower()] > 1:
            raise ValueError(f"expect: SQL does not distinguish the names of rules {rule!r}")
        if not _NAME.fullmatch(rule) or rule.lower() in {_ROWS, _VIOLATING}:
            raise ValueError(
                f"expect: {rule!r} cannot be the name of a rule: expected letters, digits and "
                f"underscores, and neither {_ROWS!r} nor {_VIOLATING!r}, which are counted, too"
            )
