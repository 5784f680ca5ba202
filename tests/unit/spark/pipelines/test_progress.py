"""Progress of flows and errors of Spark, as a continuous run tells them."""

import json
from pathlib import Path

import msgspec
import pytest

from jetspark.cli.pipeline.metrics import Metrics
from jetspark.spark.pipelines.errors import LINE_MAX, is_refusal, mistakes_named, one_line
from jetspark.spark.pipelines.progress import (
    FlowFailed,
    FlowProgress,
    FlowStarted,
    ViewRefreshed,
    progress_of,
)
from jetspark.spark.pipelines.project import PipelineRefused


def offset(**streams: int) -> dict[str, object]:
    return {"v": 1, "streams": {name: {"next": at, "created": ""} for name, at in streams.items()}}


REPORT = {
    "timestamp": "2026-11-15T10:00:00.000Z",
    "batchId": 7,
    "numInputRows": 500,
    "durationMs": {"triggerExecution": 250},
    "sources": [{"endOffset": offset(ORDERS=501), "latestOffset": offset(ORDERS=801)}],
}


def test_a_report_becomes_rows_per_second_and_lag() -> None:
    progress = progress_of("orders", REPORT)

    assert progress == FlowProgress(
        flow="orders",
        time="2026-11-15T10:00:00.000Z",
        epoch=7,
        rows=500,
        rows_per_second=2000.0,
        batch_seconds=0.25,
        lag=300,
        next={"ORDERS": 501},
    )


def test_a_stream_that_was_created_again_counts_from_its_beginning() -> None:
    again = {"v": 1, "streams": {"ORDERS": {"next": 41, "created": "2026-11-16T00:00:00Z"}}}
    source = {"endOffset": offset(ORDERS=501), "latestOffset": again}

    assert progress_of("orders", {**REPORT, "sources": [source]}).lag == 40


def test_a_stream_that_is_read_twice_is_counted_once() -> None:
    sources = [{"endOffset": offset(A=at), "latestOffset": offset(A=9)} for at in (5, 7)]

    assert progress_of("orders", {**REPORT, "sources": sources}).lag == 4


def test_offsets_may_come_as_text() -> None:
    source = {"endOffset": json.dumps(offset(A=5)), "latestOffset": json.dumps(offset(A=9))}

    assert progress_of("orders", {**REPORT, "sources": [source]}).lag == 4


def test_a_source_that_is_not_ours_has_no_lag() -> None:
    files = {"endOffset": {"logOffset": 3}, "latestOffset": None}

    text = {"endOffset": "no json", "latestOffset": "-"}

    assert progress_of("alerts", {**REPORT, "sources": [files]}).lag is None
    assert progress_of("alerts", {**REPORT, "sources": [text]}).lag is None


def test_a_report_without_work_divides_by_nothing() -> None:
    assert progress_of("orders", {"batchId": 3}).rows_per_second == 0.0


def test_an_event_says_what_it_is() -> None:
    line = msgspec.json.decode(msgspec.json.encode(FlowFailed(flow="a", error="b")))

    assert line == {"event": "failed", "flow": "a", "error": "b", "restart_seconds": None}


def test_an_error_of_ours_is_reported_without_the_stacks_around_it() -> None:
    error = RuntimeError(
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
        "[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):\n"
        '  File "x.py", line 1, in streamWriter\n'
        "jetspark.spark.option_reader.InvalidOptions: format 'nats_kv': bucket is missing\n"
        " SQLSTATE: 38000\n=== Streaming Query ===\nIdentifier: a\n"
    )

    assert one_line(error) == "format 'nats_kv': bucket is missing"
    assert is_refusal(error)


def test_an_error_of_spark_is_reported_without_its_plan() -> None:
    error = RuntimeError(
        "[TABLE_OR_VIEW_NOT_FOUND] The table `a` cannot be found. SQLSTATE: 42P01; line 1 pos 2;\n"
        "'Project ['x]\n+- 'UnresolvedRelation [a]\n"
    )

    assert one_line(error) == (
        "[TABLE_OR_VIEW_NOT_FOUND] The table `a` cannot be found.; line 1 pos 2"
    )


def test_an_error_of_the_jvm_is_reported_without_its_stack() -> None:
    error = RuntimeError(
        "An error occurred while calling o17.insertInto.\n: org.apache.spark.SparkException: "
        "[FAILED_READ_FILE] No file x. SQLSTATE: KD001\n\tat org.apache.A.b(A.scala:1)\n"
    )

    assert one_line(error) == "[FAILED_READ_FILE] No file x."


