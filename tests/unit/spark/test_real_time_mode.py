"""What Spark does not offer to sources in Python, as the docs say."""

import zipfile
from pathlib import Path

import pytest

pyspark = pytest.importorskip("pyspark")

MARK = b"SupportsRealTimeMode"
SOURCES = "org/apache/spark/sql/execution/streaming/sources/LowLatencyMemoryStream.class"
PYTHON = "org/apache/spark/sql/execution/datasources/v2/python/PythonMicroBatchStream"


def test_python_sources_have_no_real_time_mode() -> None:
    """Spark asks for this interface. The day its class for Python has it, the docs are wrong."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-sql_*.jar")
    with zipfile.ZipFile(jar) as classes:
        ours = [name for name in classes.namelist() if name.startswith(PYTHON)]

        assert MARK in classes.read(SOURCES)
        assert ours
        assert not any(MARK in classes.read(name) for name in ours)
