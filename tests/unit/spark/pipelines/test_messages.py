"""What Spark's pipeline runner prints, as people and scripts get it."""

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException

from jetspark.spark.pipelines.declarative import Messages
from jetspark.spark.pipelines.project import PipelineRefused

UNRESOLVED = (
    "2026-11-17 02:50:31: Failed to resolve flow: 'spark_catalog.default.revenue'.\n"
    "Error: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `regoin` cannot be resolved. "
    "Did you mean `region`? SQLSTATE: 42703; line 3 pos 7;\n"
    "'Aggregate [region#57], ['regoin]\n"
    "+- SubqueryAlias spark_catalog.default.orders\n"
)


def run(messages: Messages, *texts: str, ends_with: str) -> None:
    """Print texts as ``print`` does, whose line break is a call of its own, and fail."""
    with messages.causes_named():
        for text in texts:
            messages.write(text)
            messages.write("\n")
        raise PySparkException(ends_with)


def test_the_cause_of_a_failure_is_said_in_one_line_and_is_the_error_of_the_run() -> None:
    said: list[str] = []
    texts = ("2026-11-17 02:50:30: Starting run...", UNRESOLVED, "no message of the runner")

    with pytest.raises(PipelineRefused) as refused:
        run(Messages(said.append), *texts, ends_with="Look for failures that precede this log.")

    flow = "Failed to resolve flow: 'spark_catalog.default.revenue'"
    assert said[:2] == ["Starting run...", f"{flow}."]
    (cause,) = said[2:]
    assert cause.startswith("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `regoin`")
    assert "Aggregate" not in cause
    assert str(refused.value) == f"{flow}: {cause}"


def test_an_error_of_a_run_that_has_its_cause_is_left_as_it_is() -> None:
    failed = "2026-11-17 02:50:31: Flow a has FAILED.\nError: it is so"

    with pytest.raises(PySparkException, match=r"^flow a: it is so$"):
        run(Messages(lambda _: None), failed, ends_with="flow a: it is so")
