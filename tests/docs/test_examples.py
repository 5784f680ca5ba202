"""Every program of examples/ runs as it is and does what its page says."""

import asyncio

import pytest
from tests.support.examples import EXAMPLES, load

# tests/spark/guides/test_examples.py runs these: they need a session.
OF_SPARK = {"spark_totals.py"}


def test_a_job_survives_the_worker_that_died_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    done = asyncio.run(load("work_queue").main())

    out = capsys.readouterr().out
    assert done == 5
    assert "did b'picture 0', delivery 2" in out
    assert "5 jobs done, 0 left" in out


def test_settings_are_changed_once_and_seen(capsys: pytest.CaptureFixture[str]) -> None:
    seen = asyncio.run(load("settings").main())

    # What was there when the watch began, or only what replaced it: both are right.
    assert seen in ([100, 200], [200])
    assert "wrong last sequence: 2" in capsys.readouterr().out


def test_who_has_the_lock_is_never_interrupted() -> None:
    lines = asyncio.run(load("one_at_a_time").main())

    begins, ends = lines[::2], lines[1::2]
    assert sorted(begins) == ["anna begins", "ben begins", "cleo begins"]
    assert [line.replace("begins", "ends") for line in begins] == ends


def test_a_file_comes_back_as_it_was() -> None:
    assert load("files").main() == 3_542_641


def test_every_example_is_run_and_listed() -> None:
    found = {path.name for path in EXAMPLES.glob("*.py")}
    page = (EXAMPLES / "README.md").read_text()

    assert found == {"files.py", "one_at_a_time.py", "settings.py", "work_queue.py", *OF_SPARK}
    assert all(f"[{name}]({name})" in page for name in found)
