"""The graphs of `stream graph` and `consumer graph`."""

from collections import deque

from jetspark.cli.graphs import Series, drawn

SERIES = (Series("Messages", "messages"),)


def graph(values: list[float], width: int = 40, height: int = 16) -> list[str]:
    return drawn("Stream S", SERIES, {"messages": deque(values)}, width, height).splitlines()


def test_bars_have_the_height_of_their_values() -> None:
    lines = graph([0, 6, 12])

    assert lines[:3] == ["Stream S", "", "Messages: 12 (max 12)"]
    bars = [line[12:].ljust(3) for line in lines[3:]]
    assert len(bars) == 12
    heights = ["".join(column).count("█") for column in zip(*bars, strict=True)]
    assert heights == [0, 6, 12]


def test_the_axis_is_labelled_and_small_values_can_be_seen() -> None:
    lines = graph([1, 100_000])

    assert lines[3].startswith("   100,000 │")
    assert lines[-1].startswith("         0 │▁")


def test_the_newest_values_are_shown_if_not_all_fit() -> None:
    lines = graph([float(one) for one in range(200)])

    assert all(len(line) <= 40 for line in lines)
    assert lines[2] == "Messages: 199 (max 199)"


def test_a_terminal_that_is_too_small_says_so() -> None:
    assert graph([1], width=20) == ["Stream S: the terminal is too small for a graph"]


def test_control_characters_of_a_title_are_not_obeyed() -> None:
    assert "\x1b" not in drawn("\x1b[2J", SERIES, {"messages": deque([1.0])}, 80, 24)
