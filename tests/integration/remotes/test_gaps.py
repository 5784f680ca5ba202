"""Messages that a remote sent and that never came, on a connection that lives.

In a cluster a route between two nodes can lose them. An ordered consumer finds that out by
counting: when the next message comes, or when the stream is quiet and its consumer is asked.
"""

from __future__ import annotations

import pytest
from tests.support.remotes import HUB, as_copied, caught_up, copying, fill, make, rows

from jetspark import Server, connect
from jetspark.client.jetstream.consumer.endless import EndlessPull
from jetspark.client.jetstream.consumer.message import JetStreamMessage
from jetspark.replica import readers


class Lossy(EndlessPull):
    """Loses what ``lost`` says, once: payloads."""

    lost: set[bytes]

    async def next_chunk(self, count: int) -> list[JetStreamMessage]:
        """The messages that were not lost."""
        while True:
            chunk = await super().next_chunk(count)
            kept = [message for message in chunk if message.data not in self.lost]
            self.lost.difference_update(message.data for message in chunk)
            if kept or not chunk:
                return kept


@pytest.mark.parametrize(
    "lost",
    [{b"0"}, {b"7"}, {b"9"}, {b"%d" % n for n in range(10)}],
    ids=["first", "middle", "last", "all"],
)
async def test_a_lost_message_is_read_again(
    lost: set[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "EndlessPull", Lossy)
    monkeypatch.setattr(Lossy, "lost", set(lost), raising=False)
    async with (
        Server() as hub,
        copying(hub.client_url) as server,
        await connect(hub.client_url) as there,
        await connect(server.client_url) as here,
    ):
        await make(there, "A", subjects=["a.>"])
        await fill(there, 10)
        await make(here, "M", mirror={"name": "A", "external": HUB})
        await caught_up(here, "M", 10)

        assert await rows(here, "M") == as_copied(await rows(there, "A"))
    assert Lossy.lost == set()
