"""ADR-15 as a server sees it: which requests the workflow sends, and in which order."""

import asyncio
import json
from typing import Any

from tests.support.scripted import greet, scripted

from jetspark import ConsumerConfig, connect

Frame = tuple[str, str, bytes]  # operation, subject, payload

ANSWERS: dict[str, Any] = {
    "$JS.API.STREAM.NAMES": {"total": 1, "offset": 0, "limit": 1024, "streams": ["S"]},
    "$JS.API.CONSUMER.INFO": {
        "error": {"code": 404, "err_code": 10014, "description": "consumer not found"}
    },
}


class Recorder:
    """A server that knows one stream and records what it receives."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.replies_sid = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await greet(reader, writer)
        while line := await reader.readline():
            verb, _, rest = line.rstrip().decode().partition(" ")
            if verb == "PING":
                writer.write(b"PONG\r\n")
            elif verb == "SUB":
                words = rest.split()
                self.frames.append((verb, words[0], b""))
                if words[0].endswith(".*"):
                    self.replies_sid = int(words[-1])
            elif verb == "PUB":
                subject, *reply, size = rest.split()
                payload = (await reader.readexactly(int(size) + 2))[:-2]
                self.frames.append((verb, subject, payload))
                self._answer(writer, subject, reply[0], payload)

    def _answer(
        self, writer: asyncio.StreamWriter, subject: str, reply: str, payload: bytes
    ) -> None:
        body: Any = {"success": True}
        for prefix, answer in ANSWERS.items():
            if subject.startswith(prefix):
                body = answer
        if subject.startswith("$JS.API.CONSUMER.CREATE"):
            asked = json.loads(payload)
            config = asked["config"]
            name = config.get("durable_name", "named-by-the-server")
            body = {"stream_name": "S", "name": name, "config": config}
        encoded = json.dumps(body).encode()
        head = f"MSG {reply} {self.replies_sid} {len(encoded)}\r\n"
        writer.write(head.encode() + encoded + b"\r\n")

    def subjects(self) -> list[str]:
        return [f"{verb} {subject}" for verb, subject, _ in self.frames]

    def body(self, start: str) -> Any:
        (payload,) = [body for _, subject, body in self.frames if subject.startswith(start)]
        return json.loads(payload)


async def test_the_stream_is_asked_for_and_the_subscription_precedes_the_consumer() -> None:
    """ADR-15, "Stream name", "NATS subscription", "Creating the JS Consumer"."""
    server = Recorder()
    async with scripted(server.serve) as url, await connect(url) as nc:
        subscription = await nc.jetstream().subscribe("a.b", durable="d")
        await subscription.unsubscribe()
    frames = [each for each in server.subjects() if not each.endswith(".*")]  # replies
    asked = server.body("$JS.API.CONSUMER.CREATE")["config"]

    assert server.body("$JS.API.STREAM.NAMES") == {"subject": "a.b"}
    assert frames == [
        "PUB $JS.API.STREAM.NAMES",
        "PUB $JS.API.CONSUMER.INFO.S.d",
        f"SUB {asked['deliver_subject']}",
        "PUB $JS.API.CONSUMER.CREATE.S.d.a.b",
        "PUB $JS.API.CONSUMER.DELETE.S.d",
    ]
    assert (asked["durable_name"], asked["filter_subject"]) == ("d", "a.b")
    assert asked["ack_policy"] == "explicit"


async def test_with_a_stream_no_lookup_is_made_and_a_pull_has_no_deliver_subject() -> None:
    server = Recorder()
    async with scripted(server.serve) as url, await connect(url) as nc:
        pull = await nc.jetstream().pull_subscribe(
            "a.b", stream="S", durable="p", config=ConsumerConfig(max_waiting=7)
        )
        await pull.unsubscribe()
    asked = server.body("$JS.API.CONSUMER.CREATE")["config"]

    assert [each for each in server.subjects() if each.startswith("PUB")] == [
        "PUB $JS.API.CONSUMER.INFO.S.p",
        "PUB $JS.API.CONSUMER.CREATE.S.p.a.b",
        "PUB $JS.API.CONSUMER.DELETE.S.p",
    ]
    assert "deliver_subject" not in asked
    assert asked["max_waiting"] == 7


async def test_a_temporary_consumer_is_not_looked_up_and_its_name_is_taken_from_the_answer() -> (
    None
):
    server = Recorder()
    async with scripted(server.serve) as url, await connect(url) as nc:
        subscription = await nc.jetstream().subscribe("a.b", queue="", stream="S")
        name = subscription.consumer
        await subscription.unsubscribe()

    create, delete = [each for each in server.subjects() if each.startswith("PUB")]
    assert create.startswith("PUB $JS.API.CONSUMER.CREATE.S.")
    assert name == "named-by-the-server"
    assert delete == f"PUB $JS.API.CONSUMER.DELETE.S.{name}"
    assert "durable_name" not in server.body("$JS.API.CONSUMER.CREATE")["config"]


async def test_members_of_a_queue_subscribe_as_one() -> None:
    server = Recorder()
    async with scripted(server.serve) as url, await connect(url) as nc:
        await nc.jetstream().subscribe("a.b", queue="q", stream="S")
    asked = server.body("$JS.API.CONSUMER.CREATE")["config"]

    assert (asked["durable_name"], asked["deliver_group"]) == ("q", "q")
    assert asked["deliver_subject"].startswith("_INBOX.")
