"""How `jetspark stream info` and `report` show what a damaged disk has cost."""

import pytest

from jetspark.api import stream as wire
from jetspark.cli.stream.inspecting import show_lost
from jetspark.client.models.base import from_wire
from jetspark.client.models.stream import StreamState


@pytest.mark.parametrize(
    ("lost", "shown"),
    [
        (None, ""),
        (wire.LostData(msgs=(3, 4), bytes=600), "2 (600 B)"),
        # Only the first of them are listed.
        (wire.LostData(msgs=tuple(range(1, 10_001)), bytes=0), "at least 10,000 (0 B)"),
        # Files are missing, and what they held is unknown.
        (wire.LostData(msgs=None, bytes=0), "unknown (0 B)"),
    ],
)
def test_a_list_that_was_cut_is_no_count_and_an_empty_one_is_unknown(
    lost: wire.LostData | None, shown: str
) -> None:
    assert show_lost(from_wire(StreamState, wire.StreamState(lost=lost))) == shown
