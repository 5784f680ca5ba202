"""More hostile clients: each uses a feature of streams and consumers as often as it can.

As in ``clients.py``: by hand, and ``scale`` makes them smaller for the short form.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import Final

from tests.support.hostile.clients import Target, Wire, connect, create, drop, fill


def publish(subject: bytes, lines: bytes, payload: bytes = b"", reply: bytes = b"") -> bytes:
    """A message with header lines."""
    block = b"NATS/1.0\r\n" + lines + b"\r\n"
    return b"HPUB %b %b%d %d\r\n%b%b\r\n" % (
        subject, reply + b" " if reply else b"", len(block), len(block) + len(payload), block,
        payload,
    )  # fmt: skip


def request(verb: bytes, body: object = b"", reply: bytes = b"_x") -> bytes:
    """A request whose answer is not waited for."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"PUB $JS.API.%b %b %d\r\n%b\r\n" % (verb, reply, len(data), data)


def many_subscriptions(target: Target) -> None:
    """1,500,000 subscriptions of one client, to as many subjects."""
    with target.client() as client:
        count = target.times(1_500_000)
        for start in range(0, count, 50_000):
            numbers = range(start, min(count, start + 50_000))
            client.send(b"".join(b"SUB w.%d %d\r\n" % (n, n) for n in numbers))
            client.settle()


def counted_subscriptions(target: Target) -> None:
    """50,000 subscriptions that end after one message each, and one message for all of them."""
    with target.client() as client:
        count = target.times(50_000)
        client.send(b"".join(b"SUB once %d\r\nUNSUB %d 1\r\n" % (n, n) for n in range(count)))
        client.send(b"PUB once 2\r\nhi\r\n")
        client.settle()


def wildcard_replies(target: Target) -> None:
    """30,000 requests whose reply subjects are wildcards, or very long."""
    with target.client() as client:
        create(client, "W", ["w.>"])
        for reply in (b">", b"*.*", b"w.>", b"a." * 1_000 + b"a"):
            client.send((b"PUB w.x %b 0\r\n\r\n" % reply) * target.times(5_000))
            client.send(request(b"INFO", reply=reply) * target.times(2_500))
        client.settle()
        drop(client, "W")


def answers_for_many(target: Target) -> None:
    """Twenty clients send 3,000 requests each, whose answers 400 clients get that do not read."""
    wires = []
    for number in range(target.times(400)):
        wire = target.wire()
        target.stay(wire.socket)
        wire.socket.sendall(connect() + b"SUB _r 1\r\nSUB _r 2\r\n")
        if number < 20:
            wires.append(wire)
    for wire in wires:
        wire.socket.sendall(request(b"STREAM.LIST", reply=b"_r") * target.times(3_000))
    with target.client() as client:
        wait(client, 4 * target.scale)


def users(target: Target) -> None:
    """5,000 CONNECTs that alternate between two users, with subscriptions in between."""
    with target.client() as client:
        line = b"SUB a.* 1\r\nSUB b 2 \r\n"
        pair = connect("hostile") + line + connect("denied") + line
        client.send(pair * target.times(2_500))
        client.settle()


def headers(target: Target) -> None:
    """100 messages with 8,000 header lines each, to a stream that has rules."""
    with target.client() as client:
        create(client, "H", ["h.>"], allow_msg_ttl=True, allow_rollup_hdrs=True, allow_direct=True)
        lines = b"".join(b"A%d: b\r\n" % n for n in range(8_000))[:60_000].rpartition(b"\n")[0]
        client.send(publish(b"h.x", lines + b"\n", reply=b"_x") * target.times(100))
        client.send(publish(b"$JS.API.STREAM.INFO.H", lines + b"\n", reply=b"_x") * 20)
        client.settle()
        client.send(b"SUB _x 1\r\n" + request(b"DIRECT.GET.H", {"seq": 1}) * target.times(1_000))
        wait(client, target.scale)
    clean(target, "H")


def republishes(target: Target) -> None:
    """A stream that republishes to 20,000 subscriptions, and the copy of it in ten streams."""
    with target.client() as client:
        create(client, "R", ["r"], republish={"src": ">", "dest": "again.>"})
        for number in range(10):
            create(client, f"R{number}", [], sources=[{"name": "R"}])
        client.send(b"".join(b"SUB again.* %d\r\n" % n for n in range(target.times(20_000))))
        client.send(b"PUB r 2\r\nhi\r\n" * target.times(200))
        client.settle()
    clean(target, "R", *(f"R{number}" for number in range(10)))


