"""The examples of docs/testing.md run as they stand, on our server and on nats-server."""

import re
from pathlib import Path

import pytest
from tests.support.user_project import pytest_in

from jetspark.testing.published import Expectation, PublishLog

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
# nats-server has neither a clock nor a disk for tests.
NOT_ON_NATS_SERVER = 5


@pytest.mark.parametrize("server", ["jetspark", "nats-server"])
def test_every_example_passes(tmp_path: Path, server: str) -> None:
    for number, example in enumerate(EXAMPLES):
        (tmp_path / f"test_example_{number}.py").write_text(example)

    done = pytest_in(tmp_path, "-W", "error", "-p", "no:asyncio", f"--jetspark-server={server}")

    skipped = NOT_ON_NATS_SERVER if server == "nats-server" else 0
    assert done.code == 0, done.output
    assert done.count("skipped") == skipped, done.output
    assert done.count("passed") == len(re.findall(r"def test_", PAGE)) - skipped


async def test_the_failure_that_is_shown_is_the_one_that_is_printed() -> None:
    log = PublishLog()
    headers = b"NATS/1.0\r\nlang: en\r\n\r\n"
    data = b'{"order": 7}'
    sizes = b"%d %d" % (len(headers), len(headers) + len(data))
    log.record(1, b"HPUB mail.confirmation " + sizes + b"\r\n" + headers + data + b"\r\n")

    with pytest.raises(AssertionError) as failure:
        await log.expect(Expectation("sms.>", 1, None, None), 0.1)

    assert f"```text\n{failure.value}\n```" in PAGE
