"""Batches as load: fast ingest with the server's flow, atomic batches in flight.

The bytes are created before the clock starts, as everywhere here (``load.py``).
"""

import re
import threading
from collections.abc import Callable
from itertools import accumulate

from bench.load import Wire, in_threads, make_stream
from bench.servers import Running

BODY = b"x" * 128
# What the publishers request; the server shares 500 between them.
FLOW = 500
# Acks that may be outstanding: the default of released clients.
OUTSTANDING = 2
ATOMIC_IN_FLIGHT = 20

_ACK = re.compile(rb'"seq":(\d+),"msgs":(\d+)\}')


def fast_ingest(publishers: int) -> Callable[[Running, int], Callable[[], None]]:
    """This many fast publishers on one stream share the messages; each ends with its final ack."""

    def prepare(server: Running, count: int) -> Callable[[], None]:
        make_stream(Wire(server), b"FAST", b',"allow_batched":true')
        jobs = [_FastPublisher(server, n, count // publishers) for n in range(publishers)]
        return lambda: in_threads(*(threading.Thread(target=job.run) for job in jobs))

    return prepare


class _FastPublisher:
    """Sends what the flow allows, waits for acks, continues."""

    def __init__(self, server: Running, number: int, count: int) -> None:
        self.wire = Wire(server)
        self.wire.send(b"SUB _F.%d.> 1\r\n" % number)
        self.wire.sync()
        head = b"PUB FAST.%d _F.%d.%d.fail." % (number, number, FLOW)
        frames = [
            b"%b%d.%d.$FI 128\r\n%b\r\n" % (head, seq, 0 if seq == 1 else 1, BODY)
            for seq in range(1, count)
        ]
        frames.append(b"%b%d.2.$FI 128\r\n%b\r\n" % (head, count, BODY))
        self.bytes = b"".join(frames)
        self.ends = [0, *accumulate(map(len, frames))]
        self.count = count

    def run(self) -> None:
        """Publish everything."""
        sent, acked, flow = 1, 0, 0
        self.wire.send(self.bytes[: self.ends[1]])
        tail = b""
        while True:
            tail = tail[-200:] + self.wire.receive()
            if b'"count":%d}' % self.count in tail:
                return
            if b'"error"' in tail:
                raise RuntimeError(tail.decode(errors="replace"))
            for seq, messages in _ACK.findall(tail):
                acked, flow = max(acked, int(seq)), int(messages)
            more = min(acked + OUTSTANDING * flow, self.count)
            if more > sent:
                self.wire.send(self.bytes[self.ends[sent] : self.ends[more]])
                sent = more


def atomic_batches(size: int) -> Callable[[Running, int], Callable[[], None]]:
    """Batches of this many messages, some in flight; first and last message want an answer."""

    def prepare(server: Running, count: int) -> Callable[[], None]:
        wire = Wire(server)
        make_stream(wire, b"ATOMIC", b',"allow_atomic":true')
        wire.send(b"SUB _I.* 1\r\n")
        wire.sync()
        batches = [_batch(number, size) for number in range(count // size)]

        def work() -> None:
            sent = done = 0
            tail = b""
            while done < len(batches):
                more = min(done + ATOMIC_IN_FLIGHT, len(batches))
                if more > sent:
                    wire.send(b"".join(batches[sent:more]))
                    sent = more
                data = tail + wire.receive()
                done += data.count(b'"count":')
                tail = data[-7:]

        return work

    return prepare


def _batch(number: int, size: int) -> bytes:
    frames = []
    for seq in range(1, size + 1):
        commit = b"Nats-Batch-Commit: 1\r\n" if seq == size else b""
        reply = b"_I.1 " if seq in {1, size} else b""
        block = b"NATS/1.0\r\nNats-Batch-Id: %08d\r\nNats-Batch-Sequence: %d\r\n%b\r\n" % (
            number, seq, commit,
        )  # fmt: skip
        sizes = b"%d %d" % (len(block), len(block) + len(BODY))
        frames.append(b"HPUB ATOMIC.x %b%b\r\n%b%b\r\n" % (reply, sizes, block, BODY))
    return b"".join(frames)
