"""`jetspark errors`."""

from tests.support.command_line import CommandLine

CLI = CommandLine()


def test_a_code_is_explained() -> None:
    shown = CLI.ok("errors", "lookup", "10071")

    assert "Description: wrong last sequence" in shown
    assert "Exception: jetspark.errors.WrongLastSequence" in shown
    assert CLI.json("err", "get", "10059") == {
        "err_code": 10059, "code": 404, "name": "STREAM_NOT_FOUND",
        "description": "stream not found", "exception": "jetspark.errors.StreamNotFound",
    }  # fmt: skip
    assert "errors ls" in CLI.fails(1, "errors", "lookup", "7")


def test_codes_are_searched_and_sorted() -> None:
    every = CLI.json("errors", "ls")
    some = CLI.ndjson("errors", "search", "STREAM not F")
    by_status = [one["code"] for one in CLI.json("errors", "ls", "", "http", "-R")]

    assert len(every) > 150
    assert 10059 in [one["err_code"] for one in some]
    assert all("stream not f" in one["description"].lower() for one in some)
    assert by_status == sorted(by_status, reverse=True)
    assert "10059" in CLI.ok("errors", "ls", "10059")
    assert CLI.said("errors", "ls", "no such text").startswith("No error code matches")
    assert "regular expression" in CLI.fails(2, "errors", "ls", "(")
