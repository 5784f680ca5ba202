"""The long benchmarks in small: they run, keep their figures apart, and draw them."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from bench import growth, latency, scale_table
from bench.latency import Answers, Figures
from bench.servers import OURS, PEER
from bench.svg import Panel, figure, short

SVG = "{http://www.w3.org/2000/svg}"


def test_latencies_count_from_when_a_message_was_due() -> None:
    """Three messages, due every 10 ms; the server stops for 50 ms and answers all at once."""
    answers = Answers(b'"seq":')
    answers.read(b'MSG _I.1 1 20\r\n{"stream":"S","seq":1}\r\nMSG {"stream":"S","se', 100.001)
    answers.read(b'q":2}\r\nMSG {"stream":"S","seq":3}\r\n', 100.050)

    assert answers.count == 3
    assert answers.latencies(100.0, 0.01) == pytest.approx([0.001, 0.030, 0.040])


def test_percentiles_are_those_of_all_messages() -> None:
    found = Figures.of([n / 1000 for n in range(1, 1001)])

    assert (found.p50, found.p99, found.p999, found.longest) == (501, 991, 1000, 1000)
    assert Figures.of([0.002]) == Figures(2, 2, 2, 2)


def test_a_figure_has_a_line_per_name_and_leaves_out_what_a_scale_cannot_show() -> None:
    drawn = ET.fromstring(
        figure(
            "A <title> & more",
            [
                Panel("one", "messages", "ms", {"a": [(10, 1), (1000, 5)], "b": [(10, 2)]}),
                Panel("two", "messages", "ms", {"a": [(10, 0), (100, 0.001)]}, log_y=True),
                Panel("none", "messages", "ms", {"a": []}),
            ],
        )
    )

    texts = [text.text for text in drawn.iter(f"{SVG}text")]
    assert {"A <title> & more", "one", "two", "none", "no data", "a", "b"} <= set(texts)
    assert len(list(drawn.iter(f"{SVG}circle"))) == 4
    for line in drawn.iter(f"{SVG}polyline"):
        for place in line.attrib["points"].split():
            assert all(0 <= float(at) <= 1100 for at in place.split(","))


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.25, "0.25"), (1500, "1.5k"), (10_000_000, "10M")]
)
def test_numbers_of_an_axis_are_short(value: float, text: str) -> None:
    assert short(value) == text


def test_the_scale_table_judges_what_was_measured_and_leaves_out_the_rest() -> None:
    figures = {
        PEER: {"400,000 subjects": 1_000_000.0, "stream create, one at a time": 1.5},
        OURS: {
            "400,000 subjects": 1_400_000.0,
            "stream create, one at a time": 2.5,
            "100 streams, 1000": 70.0,
            "1 stream, 1000": 100.0,
        },
    }
    scale_table.shares(figures[OURS])
    lines = scale_table.table(figures).splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]

    assert cells == [
        ["one stream, 1,000 in flight", "-", "100/s", "", ""],
        ["round robin, 100 streams, 1,000 in flight", "-", "70.0/s", "", ""],
        ["- share of one stream", "-", "0.70", ">= 0.7", "yes"],
        ["create a stream", "1.50 ms", "2.50 ms", "<= 3 ms", "yes"],
        [
            "core publish, 400,000 subjects without a receiver",
            "1,000,000/s",
            "1,400,000/s",
            ">= 1.5 x nats-server",
            "**no**",
        ],
    ]


def test_growth_is_measured_after_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    results = {}
    for name in ("subjects", "connections"):
        dimension = next(each for each in growth.DIMENSIONS if each.name == name)
        shares = (0.4, 1.0) if dimension.stored else (1.0,)
        found = growth.grow(OURS, dimension, scale=0.001, shares=shares)
        results[name] = {OURS: found}
    growth.write(results, tmp_path / "out")

    subjects, connections = (results[name][OURS] for name in ("subjects", "connections"))
    assert [point["size"] for point in subjects] == [400, 1000]
    assert [point["size"] for point in connections] == [5]
    assert all(value > 0 for point in subjects for value in point.values())
    assert "start after SIGKILL, s" in subjects[0]
    assert "one at a time, messages/s" in connections[0]
    assert json.loads((tmp_path / "out" / "growth.json").read_text()) == results
    ET.parse(tmp_path / "out" / "growth-subjects.svg")
    assert not list(tmp_path.glob("jetspark-bench-*")), "its stores are removed"


def test_latency_is_measured_at_a_rate_while_another_client_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scenario = next(each for each in latency.SCENARIOS if "replays" in each.name)
    (row,) = latency.measure(OURS, scenario, seconds=0.2, scale=0.005, shares=(0.1,))
    latency.write([row], tmp_path / "out")

    assert 0 < row.acks.p50 <= row.acks.p99 <= row.acks.p999 <= row.acks.longest
    assert row.deliveries.p50 > 0
    (saved,) = json.loads((tmp_path / "out" / "latency.json").read_text())
    assert saved["scenario"] == scenario.name
    ET.parse(tmp_path / "out" / "latency-another-client-replays.svg")
