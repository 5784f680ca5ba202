"""A server killed in the middle of fast batches, over real sockets (ADR-50, leader change)."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.interop.publishing.batch_wire import BatchClient, Fast
from tests.interop.publishing.publish_wire import api
from tests.support.served import Served

DURABLE = 6
CONFIG = {"name": "S", "subjects": ["S.>"], "allow_batched": True}


def publish(client: BatchClient, step: Fast) -> None:
    client.send(f"S.{step.subject}", step.reply(), step.payload)


def test_acknowledged_messages_exist_and_the_rest_is_reported(tmp_path: Path) -> None:
    served = Served(tmp_path / "store", "-p", "-1", "-js")
    client = BatchClient(served.url)
    assert "error" not in api(client, "STREAM.CREATE.S", CONFIG)
    for gap, name in (("ok", "o"), ("fail", "f")):
        publish(client, Fast(1, 0, name, gap, 2))
        for number in range(2, DURABLE + 1):
            publish(client, Fast(number, 1, name, gap, 2))
    while len([body for _, body in client.heard if b'"seq":%d' % DURABLE in body]) < 2:
        client.flush()

    served.stop(signal.SIGKILL)
    again = Served(tmp_path / "store", "-p", "-1", "-js")
    late = BatchClient(again.url)
    publish(late, Fast(DURABLE + 3, 1, "o", "ok", 2))
    publish(late, Fast(DURABLE + 3, 1, "f", "fail", 2))
    told = late.listen(3)
    state = api(late, "STREAM.INFO.S", {})["state"]
    late.close()
    client.close()
    again.end()

    report = {"type": "gap", "last_seq": DURABLE + 1, "seq": DURABLE + 3}
    assert told[0] == (Fast(DURABLE + 3, 1, "o", "ok", 2).reply(), report)
    (final,) = [body for _, body in told if "batch" in body]
    assert (final["batch"], final["count"]) == ("f", DURABLE)
    assert state["messages"] >= 2 * DURABLE
