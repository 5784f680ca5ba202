"""A pull of a client that loses its connection, and returns, on nats-server 2.15.1 and on ours."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from tests.support.both_servers import running_nats_server
from tests.support.consumer_wire import Message, Wire
from tests.support.served import Served

# nats-server forgets the request if it checks before the client has reconnected.
TRIES: Final = 8


def returned_to(address: str, name: str, watched: bool) -> list[Message]:
    """What a client gets that was away when its request waited for a message."""
    others, lost = Wire(address), Wire(address)
    others.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [name]})
    config = {"durable_name": "c", "ack_policy": "explicit"}
    others.api(f"CONSUMER.CREATE.{name}.c", {"stream_name": name, "config": config})
    lost.subscribe(f"inbox.{name}.*")
    pull = b'{"batch":2,"expires":30000000000}'
    inbox = f"inbox.{name}.1".encode()
    lost.publish(f"$JS.API.CONSUMER.MSG.NEXT.{name}.c", pull, reply=inbox)
    lost.flush()
    lost.close()

    returned = Wire(address)
    sid = returned.subscribe(f"inbox.{name}.*")
    if watched:
        others.subscribe(f"inbox.{name}.>")
    others.ask(name, b"hello")
    got = returned.quiet(sid, 0.5)
    others.close()
    returned.close()
    return got


@pytest.mark.parametrize("watched", [False, True], ids=["alone", "with a watcher"])
def test_a_waiting_pull_is_served_after_its_client_returned(tmp_path: Path, watched: bool) -> None:
    served = Served(tmp_path / "ours", "-p", "-1", "-js")
    try:
        ours = returned_to(served.url, "S", watched)
    finally:
        served.end()
    with running_nats_server(tmp_path / "theirs") as address:
        tries = (returned_to(address, f"S{number}", watched) for number in range(TRIES))
        theirs = next(got for got in tries if got)

    assert [message.payload for message in ours] == [b"hello"]
    assert [message.payload for message in theirs] == [b"hello"]
