"""SIGKILL while messages are consumed, again and again, on one store.

A life publishes, pulls and acknowledges: some messages by a request, some without waiting for an
answer, some not at all, and is killed in the middle. What must hold:

- every message whose publish was acknowledged is delivered at least once;
- a message whose acknowledgement was *answered* is never delivered again;
- the ack floor never passes a message that was not acknowledged by the client.
"""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

from tests.support.consumer_wire import Message, Wire
from tests.support.served import Served

STREAM = {"name": "K", "subjects": ["k.>"]}
CONFIG = {
    "durable_name": "c",
    "ack_policy": "explicit",
    "ack_wait": 300_000_000,
    "max_ack_pending": 500,
}
BATCH = 64
PUBLISHED = 32
SECOND = 1_000_000_000


class ConsumerKills:
    """One store, any number of lives."""

    def __init__(self, store: Path, seed: int) -> None:
        self.lives = 0
        # What was published, by its sequence, as far as its publish was acknowledged.
        self.stored: dict[int, bytes] = {}
        self.delivered: set[int] = set()
        # Sequences whose acknowledgement was sent, and those whose acknowledgement was answered.
        self.acked: set[int] = set()
        self.confirmed: set[int] = set()
        self._store = store
        self._random = random.Random(seed)
        self._sent: dict[bytes, bytes] = {}
        self._count = 0

    def live(self) -> None:
        """Start, check, work, and be killed in the middle."""
        served = Served(self._store, "-p", "-1", "-js")
        try:
            work = Work(self, served.url)
            work.begin()
            wanted = len(self.delivered) + self._random.randrange(1, 600)
            while len(self.delivered) < wanted:
                work.turn(publish=True)
            work.hurry()
            served.stop(signal.SIGKILL)
            work.end()
        finally:
            served.end()
        self.lives += 1

    def finish(self) -> None:
        """One life without a kill: everything that is left is delivered and acknowledged."""
        served = Served(self._store, "-p", "-1", "-js")
        try:
            work = Work(self, served.url)
            work.begin()
            while not work.is_done():
                work.turn(publish=False)
            work.end()
        finally:
            served.end()
        missing = self.stored.keys() - self.delivered
        assert not missing, f"acknowledged and never delivered: {sorted(missing)[:10]}"

    def next_message(self) -> tuple[bytes, bytes]:
        """Where the answer to the next publish goes, and its payload."""
        self._count += 1
        reply = b"stored.%d.%d" % (self.lives, self._count)
        payload = b"message %d of life %d" % (self._count, self.lives)
        self._sent[reply] = payload
        return reply, payload

    def note_stored(self, message: Message) -> None:
        """A publish was acknowledged."""
        seq = json.loads(message.payload)["seq"]
        assert seq not in self.stored, f"sequence {seq} was used twice"
        self.stored[seq] = self._sent.pop(message.to)

    def note_delivered(self, seq: int, payload: bytes) -> None:
        """A message was delivered."""
        assert seq not in self.confirmed, f"{seq} was acknowledged, answered, and came again"
        assert self.stored.get(seq, payload) == payload, f"{seq} came with another payload"
        self.delivered.add(seq)

    def check_floor(self, floor: int) -> None:
        """The consumer claims that everything up to here is acknowledged."""
        ahead = [seq for seq in range(1, floor + 1) if seq not in self.acked]
        assert not ahead, f"the ack floor {floor} is ahead of {ahead[:10]}"

    def fate(self, *, publish: bool) -> str:
        """What becomes of a delivered message."""
        if not publish:
            return "request"
        return self._random.choice(("request", "request", "silent", "silent", "nothing"))


class Work:
    """What one life does, over one connection."""

    def __init__(self, campaign: ConsumerKills, url: str) -> None:
        self._campaign = campaign
        self._wire = Wire(url)
        self._stored = self._wire.subscribe("stored.>")
        self._acked = self._wire.subscribe("acked.*")
        self._pulled = self._wire.subscribe("pulled")
        self._wanted = 0

    def begin(self) -> None:
        """Make what is to be there, and check what the consumer claims."""
        self._wire.api("STREAM.CREATE.K", STREAM)
        made = self._wire.api("CONSUMER.CREATE.K.c", {"stream_name": "K", "config": CONFIG})
        assert "error" not in made, made
        self._campaign.check_floor(made["ack_floor"]["stream_seq"])

    def turn(self, *, publish: bool) -> None:
        """Publish some, pull some, acknowledge some."""
        if publish:
            self._publish()
        if self._wanted <= 0:
            self._wanted = BATCH
            body = json.dumps({"batch": BATCH, "expires": SECOND // 2}).encode()
            self._wire.publish("$JS.API.CONSUMER.MSG.NEXT.K.c", body, reply=b"pulled")
        self._wire.flush()
        self._take(publish=publish)

    def hurry(self) -> None:
        """Have something in flight when the kill comes."""
        self._publish()
        self._wire.publish("$JS.API.CONSUMER.MSG.NEXT.K.c", b"%d" % BATCH, reply=b"pulled")

    def end(self) -> None:
        """Read what still came, and hang up."""
        try:
            self._wire.quiet(self._stored, 0.0)
            while True:
                self._take(publish=True)
                self._wire.flush()
                if not self._wire.arrived():
                    break
        except (ConnectionError, BrokenPipeError):
            self._take(publish=True, answer=False)
        self._wire.close()

    def is_done(self) -> bool:
        """Say whether nothing is left to deliver or to acknowledge."""
        info = self._wire.api("CONSUMER.INFO.K.c")
        self._campaign.check_floor(info["ack_floor"]["stream_seq"])
        return bool(info["num_pending"] == 0 and info["num_ack_pending"] == 0)

    def _publish(self) -> None:
        for _ in range(PUBLISHED):
            reply, payload = self._campaign.next_message()
            self._wire.publish("k.x", payload, reply=reply)

    def _take(self, *, publish: bool, answer: bool = True) -> None:
        campaign = self._campaign
        for message in self._wire.taken(self._stored):
            campaign.note_stored(message)
        for message in self._wire.taken(self._acked):
            campaign.confirmed.add(int(message.to.rpartition(b".")[2]))
        for message in self._wire.taken(self._pulled):
            if message.status:
                self._wanted = 0
                continue
            self._wanted -= 1
            seq = int(message.reply.split(b".")[5])
            campaign.note_delivered(seq, message.payload)
            fate = campaign.fate(publish=publish)
            if not answer or fate == "nothing":
                continue
            campaign.acked.add(seq)
            to = b"acked.%d" % seq if fate == "request" else b""
            self._wire.publish(message.reply, b"", reply=to)
