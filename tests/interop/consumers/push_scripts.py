"""What push consumers and priority groups do (wire.md, Consumers)."""

from __future__ import annotations

import time
from typing import Any

from tests.interop.consumers.session import MS, S, Session

EXPLICIT: dict[str, Any] = {"ack_policy": "explicit"}
HEARTBEAT: dict[str, Any] = {"idle_heartbeat": 200 * MS}


def replay(s: Session) -> None:
    s.make()
    s.put(*"abc")
    sid = s.listen("d.STREAM.p")
    s.consumer(deliver_subject="p")
    s.tell(s.wire.take(sid, 3))
    s.put("d")
    s.tell(s.wire.take(sid, 1))
    s.info()


def starts_with_interest(s: Session) -> None:
    s.make()
    s.put(*"ab")
    s.consumer(deliver_subject="p")
    time.sleep(0.05)
    s.info()
    sid = s.listen("d.STREAM.p")
    s.tell(s.wire.take(sid, 2))
    s.info()
    s.wire.unsubscribe(sid)
    time.sleep(0.05)
    s.put("c")
    s.info()
    sid = s.listen("d.STREAM.p")
    s.tell(s.wire.take(sid, 1))


def idle_heartbeats(s: Session) -> None:
    s.make()
    s.put("a")
    sid = s.listen("d.STREAM.p")
    s.consumer(deliver_subject="p", **HEARTBEAT)
    s.tell(s.wire.take(sid, 3))


def flow_control(s: Session) -> None:
    s.make()
    s.put(*"abc")
    sid = s.listen("d.STREAM.p")
    s.consumer(deliver_subject="p", flow_control=True, **HEARTBEAT)
    s.tell(s.wire.take(sid, 4))


def acknowledged(s: Session) -> None:
    s.make()
    s.put(*"abcd")
    sid = s.listen("d.STREAM.p")
    s.consumer(deliver_subject="p", **EXPLICIT, max_ack_pending=2, ack_wait=30 * S)
    first, second = s.wire.take(sid, 2)
    s.tell([first, second])
    s.info()
    s.ack(first)
    s.tell(s.wire.take(sid, 1))
    s.ack(second, b"-NAK")
    s.tell(s.wire.take(sid, 1))
    s.info()


def redelivered(s: Session) -> None:
    s.make()
    s.put("a")
    sid = s.listen("d.STREAM.p")
    s.consumer(deliver_subject="p", **EXPLICIT, ack_wait=150 * MS, max_deliver=3)
    s.tell(s.wire.take(sid, 3))
    time.sleep(0.3)
    s.info()


def queue_group(s: Session) -> None:
    s.make()
    s.put("a", "b")
    plain = s.listen("d.STREAM.p")
    s.consumer(deliver_subject="p", deliver_group="g")
    time.sleep(0.05)
    s.info()
    member = s.wire.subscribe(f"d.{s.stream}.p", "g")
    s.tell(s.wire.take(member, 2))
    s.tell(s.wire.take(plain, 2))
    s.info()


def other_queues(s: Session) -> None:
    """A queue alone is no one for a consumer without a group, or of another one."""
    s.make()
    s.put("a")
    for name, group in (("c", {}), ("e", {"deliver_group": "e"})):
        member = s.wire.subscribe(f"d.{s.stream}.{name}", "g")
        s.consumer(name, deliver_subject=name, **group)
        s.tell(s.wire.quiet(member, 0.1))
        s.info(name)
        plain = s.listen(f"d.STREAM.{name}")
        s.tell(s.wire.quiet(plain, 0.1))
        s.tell(s.wire.taken(member))
        s.info(name)


def wildcards_are_no_interest(s: Session) -> None:
    """A tap wakes no consumer and keeps none awake; it gets copies of what others get."""
    s.make()
    s.put("a")
    s.consumer("c", deliver_subject="c", durable_name="c")
    s.consumer("e", deliver_subject="e", durable_name="e", deliver_group="g")
    taps = [
        s.wire.subscribe(pattern.replace("STREAM", s.stream), queue)
        for queue in ("", "g")
        for pattern in ("d.STREAM.*", "d.STREAM.>", "d.*.*")
    ]
    time.sleep(0.1)
    for name, queue in (("c", ""), ("e", "g")):
        for tap in taps:
            s.tell(s.wire.quiet(tap, 0.02))
        s.info(name)
        exact = s.wire.subscribe(f"d.{s.stream}.{name}", queue)
        s.tell(s.wire.take(taps[0], 1))
        s.wire.taken(exact)
        for tap in taps[1:]:
            s.wire.taken(tap)
        s.info(name)
        s.wire.unsubscribe(exact)
        time.sleep(0.05)
        s.put("b")
        for tap in taps:
            s.tell(s.wire.quiet(tap, 0.02))
        s.info(name)


def only_headers(s: Session) -> None:
    s.make()
    s.put("a", payload=b"hello", headers=b"NATS/1.0\r\nA: 1\r\n\r\n")
    s.put("b", payload=b"hello")
    sid = s.listen("d.STREAM.p")
    s.consumer(deliver_subject="p", headers_only=True)
    s.tell(s.wire.take(sid, 2))


