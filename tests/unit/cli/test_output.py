"""Tables, named values and JSON: on terminals of 80 and 120 columns, and without one."""

import json

import pytest
from tests.support.command_line import on_terminal

from jetspark.cli.output import Column, Output

COLUMNS = ("Name", Column("Description", long=True), Column("Messages", number=True))
ROWS = [
    (
        "ORDERS",
        "All orders of the shop, with their returns and complaints since the start",
        "12,345",
    ),
    ("日本", "wide \x1b[31mand\nhostile", "7"),
]

AT_80 = """\
                                    Streams
┌────────┬──────────────────────────────────────────────────────────┬──────────┐
│ Name   │ Description                                              │ Messages │
├────────┼──────────────────────────────────────────────────────────┼──────────┤
│ ORDERS │ All orders of the shop, with their returns and complain… │   12,345 │
│ 日本   │ wide \\x1b[31mand\\nhostile                                │        7 │
└────────┴──────────────────────────────────────────────────────────┴──────────┘
"""
AT_120 = """\
                                             Streams
┌────────┬───────────────────────────────────────────────────────────────────────────┬──────────┐
│ Name   │ Description                                                               │ Messages │
├────────┼───────────────────────────────────────────────────────────────────────────┼──────────┤
│ ORDERS │ All orders of the shop, with their returns and complaints since the start │   12,345 │
│ 日本   │ wide \\x1b[31mand\\nhostile                                                 │        7 │
└────────┴───────────────────────────────────────────────────────────────────────────┴──────────┘
"""
PLAIN = """\
Name    Description                                                                Messages
ORDERS  All orders of the shop, with their returns and complaints since the start    12,345
日本    wide \\x1b[31mand\\nhostile                                                         7
"""


@pytest.mark.parametrize(("width", "expected"), [(80, AT_80), (120, AT_120), (None, PLAIN)])
def test_a_table_fits_the_terminal_and_is_complete_without_one(
    width: int | None,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if width is not None:
        on_terminal(monkeypatch, width)

    Output().table("Streams", COLUMNS, ROWS)

    assert capsys.readouterr().out == expected


NARROW = """\
┌────────┬──────────┐
│ Name   │ Messages │
├────────┼──────────┤
│ ORDERS │   12,345 │
│ 日本   │        7 │
└────────┴──────────┘
"""


def test_on_a_narrow_terminal_long_texts_are_left_out_and_numbers_never_shortened(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_terminal(monkeypatch, 25)
    Output().table("", COLUMNS, ROWS)
    assert capsys.readouterr().out == NARROW
    for width in range(5, 100):
        on_terminal(monkeypatch, width)
        Output().table(
            "",
            ("Some Name", Column("A Number", number=True), "Empty"),
            [("x" * 50, "1,000,000", "")],
        )
        shown = capsys.readouterr().out
        assert "1,000,000" in shown
        assert "Empty" not in shown
        if width >= 22:
            assert max(map(len, shown.splitlines())) <= width


def test_named_values_are_aligned_and_empty_ones_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Output().fields(
        "Title",
        [
            ("", [("Name", "A"), ("Description", ""), ("Count", 0)]),
            ("Empty", [("None", None)]),
            ("Several", [("Peers", ["a", "b"])]),
        ],
    )

    assert capsys.readouterr().out == (
        "Title\n\n   Name: A\n  Count: 0\n\nSeveral:\n\n  Peers: a\n         b\n"
    )


def test_colours_are_for_terminals_that_want_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert Output().style("x", "red") == "x"
    on_terminal(monkeypatch, 80)
    assert Output().style("x", "red") == "x"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm")
    assert Output().style("x", "red") == "\x1b[31mx\x1b[0m"
    Output("json").value({"a": 1})
    assert "\x1b" not in capsys.readouterr().out


def test_payloads_are_exact_bytes_but_harmless_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    hostile = b"a\x1b[2J\xff\n"
    Output().data(hostile)
    assert capfdbinary.readouterr().out == hostile + b"\n"
    on_terminal(monkeypatch, 80)
    Output().data(hostile)
    assert capfdbinary.readouterr().out == b"a\\x1b[2J\\xff\n\n"


def test_lists_are_one_document_or_lines(capsys: pytest.CaptureFixture[str]) -> None:
    for values in ([], [{"a": 1}], [{"a": 1}, "b"]):
        Output("json").values(values)
        assert json.loads(capsys.readouterr().out) == values
        Output("ndjson").values(values)
        assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == values


def test_what_was_done_is_said_to_people_and_written_for_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Output().done("It was removed", removed=True)
    assert capsys.readouterr() == ("", "It was removed\n")
    Output("ndjson").done("It was removed", removed=True)
    assert capsys.readouterr() == ('{"removed":true}\n', "")