def metadata(target: Target) -> None:
    """500 updates of a stream with 120 KB of metadata, and of a consumer with long lists."""
    with target.client() as client:
        data = {str(n): "v" * 20 for n in range(3_500)}
        create(client, "M", ["m.>"], metadata=data)
        for number in range(target.times(250)):
            data["0"] = str(number)
            client.request(
                b"STREAM.UPDATE.M",
                {"name": "M", "subjects": ["m.>"], "storage": "memory", "metadata": data},
            )
        waits = [10**9 + n for n in range(1_024)]
        config: dict[str, object] = {"durable_name": "C", "metadata": data}
        config |= {"ack_policy": "explicit", "max_deliver": 1_025, "backoff": waits}
        for _ in range(target.times(50)):
            client.request(b"CONSUMER.CREATE.M.C", {"stream_name": "M", "config": config})
        client.send(request(b"STREAM.INFO.M") * target.times(500))
        client.send(request(b"CONSUMER.LIST.M") * target.times(500))
        client.settle()
        drop(client, "M")


def subject_changes(target: Target) -> None:
    """200 updates of a stream that alternate between two lists of 1,000 subjects."""
    with target.client() as client:
        create(client, "U", ["u.x"])
        for number in range(target.times(200)):
            subjects = [f"u.{number % 2}.{n}" for n in range(1_000)]
            client.request(
                b"STREAM.UPDATE.U", {"name": "U", "subjects": subjects, "storage": "memory"}
            )
        drop(client, "U")


def purges(target: Target) -> None:
    """3,000 times ten messages and a purge, while 100 consumers follow the stream."""
    with target.client() as client:
        create(client, "P", ["p.>"])
        for number in range(100):
            config = {"name": f"c{number}", "ack_policy": "explicit"}
            client.request(
                b"CONSUMER.CREATE.P.c%d" % number, {"stream_name": "P", "config": config}
            )
        round_ = b"PUB p.x 1\r\nx\r\n" * 10 + request(b"STREAM.PURGE.P")
        client.send(round_ * target.times(3_000))
        client.settle()
        drop(client, "P")


def deletes(target: Target) -> None:
    """20,000 messages that are deleted one by one, in reverse, while they are listed."""
    with target.client() as client:
        create(client, "D", ["d.>"])
        count = target.times(20_000)
        fill(client, count, "d")
        for seq in range(count, 0, -1):
            client.send(request(b"STREAM.MSG.DELETE.D", {"seq": seq, "no_erase": True}))
            if seq % 500 == 0:
                client.send(request(b"STREAM.INFO.D", {"subjects_filter": ">"}))
        client.settle()
        drop(client, "D")


def schedules(target: Target) -> None:
    """20,000 schedules that are due at the same instant."""
    seconds = 1 + round(3 * target.scale)
    with target.client() as client:
        create(client, "C", ["c.>"], allow_msg_schedules=True)
        due = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds)).encode()
        lines = b"Nats-Schedule: @at %b\r\nNats-Schedule-Target: c.due\r\n" % due
        count = target.times(20_000)
        client.send(b"".join(publish(b"c.s.%d" % n, lines, b"x") for n in range(count)))
        client.settle()
        wait(client, seconds + 1)
        drop(client, "C")


def lifetimes(target: Target) -> None:
    """200,000 messages on as many subjects whose TTL ends at the same time."""
    seconds = 1 + round(4 * target.scale)
    lines = b"Nats-TTL: %ds\r\n" % seconds
    with target.client() as client:
        create(
            client, "T", ["t.>"], allow_msg_ttl=True, subject_delete_marker_ttl=10**9,
            allow_rollup_hdrs=True,
        )  # fmt: skip
        count = target.times(200_000)
        for start in range(0, count, 20_000):
            numbers = range(start, min(count, start + 20_000))
            client.send(b"".join(publish(b"t.%d" % n, lines, b"x") for n in numbers))
        client.settle()
        wait(client, seconds + 1)
        drop(client, "T")


def ages(target: Target) -> None:
    """200,000 messages that become too old together, with 50 consumers that wait for them."""
    with target.client() as client:
        create(client, "G", ["g.>"], max_age=10**9)
        for number in range(50):
            config = {"name": f"c{number}", "ack_policy": "explicit", "filter_subject": "g.*.y"}
            client.request(
                b"CONSUMER.CREATE.G.c%d" % number, {"stream_name": "G", "config": config}
            )
        fill(client, target.times(200_000), "g")
        wait(client, 1.5)
        drop(client, "G")