def moved_to_another_subject(s: Session) -> None:
    s.make()
    s.put("a", "b")
    sid = s.listen("d.STREAM.p")
    s.consumer(deliver_subject="p", durable_name="c", **EXPLICIT)
    s.tell(s.wire.take(sid, 2))
    s.consumer(deliver_subject="q", durable_name="c", **EXPLICIT)
    s.wire.unsubscribe(sid)
    time.sleep(0.05)
    other = s.listen("d.STREAM.q")
    # nats-server finds out shortly after that someone listens there.
    s.consumer(deliver_subject="q", durable_name="c", **EXPLICIT).pop("push_bound", None)
    s.tell(s.wire.take(other, 2))
    s.info()


def original_pace(s: Session) -> None:
    s.make()
    s.put("a")
    time.sleep(0.15)
    s.put("b")
    sid = s.listen("d.STREAM.p")
    s.consumer(deliver_subject="p", replay_policy="original")
    s.tell(s.wire.take(sid, 1))
    before = time.monotonic()
    s.tell(s.wire.take(sid, 1))
    s.note(0.1 < time.monotonic() - before < 5)


def last_of_each(s: Session) -> None:
    s.make()
    s.put(*"abcabca")
    sid = s.listen("d.STREAM.p")
    s.consumer(deliver_subject="p", deliver_policy="last_per_subject", filter_subject="*")
    s.tell(s.wire.take(sid, 3))
    s.put("b")
    s.tell(s.wire.take(sid, 1))
    s.info()


def paused(s: Session) -> None:
    s.make()
    s.put("a")
    sid = s.listen("d.STREAM.p")
    s.consumer(deliver_subject="p", pause_until="2099-01-01T00:00:00Z", **HEARTBEAT)
    s.tell(s.wire.take(sid, 1))
    s.ask("CONSUMER.PAUSE", None, "c")
    while True:
        (message,) = s.wire.take(sid, 1)
        if not message.status:
            break
    s.tell([message])
    s.info()


def overflow(s: Session) -> None:
    s.make()
    s.put(*"abcd")
    s.consumer(**EXPLICIT, priority_policy="overflow", priority_groups=["g"])
    s.fetch(1)
    s.fetch(1, group="other")
    s.fetch(1, group="g")
    s.fetch(1, group="g", min_pending=3)
    s.pull({"batch": 1, "expires": 100 * MS, "group": "g", "min_pending": 9}, 1)
    s.pull({"batch": 1, "expires": 100 * MS, "group": "g", "min_ack_pending": 9}, 1)
    s.fetch(1, group="g", min_ack_pending=2)
    s.info()


def pinned(s: Session) -> None:
    s.make()
    s.put(*"abcd")
    told = s.listen("$JS.EVENT.ADVISORY.CONSUMER.*.STREAM.c")
    s.consumer(**EXPLICIT, priority_policy="pinned_client", priority_groups=["g"])
    s.advisories(told, 1)
    (first,) = s.fetch(1, group="g")
    pin = first.headers.split(b"Nats-Pin-Id: ")[1].split(b"\r\n")[0].decode()
    s.advisories(told, 1)
    s.fetch(1, group="g", id=pin)
    s.fetch(1, group="g", id="wrong")
    s.pull({"batch": 1, "expires": 100 * MS, "group": "g"}, 1)
    s.info()
    s.ask("CONSUMER.UNPIN", {"group": "g"}, "c")
    s.advisories(told, 1)
    s.info()
    s.fetch(1, group="g", id=pin)
    s.fetch(1, group="g")
    s.info()


def prioritized(s: Session) -> None:
    s.make()
    s.consumer(**EXPLICIT, priority_policy="prioritized", priority_groups=["g"])
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{s.stream}.c"
    sids = {}
    for priority in (5, 1, 3):
        sids[priority] = s.listen(f"in.STREAM.{priority}")
        body = b'{"batch":1,"expires":5000000000,"group":"g","priority":%d}' % priority
        s.wire.publish(subject, body, reply=f"in.{s.stream}.{priority}".encode())
        s.wire.flush()
        time.sleep(0.02)
    s.put("a")
    s.tell(s.wire.take(sids[1], 1))
    s.put("b")
    s.tell(s.wire.take(sids[3], 1))
    s.put("c")
    s.tell(s.wire.take(sids[5], 1))
    s.fetch(1, group="g", priority=10)
    s.info()


def pull_of_a_push_consumer(s: Session) -> None:
    s.make()
    s.consumer(deliver_subject="p")
    s.pull(b"1", 1)


SCRIPTS = (
    replay,
    starts_with_interest,
    idle_heartbeats,
    flow_control,
    acknowledged,
    redelivered,
    queue_group,
    other_queues,
    wildcards_are_no_interest,
    only_headers,
    moved_to_another_subject,
    original_pace,
    last_of_each,
    paused,
    overflow,
    pinned,
    prioritized,
    pull_of_a_push_consumer,
)
