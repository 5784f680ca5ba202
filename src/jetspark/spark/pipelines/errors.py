"""Errors in one line: what happened and where, without stack traces."""

import importlib
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from jetspark.errors import Error
from jetspark.spark.pipelines.project import PipelineRefused
from jetspark.spark.session import jvm_has_ended

LINE_MAX: Final = 600

# The last line of a Python stack trace: the full class name, and the text.
_RAISED: Final = re.compile(r"^(?:[A-Za-z_]\w*\.)+([A-Z]\w*): (.+)$", re.MULTILINE)
# An exception of the project in a worker comes with its stack trace.
_WORKER: Final = "An exception was thrown from the Python worker:"
_FRAME: Final = re.compile(r'^ +File "([^"]+)", line (\d+).*\n(?: {4,}.*\n)*', re.MULTILINE)
# Endings of Spark's messages that do not describe the problem.
_TAIL: Final = re.compile(
    r"( SQLSTATE: \w+)|(\s*\n=== Streaming Query ===.*)|(;?\s*\n\s*['~+!]\w.*)"
    r"|(\s*JVM stacktrace:.*)|(\s*Trace:\s*py4j.*)|(\n\tat .*)",
    re.DOTALL,
)
# Beginnings that do not, either.
_QUERY: Final = re.compile(
    r"^\[STREAM_FAILED\] Query \[id = [^\]]*\] terminated with exception: "
    r"|^An error occurred while calling \S+\.\s*\n: (?:\w+\.)+\w+: ",
    re.DOTALL,
)

# Spark's error for a call that only the project's file makes. It does not say which one: a type
# as a string is enough, which Spark parses on its server.
_IN_QUERY_FUNCTION: Final = "[ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION]"

# Spark's errors that do not say what can be done.
_ADVICE: Final = {
    "Python worker failed to connect back": (
        "Spark waits 10 s for a Python process to start, and this machine was too busy for that. "
        "Nothing is lost: run it again with less load, or with one flow at a time: "
        "--conf spark.sql.pipelines.execution.maxConcurrentFlows=1"
    ),
}


@contextmanager
def mistakes_named(root: Path) -> Iterator[None]:
    """Turn an exception of a file below ``root`` into one line with its position.

    Other errors of Spark and ours already are one line; an exception from elsewhere is a bug of
    ours.
    """
    try:
        yield
    except Error:
        raise
    except Exception as error:
        place = _place_below(root, error)
        ours = type(error).__module__.partition(".")[0] not in {"pyspark", "py4j"}
        # Any call to a JVM that has ended fails: that is no error of the file.
        if place is None or jvm_has_ended():
            raise
        if _IN_QUERY_FUNCTION in str(error):
            raise PipelineRefused(f"{place}: {one_line(error)}") from error
        if not ours:
            raise
        raise PipelineRefused(f"{place}: {type(error).__name__}: {error}") from error


def _place_below(root: Path, error: Exception) -> str | None:
    places = [
        (frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)
    ]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno))
    for name, line in reversed(places):
        if Path(name).is_relative_to(root):
            return f"{Path(name).relative_to(root)}:{line}"
    return None


def is_refusal(error: BaseException | None) -> bool:
    """Whether our formats refused the request: a retry would fail, too."""
    raised = [found[0] for found in _RAISED.finditer(str(error)) if "jetspark" in found[0]]
    if not raised or not raised[-1].startswith("jetspark.spark."):
        return False
    return not _is_transient(raised[-1].partition(":")[0])


def _is_transient(name: str) -> bool:
    """Whether an error of ours, given by the full name of its class, is transient."""
    module, _, kind = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), kind)
    except (ImportError, AttributeError):
        return False
    return bool(getattr(found, "transient", False))


def one_line(error: BaseException) -> str:
    """Describe the error by the innermost of our own or Spark's errors."""
    return one_line_of(str(error)) or type(error).__name__


def one_line_of(text: str) -> str:
    """Summarise the text of an error in one line; empty if it contains nothing."""
    raised = [found for found in _RAISED.finditer(text) if "jetspark" in found[0]]
    text = raised[-1][2] if raised else _without_stack(_TAIL.sub("", _QUERY.sub("", text)))
    line = " ".join(text.split())
    for said, advice in _ADVICE.items():
        if said in line:
            line = f"{line.rstrip('.')}: {advice}"
    return line if len(line) <= LINE_MAX else f"{line[:LINE_MAX]}..."


def _without_stack(text: str) -> str:
    """Return a worker's exception with its position; any other text unchanged."""
    _, found, stack = text.partition(_WORKER)
    frames = list(_FRAME.finditer(stack))
    if not found or not frames:
        return text
    last = frames[-1]
    return f"{Path(last[1]).name}:{last[2]}: {stack[last.end() :]}"
