"""Configurations with limits, and requests that meet them (wire.md, API requests)."""

from __future__ import annotations

import json
from typing import Final

Steps = list[tuple[str, bytes]]
USER: Final = '"user":"a","pass":"p",'
INFO: Final = ("$JS.API.INFO", b"")


def account(limits: str, server: str = "") -> str:
    return (
        f"jetstream {{ {server} }}\n"
        f"accounts {{ A {{ jetstream: {{ {limits} }}, users: [{{user: a, password: p}}] }} }}"
    )


def made(name: str, verb: str = "CREATE", **settings: object) -> tuple[str, bytes]:
    config = {"name": name, "subjects": [f"{name.lower()}.>"], **settings}
    return f"$JS.API.STREAM.{verb}.{name}", json.dumps(config).encode()


def in_memory(name: str, **settings: object) -> tuple[str, bytes]:
    return made(name, "CREATE", storage="memory", **settings)


def changed(name: str, **settings: object) -> tuple[str, bytes]:
    return made(name, "UPDATE", **settings)


def consumer(stream: str, name: str, **settings: object) -> tuple[str, bytes]:
    config = {"name": name, "durable_name": name, "ack_policy": "explicit", **settings}
    body = {"stream_name": stream, "config": config}
    return f"$JS.API.CONSUMER.CREATE.{stream}.{name}", json.dumps(body).encode()


def message(subject: str, size: int) -> tuple[str, bytes]:
    return subject, b"x" * size


CASES: Final[dict[str, tuple[str, Steps]]] = {
    "streams of an account": (
        account("max_streams: 2"),
        [
            INFO, made("A"), made("B"), made("C"), made("A"), made("A", max_msgs=4),
            made("D", subjects=["a.>"]), ("$JS.API.STREAM.DELETE.B", b""), made("C"), made("D"),
            changed("A", max_msgs=4), INFO,
        ],
    ),
    "storage of an account": (
        account("max_file: 1000"),
        [
            INFO, made("A"), message("a.x", 400), message("a.x", 400), message("a.x", 400),
            message("a.x", 50), INFO, made("B", max_bytes=500), made("C", max_bytes=600),
            made("C", max_bytes=1100), made("C", max_bytes=500), changed("B", max_bytes=501),
            changed("C", max_bytes=400), changed("B", max_bytes=600), changed("B", max_bytes=601),
            INFO, changed("B"), INFO, ("$JS.API.STREAM.PURGE.A", b""), message("a.x", 400), INFO,
        ],
    ),
    "what is evicted counts until it is": (
        account("max_file: 500"),
        [
            made("A", max_msgs=1), message("a.x", 10), message("a.x", 400), message("a.x", 40),
            message("a.x", 400), INFO,
        ],
    ),
    "the account before discard new": (
        account("max_file: 500"),
        [
            made("A", max_msgs=1, discard="new", max_msg_size=600), message("a.x", 100),
            message("a.x", 400), message("a.x", 700), message("a.x", 10),
        ],
    ),
    "nothing at all": (account("max_file: 0"), [INFO, made("A"), made("B", max_bytes=1)]),
    "limits of one stream": (
        account("max_bytes_required: true, store_max_stream_bytes: 1000"),
        [
            INFO, made("A"), made("B", max_bytes=100), made("C", max_bytes=1001),
            made("D", max_bytes=1000), changed("B", max_bytes=1001), changed("B"),
            changed("B", max_bytes=1000),
        ],
    ),
    "largest stream without a need for a limit": (
        account("store_max_stream_bytes: 1000"), [INFO, made("A"), made("C", max_bytes=1001)],
    ),
    "a share of the server": (
        account("max_file: 1000", "max_file: 2000"),
        [
            INFO, made("A"), made("B", max_bytes=1000), made("C", max_bytes=1),
            # nats-server lets the first message of an account pass, whatever its size.
            message("a.x", 1), message("a.x", 1200),
        ],
    ),
    "reservations of the server": (
        "jetstream { max_file: 2000 }",
        [
            INFO, made("A", max_bytes=1500), made("B", max_bytes=1500), made("B", max_bytes=500),
            made("F", max_bytes=2001), made("C"), INFO, changed("A", max_bytes=1600),
            changed("A", max_bytes=1400), made("C"), changed("A", max_bytes=3000), made("D"), INFO,
        ],
    ),
    "the budget of the server": (
        "jetstream { max_file: 2000 }",
        [
            made("C"), message("c.x", 1450), message("c.x", 1450), message("c.x", 1450),
            message("c.x", 1), ("$JS.API.STREAM.PURGE.C", b""), message("c.x", 1450), INFO,
        ],
    ),
    "more than the machine has": (
        "jetstream { }", [made("A", max_bytes=10**15), made("A", max_bytes=10**6)],
    ),
    "memory of an account": (
        account("max_file: 1000, max_mem: 500, memory_max_stream_bytes: 450"),
        [
            INFO, in_memory("M", max_bytes=400), in_memory("N", max_bytes=200),
            in_memory("N", max_bytes=451), in_memory("O"), message("o.x", 400),
            message("o.x", 400), INFO, made("F", max_bytes=900), INFO,
        ],
    ),
    "memory of the server": (
        "jetstream { max_mem: 1000 }",
        [
            in_memory("M", max_bytes=1001), in_memory("N", max_bytes=900), in_memory("O"),
            message("o.x", 900), message("o.x", 900), message("o.x", 1), INFO,
            made("F"), message("f.x", 2000),
            ("$JS.API.STREAM.DELETE.O", b""), message("n.x", 10), INFO,
        ],
    ),
    "consumers of an account": (
        account("max_consumers: 1, max_ack_pending: 10"),
        [
            made("A"), made("B"), consumer("A", "c"), consumer("A", "d"), consumer("B", "d"),
            consumer("A", "c"), INFO, consumer("B", "d", max_ack_pending=20),
            consumer("B", "d", max_ack_pending=5), ("$JS.API.CONSUMER.DELETE.B.d", b""),
            consumer("B", "e", max_ack_pending=20), consumer("B", "f"), INFO,
            made("L", consumer_limits={"max_ack_pending": 20}),
        ],
    ),
    "consumers of the server": (
        "jetstream { limits { max_ack_pending: 100, max_request_batch: 50 } }",
        [
            made("A"), consumer("A", "c"), consumer("A", "d", max_ack_pending=200),
            consumer("A", "e", max_batch=60), consumer("A", "f", max_batch=40),
            made("X", max_consumers=1), consumer("X", "a"), consumer("X", "b"),
            changed("X", max_consumers=2), consumer("X", "b"), changed("X", max_consumers=1),
            made("L", consumer_limits={"inactive_threshold": 10**9, "max_ack_pending": 20}),
            consumer("L", "c"), consumer("L", "d", max_ack_pending=30),
            consumer("L", "e", inactive_threshold=2 * 10**9), INFO,
            changed("L", consumer_limits={"max_ack_pending": 10}),
            changed("L", consumer_limits={"inactive_threshold": 10**8}),
            changed("L", consumer_limits={"max_ack_pending": 20}), changed("L"),
        ],
    ),
    "duplicate windows": (
        'jetstream { limits { duplicate_window: "10s" } }',
        [
            made("A"), made("B", duplicate_window=20 * 10**9), made("E", max_age=5 * 10**9),
            made("F", duplicate_window=10**10), changed("A", duplicate_window=20 * 10**9),
            changed("A", duplicate_window=10**9),
        ],
    ),
}  # fmt: skip