def pauses(target: Target) -> None:
    """5,000 times a consumer is paused and resumed, with 100,000 messages waiting."""
    with target.client() as client:
        create(client, "S", ["s.>"])
        fill(client, target.times(100_000))
        config = {"name": "C", "deliver_subject": "there", "ack_policy": "explicit"}
        client.request(b"CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
        client.send(b"SUB there 1\r\n")
        until = {"pause_until": "2099-01-01T00:00:00Z"}
        pair = request(b"CONSUMER.PAUSE.S.C", until) + request(b"CONSUMER.PAUSE.S.C")
        client.send(pair * target.times(2_500))
        client.settle()
        drop(client, "S")


def groups(target: Target) -> None:
    """5,000 pulls of a priority group, in turns with different limits, and messages for them."""
    with target.client() as client:
        create(client, "Q", ["q.>"])
        config = {
            "name": "C", "ack_policy": "explicit", "priority_policy": "overflow",
            "priority_groups": ["g"],
        }  # fmt: skip
        client.request(b"CONSUMER.CREATE.Q.C", {"stream_name": "Q", "config": config})
        for number in range(target.times(5_000)):
            body = {"batch": 1, "expires": 2 * 10**9, "group": "g", "min_pending": number}
            client.send(request(b"CONSUMER.MSG.NEXT.Q.C", body, b"_y.%d" % number))
        client.settle()
        client.send(b"PUB q.x 1\r\nx\r\n" * target.times(5_000))
        wait(client, 0.5 + 2 * target.scale)
        drop(client, "Q")


def redeliveries(target: Target) -> None:
    """50,000 messages that are rejected with a delay, all of them due again at once."""
    with target.client() as client:
        create(client, "N", ["n.>"])
        count = target.times(50_000)
        fill(client, count, "n")
        config = {"name": "C", "ack_policy": "explicit", "max_ack_pending": -1, "ack_wait": 10**9}
        client.request(b"CONSUMER.CREATE.N.C", {"stream_name": "N", "config": config})
        pull = json.dumps({"batch": count, "expires": 10**10}).encode()
        for number in range(3):
            client.send(b"SUB _n%d %d\r\n" % (number, number))
            client.send(request(b"CONSUMER.MSG.NEXT.N.C", pull, b"_n%d" % number))
            wait(client, 0.5 + target.scale)
        drop(client, "N")


def batches(target: Target) -> None:
    """20,000 atomic batches that are started and left, and one of a thousand that is refused."""
    with target.client() as client:
        create(client, "B", ["b.>"], allow_atomic=True)
        first = b"Nats-Batch-Id: %b\r\nNats-Batch-Sequence: %d\r\n"
        for number in range(target.times(20_000)):
            client.send(publish(b"b.x", first % (b"i%d" % number, 1), b"x"))
        for number in range(1, 1_000):
            client.send(publish(b"b.%d" % number, first % (b"long", number), b"x"))
        wrong = first % (b"long", 1_000) + b"Nats-Batch-Commit: 1\r\n"
        wrong += b"Nats-Expected-Last-Sequence: 77\r\n"
        client.send(publish(b"b.x", wrong, b"x"))
        client.settle()
        drop(client, "B")


def snapshots_of_what_is_deleted(target: Target) -> None:
    """200 times a stream is filled, a snapshot of it started, and the stream deleted."""
    with target.client() as client:
        for _ in range(target.times(200)):
            create(client, "O", ["o.>"])
            fill(client, 500, "o", 1_000)
            client.send(request(b"STREAM.SNAPSHOT.O", {"deliver_subject": "into"}))
            drop(client, "O")


def histories(target: Target) -> None:
    """2,000 keys with 64 revisions each at most, watched by 20 consumers from the beginning."""
    with target.client() as client:
        create(
            client, "KV_h", ["$KV.h.>"], max_msgs_per_subject=64, allow_direct=True,
            discard="new", allow_rollup_hdrs=True,
        )  # fmt: skip
        count = target.times(20_000)
        for _ in range(10):
            client.send(b"".join(b"PUB $KV.h.%d 1\r\nx\r\n" % (n % 2_000) for n in range(count)))
        client.settle()
        for number in range(20):
            config = {
                "deliver_subject": f"watch.{number}", "ack_policy": "none",
                "deliver_policy": "last_per_subject", "filter_subject": "$KV.h.*",
            }  # fmt: skip
            client.send(b"SUB watch.%d %d\r\n" % (number, number))
            client.request(b"CONSUMER.CREATE.KV_h", {"stream_name": "KV_h", "config": config})
        client.send(publish(b"$KV.h.1", b"Nats-Rollup: sub\r\n") * target.times(2_000))
        client.send(publish(b"$KV.h.1", b"Nats-Rollup: all\r\n") * 2)
        client.settle()
        drop(client, "KV_h")


def clean(target: Target, *names: str) -> None:
    """Remove streams, by another client: the server may have closed the hostile one."""
    with target.client() as client:
        drop(client, *names)


def wait(client: Wire, seconds: float) -> None:
    """Stay for some time, and read."""
    until = time.monotonic() + seconds
    client.socket.settimeout(0.05)
    while time.monotonic() < until:
        with contextlib.suppress(TimeoutError):
            if not client.socket.recv(1 << 20):
                break
    client.socket.settimeout(60)


REQUESTS: Final[tuple[Callable[[Target], None], ...]] = (
    many_subscriptions, counted_subscriptions, wildcard_replies, answers_for_many, users, headers,
    republishes, metadata, subject_changes, purges, deletes, schedules, lifetimes, ages, pauses,
    groups, redeliveries, batches, snapshots_of_what_is_deleted, histories,
)  # fmt: skip
