"""Values of checks: whole numbers are never rounded."""

import pytest

from jetspark.cli.output import Output
from jetspark.cli.server.check.result import Result

LARGE = 1_234_567_890_123_456


@pytest.mark.parametrize(
    ("value", "text"), [(LARGE, "1,234,567,890,123,456"), (0, "0"), (0.25, "0.250000")]
)
def test_a_value_is_shown_exactly(
    capsys: pytest.CaptureFixture[str], value: float, text: str
) -> None:
    result = Result("stream", "ORDERS")
    result.measure("messages", value, "Messages")

    result.render("text", "nats", Output())

    [line] = [one for one in capsys.readouterr().out.splitlines() if one.startswith("messages")]
    assert line.split()[1] == text


def test_prometheus_gets_every_digit() -> None:
    result = Result("stream", "ORDERS")
    result.measure("messages", LARGE, "Messages")
    result.measure("age", 0.125, "Age")

    written = result.render("prometheus", "nats", Output())

    assert written is not None
    assert f'nats_stream_messages{{item="ORDERS"}} {LARGE}' in written.decode().splitlines()
    assert 'nats_stream_age{item="ORDERS"} 0.125' in written.decode().splitlines()
