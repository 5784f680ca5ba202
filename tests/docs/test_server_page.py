"""The examples of docs/server.md run as they stand."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import jetspark

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "server.md").read_text(encoding="utf-8")
EMBEDDED, FIXTURE = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
USER_TEST = """


def test_an_order_is_stored(js):
    js.create_stream("ORDERS", subjects=["orders.>"])

    assert js.publish("orders.1", b"two books").seq == 1
"""


async def test_the_embedded_server_has_two_addresses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {"jetspark": jetspark}
    block = textwrap.indent(EMBEDDED.replace("/data", str(tmp_path)), "    ")
    exec(f"async def main():\n{block}", names)

    await names["main"]()

    assert re.fullmatch(r"nats://127.0.0.1:\d+ http://127.0.0.1:\d+\n", capsys.readouterr().out)


def test_the_fixture_serves_tests(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(FIXTURE)
    (tmp_path / "test_orders.py").write_text(USER_TEST)
    (settings := tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", str(settings), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "1 passed" in done.stdout, done.stdout + done.stderr
