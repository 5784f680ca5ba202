"""One stream and its consumers on one server, driven by calls; it keeps what the server said."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.support.consumer_wire import Message, Wire, masked

MS = 1_000_000
S = 1_000 * MS
# nats-server notifies its consumers of a message shortly after acknowledging it.
COUNTED_S = 0.002
STATE = ("messages", "first_seq", "last_seq", "num_deleted", "consumer_count")


class Session:
    """What a script uses. Everything that both servers must say alike goes into ``said``."""

    def __init__(self, wire: Wire, stream: str) -> None:
        self.wire = wire
        self.stream = stream
        self.counted_s = COUNTED_S
        self.said: list[Any] = []

    # Requests -----------------------------------------------------------------------------------

    def make(self, **config: Any) -> None:
        """Make the stream."""
        body = {"name": self.stream, "subjects": [f"{self.stream}.>"]} | config
        self.note(self.wire.api(f"STREAM.CREATE.{self.stream}", body).get("error", "made"))

    def ask(self, verb: str, body: Any = None, name: str = "") -> Any:
        """A request about the stream, or about one of its consumers."""
        target = f"{self.stream}.{name}" if name else self.stream
        answer = self.nameless(self.wire.api(f"{verb}.{target}", body))
        self.note(answer)
        return answer

    def consumer(self, name: str = "c", **config: Any) -> Any:
        """Make a consumer, or change it; filters are given without the stream's token."""
        for field in ("filter_subject", "filter_subjects"):
            value = config.get(field)
            if isinstance(value, str):
                config[field] = f"{self.stream}.{value}"
            elif value is not None:
                config[field] = [f"{self.stream}.{one}" for one in value]
        if config.get("deliver_subject"):
            config["deliver_subject"] = f"d.{self.stream}.{config['deliver_subject']}"
        return self.ask("CONSUMER.CREATE", {"stream_name": self.stream, "config": config}, name)

    def info(self, name: str = "c") -> Any:
        """Everything about a consumer but its configuration."""
        answer = self.nameless(self.wire.api(f"CONSUMER.INFO.{self.stream}.{name}"))
        answer.pop("config", None)
        self.note(answer)
        return answer

    def state(self) -> Any:
        """The counts of the stream."""
        state = self.wire.api(f"STREAM.INFO.{self.stream}")["state"]
        self.note({name: state.get(name, 0) for name in STATE})
        return state

    def settled(self, count: int) -> None:
        """Wait until the stream has this many messages; removal by acks takes some time."""
        for _ in range(200):
            state = self.wire.api(f"STREAM.INFO.{self.stream}")["state"]
            if state["messages"] == count:
                break
            time.sleep(0.01)
        self.state()

    # Messages -----------------------------------------------------------------------------------

    def put(self, *keys: str, payload: bytes | None = None, headers: bytes = b"") -> None:
        """Publish one message per key; payloads say which they are."""
        answers = self.wire.ask_all(
            [
                (f"{self.stream}.{key}", key.encode() if payload is None else payload, headers)
                for key in keys
            ]
        )
        assert not any(b'"error"' in answer.payload for answer in answers), answers
        time.sleep(self.counted_s)

    def fetch(self, batch: int, name: str = "c", **options: Any) -> list[Message]:
        """Pull without waiting: messages, and the status that ends them."""
        return self.pull({"batch": batch, "no_wait": True} | options, batch, name)

    def pull(self, body: Any, count: int, name: str = "c", size: int = 0) -> list[Message]:
        """Pull with any body.

        It ends with a status, with ``count`` messages, or with messages of exactly ``size``
        bytes: a request whose limit of bytes is used up to the last one ends silently.
        """
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.stream}.{name}".encode()
        return self._pulled(subject, payload, count, size)

    def follow(self, message: Message, body: bytes, count: int) -> list[Message]:
        """Acknowledge and pull at once (``+NXT``)."""
        return self._pulled(message.reply, body, count)

    def _pulled(self, subject: bytes, payload: bytes, count: int, size: int = 0) -> list[Message]:
        got = self.wire.pull(
            subject,
            payload,
            lambda got: (
                got[-1].status not in {0, 100}
                or len(got) >= count
                or (size > 0 and sum(message.size for message in got) == size)
            ),
        )
        self.tell(got)
        return [message for message in got if not message.status]

    def ack(self, message: Message, body: bytes = b"") -> None:
        """Acknowledge as a request, and keep the answer."""
        self.tell([self.wire.ask(message.reply, body)])

    def tell(self, messages: list[Message]) -> None:
        """Keep messages as they came."""
        self.note([self.nameless(message.masked()) for message in messages])

    def note(self, value: Any) -> None:
        """Keep something."""
        self.said.append(value)

    def nameless(self, value: Any) -> Any:
        """The same with a fixed name instead of the stream's, which differs from run to run."""
        if isinstance(value, bytes):
            return value.replace(self.stream.encode(), b"STREAM")
        if isinstance(value, str):
            return value.replace(self.stream, "STREAM")
        if isinstance(value, dict):
            return {self.nameless(k): self.nameless(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.nameless(one) for one in value]
        return value

    # Advisories ---------------------------------------------------------------------------------

    def listen(self, subject: str) -> bytes:
        """Subscribe; ``STREAM`` stands for the stream's name."""
        return self.wire.subscribe(subject.replace("STREAM", self.stream))

    def advisories(self, sid: bytes, count: int) -> None:
        """Keep the next advisories, without what differs."""
        for message in self.wire.take(sid, count):
            body = json.loads(message.payload)
            for field in ("id", "timestamp", "server", "client", "ack_time"):
                body.pop(field, None)
            self.note([self.nameless(message.to), self.nameless(masked(body))])
