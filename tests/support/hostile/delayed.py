"""Hostile clients that fill one group: what a server does when a slow disk has answered.

They need a server whose groups wait for a second (``DELAYED``), or a disk as slow. Each sends as
much as it can in that time; it has to be applied and answered together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.support.hostile.clients import Target, create, drop, fill
from tests.support.hostile.requests import publish, request, wait

DELAYED: Final = "jetspark { commit_delay: 1s }\n"


def group_of_purges(target: Target) -> None:
    """20,000 messages, 3,000 purges with wildcards that match nothing, and the stream deleted."""
    with target.client() as client:
        create(client, "GP", ["gp.>"], storage="file")
        fill(client, target.times(20_000), "gp")
        for number in range(target.times(3_000)):
            client.send(request(b"STREAM.PURGE.GP", {"filter": f"gp.*.q{number}"}))
        client.send(request(b"STREAM.DELETE.GP"))
        client.settle()
        wait(client, 1 + 2 * target.scale)
        drop(client, "GP")


def group_of_messages(target: Target) -> None:
    """300,000 messages to as many subjects, half of them to be acknowledged, and one purge."""
    with target.client() as client:
        create(client, "GM", ["gm.>"], storage="file")
        client.send(b"SUB _gm 7\r\n")
        for start in range(0, target.times(300_000), 10_000):
            numbers = range(start, min(target.times(300_000), start + 10_000))
            client.send(
                b"".join(b"PUB gm.%d.x%b 1\r\nx\r\n" % (n, b" _gm" * (n % 2)) for n in numbers)
            )
        client.settle()
        client.send(request(b"STREAM.PURGE.GM", {"filter": "gm.*.x"}))
        wait(client, 1 + 2 * target.scale)
        drop(client, "GM")


def group_of_rollups(target: Target) -> None:
    """40,000 messages of a bucket, every second one a rollup, and deletes of what is staged."""
    with target.client() as client:
        create(
            client, "GR", ["gr.>"], storage="file", allow_rollup_hdrs=True, discard="new",
            max_msgs_per_subject=5,
        )  # fmt: skip
        for number in range(target.times(20_000)):
            client.send(
                b"PUB gr.%d 1\r\nx\r\n" % (number % 5_000)
                + publish(b"gr.%d" % (number % 100), b"Nats-Rollup: sub\r\n", b"x")
            )
            if number % 8 == 0:
                client.send(request(b"STREAM.MSG.DELETE.GR", {"seq": number + 1}))
        client.settle()
        wait(client, 1 + 2 * target.scale)
        drop(client, "GR")


def group_of_consumers(target: Target) -> None:
    """8,000 consumers that are created and deleted."""
    with target.client() as client:
        create(client, "GC", ["gc.>"], storage="file")
        count = target.times(8_000)
        for number in range(count):
            config = {"name": f"c{number}", "ack_policy": "explicit"}
            body = {"stream_name": "GC", "config": config}
            client.send(request(b"CONSUMER.CREATE.GC.c%d" % number, body))
        client.send(b"".join(request(b"CONSUMER.DELETE.GC.c%d" % n) for n in range(count)))
        client.settle()
        wait(client, 1 + 2 * target.scale)
        drop(client, "GC")


def groups_of_many_streams(target: Target) -> None:
    """300,000 messages to 100 streams."""
    with target.client() as client:
        for number in range(100):
            create(client, f"GS{number}", [f"gs{number}.>"], storage="file")
        count = target.times(300_000)
        for start in range(0, count, 10_000):
            numbers = range(start, min(count, start + 10_000))
            client.send(b"".join(b"PUB gs%d.x _gs 1\r\nx\r\n" % (n % 100) for n in numbers))
        client.settle()
        wait(client, 1 + 2 * target.scale)
        drop(client, *(f"GS{number}" for number in range(100)))


GROUPS: Final[tuple[Callable[[Target], None], ...]] = (
    group_of_purges, group_of_messages, group_of_rollups, group_of_consumers,
    groups_of_many_streams,
)  # fmt: skip
