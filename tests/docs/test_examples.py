"""Every program of examples/ does what its page says, with its own server and at nats-server."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.examples import EXAMPLES, load
from tests.support.servers import ServerProcess

# tests/spark/guides/test_examples.py runs these: they need a session.
OF_SPARK = {"spark_totals.py"}


@pytest.fixture(scope="module")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where one nats-server is, for all programs: they remove what they made."""
    server = ServerProcess("nats-server", tmp_path_factory.mktemp("store"), "-js")
    yield server.url
    server.kill()


@pytest.fixture(params=["a jetspark of its own", "nats-server"])
def url(request: pytest.FixtureRequest) -> str | None:
    """What a program gets: nothing, so that it starts a server, or where nats-server is."""
    if request.param != "nats-server":
        return None
    found: str = request.getfixturevalue("nats_server")
    return found


def run(name: str, url: str | None) -> Any:
    """What an asyncio program returns."""
    return asyncio.run(load(name).main(url))


def test_a_job_survives_the_worker_that_died_with_it(
    url: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run("work_queue", url)

    out = capsys.readouterr().out
    assert done == 5
    assert "did b'picture 0', delivery 2" in out
    assert "5 jobs done, 0 left" in out


def test_two_shifts_send_each_mail_once_in_the_order_of_its_customer(url: str | None) -> None:
    early, late = run("concurrent_workers", url)

    assert sorted(early + late) == [
        f"{who} {n}" for who in ("anna", "ben", "cleo") for n in "1234"
    ]
    assert early
    assert late
    for customer in ("anna", "ben", "cleo"):
        for sent in (early, late):
            mine = [each for each in sent if each.startswith(customer)]
            assert mine == sorted(mine)


def test_a_position_is_kept_by_durables_and_on_request(
    url: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    read = run("keep_a_position", url)

    assert read == {
        "first run": [b"news 1", b"news 2"],
        "second run": [b"news 3", b"news 4"],
        "not kept": [b"news 1", b"news 1"],
        "kept": [b"news 1", b"news 2"],
    }
    assert "left on the server: ['kept', 'reader']" in capsys.readouterr().out


def test_settings_are_arguments_and_change_one_by_one(
    url: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    config = run("settings_as_arguments", url)

    assert (config.max_msgs, config.max_age, config.duplicate_window) == (1000, 86400, 60)
    out = capsys.readouterr().out
    assert "120 s for the work, 5 times at most" in out
    assert re.search(r"refused: stream 'EXAMPLE_COPY': subjects overlap .*'EXAMPLE_ORDERS'", out)
    assert "example_sessions: 3 values per key, for 28800 s" in out
    assert "object stores: ['example_tables']" in out


def test_a_batch_is_stored_whole_or_not_at_all(
    url: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = run("batches", url)

    assert stored == 2002
    out = capsys.readouterr().out
    assert "2 messages, the last is 2" in out
    assert "wrong last sequence: 2" in out
    assert "2000 lines published" in out


def test_a_read_sees_what_was_written(url: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    read = run("read_your_writes", url)

    assert read == [b"3.20", b"2 packets", b"3 packets"]
    assert "too early: " in capsys.readouterr().out


def test_settings_are_changed_once_and_seen(
    url: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = run("settings", url)

    # What existed when the watch began, or only what replaced it: both are right.
    assert seen in ([100, 200], [200])
    assert "wrong last sequence: 2" in capsys.readouterr().out


def test_a_table_follows_its_bucket(url: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    table = run("watch_a_bucket", url)

    assert table == {"db.2": b"10.0.0.2", "db.3": b"10.0.0.3"}
    out = capsys.readouterr().out
    assert "at first: {'db.1': b'10.0.0.1', 'db.2': b'10.0.0.2'}" in out
    assert re.search(r"DEL db.1 at .*\nPUT db.3 at ", out)
    assert "changed: cache.1\ndb.1: None - db.2: True" in out


def test_who_has_the_lock_is_never_interrupted(url: str | None) -> None:
    lines = run("one_at_a_time", url)

    begins, ends = lines[::2], lines[1::2]
    assert sorted(begins) == ["anna begins", "ben begins", "cleo begins"]
    assert [line.replace("begins", "ends") for line in begins] == ends


def test_what_waits_when_a_client_closes_ends_in_one_way(
    url: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    learnt = run("when_it_closes", url)

    assert "force_reconnect() was called" in learnt.pop(2)
    assert learnt == [
        "connected, last error: None",
        "connected after 1 reconnect",
        "hello",
        "next: ConnectionClosed",
        "request: ConnectionClosed",
        "closed",
    ]
    assert "closed, reason: None" in capsys.readouterr().out


def test_a_program_names_no_server(url: str | None) -> None:
    assert run("contexts", url) == [
        "by name: inboxes start with _INBOX_example",
        "selected: connected",
        "NATS_URL: inboxes start with _INBOX",
        "context 'production' does not exist",
    ]


def test_a_file_comes_back_as_it_was(url: str | None) -> None:
    assert load("files").main(url) == 3_542_641


def test_threads_write_reports_into_an_object_store(
    url: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    names = load("reports").main(url)

    assert names == ["april.txt", "february.txt", "january.txt", "march.txt"]
    assert "march: 200 sold" in capsys.readouterr().out


def test_every_example_is_run_and_listed() -> None:
    found = {path.name for path in EXAMPLES.glob("*.py")}
    page = (EXAMPLES / "README.md").read_text()
    here = (EXAMPLES.parent / "tests" / "docs" / "test_examples.py").read_text()
    runs = {f"{name}.py" for name in re.findall(r'(?:run|load)\("(\w+)"', here)}

    assert found == runs | OF_SPARK
    assert all(f"[{name}]({name})" in page for name in found)
