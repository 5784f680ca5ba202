"""What a task restores from the driver is refused when the versions of jetspark differ."""

import importlib
import os
import pickle
import pkgutil
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

import jetspark.spark
from jetspark.spark import same_version
from jetspark.spark.payloads.plan import DecodePlan, PayloadFormat
from jetspark.spark.same_version import Carried, VersionMismatch
from jetspark.spark.stream.batch_reader import JetStreamBatchReader
from jetspark.spark.stream.options import parse_source_options
from jetspark.spark.stream.refused_reader import RefusedStreamReader
from jetspark.spark.stream.schema import default_schema
from jetspark.spark.stream.streaming_reader import JetStreamStreamReader
from jetspark.spark.writers import BatchWriter, StreamWriter
from jetspark.version import VERSION

KINDS = (DataSourceReader, DataSourceStreamReader, DataSourceWriter, DataSourceStreamWriter)


FROZEN = """
import gc, pickle, sys
from pyspark import TaskContext
sent = bytes.fromhex(sys.argv[1])
pickle.loads(sent)
print(gc.get_freeze_count())
TaskContext._getOrCreate()
for _ in range(2):
    pickle.loads(sent)
    print(gc.get_freeze_count())
"""


def batch_reader() -> JetStreamBatchReader:
    options = parse_source_options(
        {"servers": "nats://127.0.0.1:4222", "stream": "S"},
        default_min_partitions=2,
        zone=None,
        streaming=False,
    )
    return JetStreamBatchReader(options, default_schema(options.headers))


def test_a_reader_arrives_as_it_was_sent() -> None:
    reader = batch_reader()

    arrived = pickle.loads(pickle.dumps(reader))

    assert type(arrived) is JetStreamBatchReader
    assert vars(arrived)["_options"] == vars(reader)["_options"]


def test_a_task_keeps_what_is_imported_out_of_the_collections_after_each_task() -> None:
    # In a process of its own: it stays so for the rest of its life.
    done = subprocess.run(
        [sys.executable, "-c", FROZEN, pickle.dumps(batch_reader()).hex()],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )

    on_the_driver, in_a_task, left = map(int, done.stdout.split())
    assert on_the_driver == 0
    assert in_a_task > 10_000
    # A second task adds nothing: what belongs to tasks can still be collected.
    assert left == in_a_task


def test_another_version_in_the_task_is_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = pickle.dumps(batch_reader())
    plan = pickle.dumps(Carried(DecodePlan(PayloadFormat.JSON, "{}", None)))

    monkeypatch.setattr(same_version, "VERSION", "9.9.9")

    for each in (sent, plan):
        with pytest.raises(VersionMismatch) as caught:
            pickle.loads(each)
        assert str(caught.value).startswith(
            f"the driver has jetspark {VERSION}, this executor has 9.9.9 (in "
        )
        assert "install the same version on the driver and on every node" in str(caught.value)


def test_the_version_is_compared_before_anything_of_the_sender_is_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Classes and fields that the task's jetspark does not have must not be what is reported."""
    sent = pickle.dumps(batch_reader())
    monkeypatch.setattr(same_version, "VERSION", "9.9.9")
    monkeypatch.delattr("jetspark.spark.stream.batch_reader.JetStreamBatchReader")

    with pytest.raises(VersionMismatch):
        pickle.loads(sent)


def test_every_reader_and_writer_that_goes_to_tasks_carries_the_version() -> None:
    for module in pkgutil.walk_packages(jetspark.spark.__path__, "jetspark.spark."):
        if not module.name.startswith("jetspark.spark.pipelines"):
            importlib.import_module(module.name)
    found = {
        each
        for kind in (*KINDS, SupportsTriggerAvailableNow)
        for each in _subclasses(kind)
        if each.__module__.startswith("jetspark.spark.")
        # Raises on the driver, before there is a task.
        and each is not RefusedStreamReader
    }

    assert found >= {JetStreamBatchReader, JetStreamStreamReader, BatchWriter, StreamWriter}
    assert len(found) >= 6
    for each in found:
        assert _reduce(each) is not _reduce(object), each


def _reduce(kind: type) -> Any:
    return kind.__reduce__


def _subclasses(kind: type) -> set[type]:
    direct: set[type] = set(kind.__subclasses__())
    return direct.union(*map(_subclasses, direct))