def test_what_a_function_of_the_project_raised_is_reported_with_its_place() -> None:
    error = RuntimeError(
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_EXCEPTION] "
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "/p/transformations/a.py", line 9, in outer\n    inner(\n          data)\n'
        '  File "/p/transformations/a.py", line 11, in inner\n    raise ValueError(data)\n'
        "ValueError: no order\n  in 25 SQLSTATE: 38000\n=== Streaming Query ===\nIdentifier: a\n"
    )

    assert one_line(error) == "a.py:11: ValueError: no order in 25"


def test_a_lost_connection_and_a_slow_machine_are_no_refusals() -> None:
    assert not is_refusal(RuntimeError("jetspark.errors.client.ConnectionClosed: the server left"))
    assert not is_refusal(RuntimeError("Python worker failed to connect back."))
    away = "jetspark.spark.stream.view.ServerUnreachable: the stream S on h: no server accepted"
    assert not is_refusal(RuntimeError(away)), "it may be back at the next attempt"
    assert is_refusal(RuntimeError("jetspark.spark.stream.view.PlanningFailed: no stream S"))
    assert not is_refusal(None)


def test_a_python_process_that_starts_too_late_is_reported_with_what_to_do() -> None:
    error = RuntimeError(
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Python worker "
        "failed to connect back. SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: a\n"
    )

    assert one_line(error).startswith("Python worker failed to connect back: Spark waits 10 s")
    assert one_line(error).endswith("spark.sql.pipelines.execution.maxConcurrentFlows=1")


def test_an_endless_error_is_cut_and_an_empty_one_has_a_name() -> None:
    assert len(one_line(RuntimeError("x" * 10_000))) == LINE_MAX + 3
    assert one_line(RuntimeError()) == "RuntimeError"


def test_metrics_count_rows_failures_and_views() -> None:
    metrics = Metrics()
    metrics.take(FlowStarted(flow='a"b', target="t", query="q"))
    for _ in range(2):
        metrics.take(progress_of('a"b', REPORT))
    metrics.take(progress_of('a"b', {**REPORT, "numInputRows": 0, "batchId": 8}))
    observed = {"quality": {"rows": 9, "violating": 2, "named": 2}, "mine": {"violating": "x"}}
    metrics.take(progress_of("c", {**REPORT, "observedMetrics": observed}))
    metrics.take(ViewRefreshed(view="v", seconds=1))
    metrics.take(FlowFailed(flow='a"b', error="e"))

    lines = metrics.page().splitlines()

    assert r'jetspark_pipeline_rows_total{flow="a\"b"} 1000' in lines
    assert r'jetspark_pipeline_batch_seconds_total{flow="a\"b"} 0.5' in lines
    assert r'jetspark_pipeline_epoch{flow="a\"b"} 8' in lines
    assert r'jetspark_pipeline_lag_messages{flow="a\"b"} 300' in lines
    assert r'jetspark_pipeline_up{flow="a\"b"} 0' in lines
    assert r'jetspark_pipeline_failures_total{flow="a\"b"} 1' in lines
    assert 'jetspark_pipeline_view_refreshes_total{flow="v"} 1' in lines
    assert 'jetspark_pipeline_violations_total{flow="c"} 2' in lines
    assert "# TYPE jetspark_pipeline_rows_total counter" in lines


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\nx = y", "a.py:2: NameError: name 'y' is not defined"),
        ("import jetspark_none", "a.py:1: ModuleNotFoundError: No module named 'jetspark_none'"),
        ("def f(:", "a.py:1: SyntaxError: invalid syntax"),
        ("import json\n\njson.loads('')", "a.py:3: JSONDecodeError: Expecting value"),
        (
            (
                "from pyspark.errors import AnalysisException as E\n\n"
                "raise E('[ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION] Not here.')"
            ),
            "a.py:3: [ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION] Not here.",
        ),
    ],
)
def test_a_mistake_in_a_transformation_is_reported_with_its_place(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "a.py"
    path.write_text(text)

    with pytest.raises(PipelineRefused) as refused, mistakes_named(tmp_path):
        exec(compile(text, path, "exec"), {})

    assert str(refused.value).startswith(said)


def test_a_mistake_of_ours_keeps_its_stack(tmp_path: Path) -> None:
    with pytest.raises(KeyError), mistakes_named(tmp_path):
        raise KeyError("x")
