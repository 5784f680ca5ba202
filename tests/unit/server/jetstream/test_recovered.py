"""What a start logs about the streams that it opened."""

import logging

import pytest

from jetspark.server.jetstream.runtime import LISTED_MAX, Recovered
from jetspark.store.format.manifest import Identity
from jetspark.store.recovery.replay import Recovery


def logged(caplog: pytest.LogCaptureFixture, streams: int, noted: int = 0) -> list[str]:
    """The lines at level INFO and above; the stream ``noted`` has a note."""
    recovered = Recovered()
    with caplog.at_level(logging.INFO, "jetspark.server"):
        for number in range(1, streams + 1):
            recovery = Recovery()
            recovery.note_records(2)
            if number == noted:
                recovery.notes.append("something was wrong")
            recovered.report(
                Identity(stream_id=number, account="A", name=f"S{number}", created_ns=1), recovery
            )
        recovered.sum_up()
    return [record.getMessage() for record in caplog.records]


def test_each_of_some_streams_is_listed(caplog: pytest.LogCaptureFixture) -> None:
    assert logged(caplog, 2) == [
        "Recovered stream 'S1': 2 records",
        "Recovered stream 'S2': 2 records",
    ]


def test_of_very_many_streams_only_the_first_are_listed(caplog: pytest.LogCaptureFixture) -> None:
    lines = logged(caplog, LISTED_MAX + 5, noted=LISTED_MAX + 3)

    assert len(lines) == LISTED_MAX + 2
    assert lines[-2:] == [
        f"Stream 'S{LISTED_MAX + 3}': something was wrong",
        f"Recovered {LISTED_MAX + 5} streams: {2 * (LISTED_MAX + 5)} records",
    ]
