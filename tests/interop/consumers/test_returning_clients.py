"""A pull of a client that loses its connection, and returns, on nats-server 2.15.1 and on ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.both_servers import running_nats_server
from tests.support.consumer_wire import Wire
from tests.support.served import Served

S = 10**9


@pytest.fixture(params=["jetspark", "nats-server"])
def address(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "nats-server":
        with running_nats_server(tmp_path_factory.mktemp("theirs")) as found:
            yield found
        return
    served = Served(tmp_path_factory.mktemp("ours"), "-p", "-1", "-js")
    yield served.url
    served.end()


@pytest.mark.parametrize("watched", [False, True], ids=["alone", "with a watcher"])
def test_a_waiting_pull_is_served_after_its_client_returned(address: str, watched: bool) -> None:
    others = Wire(address)
    others.api("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    config = {"durable_name": "c", "ack_policy": "explicit"}
    others.api("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})
    lost = Wire(address)
    lost.subscribe("inbox.*")
    pull = b'{"batch":2,"expires":%d}' % (30 * S)
    lost.publish("$JS.API.CONSUMER.MSG.NEXT.S.c", pull, reply=b"inbox.1")
    lost.flush()
    lost.close()

    returned = Wire(address)
    sid = returned.subscribe("inbox.*")
    if watched:
        others.subscribe("inbox.>")
    others.ask("s", b"after")

    (message,) = returned.take(sid, 1)
    assert message.payload == b"after"
    others.close()
    returned.close()
