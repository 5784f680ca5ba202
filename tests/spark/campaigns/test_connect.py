"""A client of a Spark Connect server, which has no JVM of its own.

The server finds the formats by their module names; the client uses them without registering
anything, and with ``session(remote=...)``. On a standalone cluster: ``make torture``.
"""

from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.campaigns.spark.connect import connect_server, copy_stream

if find_spec("grpc_status") is None:
    pytest.skip(
        'Spark Connect needs grpcio: pip install "jetspark[pipelines]"', allow_module_level=True
    )


@pytest.mark.timeout(1200)
def test_a_connect_client_reads_and_writes_streams(tmp_path: Path) -> None:
    with connect_server(tmp_path, "local[2]") as remote:
        said = copy_stream(tmp_path, remote)

    assert said[:2] == ["100", "[98, 100]"]
    # What `described` leaves while it lasts, and afterwards.
    assert said[2:4] == ["['IN; IN.0']", "[]"]
    assert said[4] == "None"
    # What `watch` reported: rows and bytes as `observed` counted them, and the lag at the end.
    assert said[5] == "['started', 'terminated'] 100 192 {'IN': 0}"
    assert "stream='IN'" in said[6]
    assert "stream 'NONE' does not exist on 127.0.0.1" in said[7]
