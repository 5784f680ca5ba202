"""Our client compared with nats-py, on the same Python, loop and server, in one run.

The stable figure is the CPU time of the client process per message; the rates are wall-clock
rates. Each measurement is a separate process, alternating. What nats-py does not support is
measured alone, on our server (``client_bulk.py``).

    python -m bench.clients [--only WORD] [--rounds N] [--server jetspark]
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from bench import client_bulk, client_streams, instructions
from bench.raw_api import checked, stream_request
from bench.servers import OURS, PEER, running

PAYLOAD = b"x" * 128
CLIENTS = ("nats-py", "jetspark")

Measure = Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]
Case = Callable[[Any, str, int, Measure], Awaitable[None]]


async def open_client(client: str, url: str) -> Any:
    """A connection with either library."""
    if client == "jetspark":
        import jetspark

        return await jetspark.connect(url)
    import nats

    return await nats.connect(url)


async def core_publish(nc: Any, client: str, count: int, measure: Measure) -> None:
    """Publish without an answer, flushed now and then as a program would."""

    async def ours() -> None:
        for _ in range(count // 1000):
            for _ in range(1000):
                nc.publish("bench.core", PAYLOAD)
            await asyncio.sleep(0)
        await nc.flush()

    async def theirs() -> None:
        for _ in range(count // 1000):
            for _ in range(1000):
                await nc.publish("bench.core", PAYLOAD)
            await asyncio.sleep(0)
        await nc.flush()

    await measure(ours if client == "jetspark" else theirs)


async def receive_for(nc: Any, client: str, count: int, measure: Measure) -> None:
    """Receive with ``async for``; the messages come from a raw socket in another process."""
    subscription = await nc.subscribe("bench.in")
    await nc.flush()
    start_load(nc, count)

    async def work() -> None:
        left = count
        messages = subscription if client == "jetspark" else subscription.messages
        async for _ in messages:
            left -= 1
            if not left:
                return

    await measure(work)


async def receive_callback(nc: Any, client: str, count: int, measure: Measure) -> None:
    """Receive with a callback."""
    done = asyncio.Event()
    left = count

    def plain(_message: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    async def coroutine(message: Any) -> None:  # nats-py requires a coroutine function
        plain(message)

    callback = plain if client == "jetspark" else coroutine
    await nc.subscribe("bench.in", **{"callback" if client == "jetspark" else "cb": callback})
    await nc.flush()
    start_load(nc, count)

    async def work() -> None:
        await done.wait()

    await measure(work)


async def request_reply(nc: Any, client: str, count: int, measure: Measure) -> None:
    """Requests one at a time, answered by the same client."""

    async def answer(message: Any) -> None:
        await message.respond(b"ok")

    if client == "jetspark":
        await nc.subscribe("bench.ask", callback=lambda message: message.respond(b"ok"))
    else:
        await nc.subscribe("bench.ask", cb=answer)

    async def work() -> None:
        for _ in range(count):
            await nc.request("bench.ask", PAYLOAD)

    await measure(work)


async def js_publish(nc: Any, client: str, count: int, measure: Measure) -> None:
    """Acknowledged publishes to a memory stream, one at a time."""
    js = await make_stream(nc, client)

    async def work() -> None:
        for _ in range(count):
            await js.publish("bench.js", PAYLOAD)

    await measure(work)


async def js_publish_async(nc: Any, client: str, count: int, measure: Measure) -> None:
    """Acknowledged publishes with a window of 4,000."""
    js = await make_stream(nc, client)

    async def ours() -> None:
        for _ in range(count):
            await js.publish_async("bench.js", PAYLOAD)
        await js.publish_async_complete()

    async def theirs() -> None:
        for _ in range(count):
            await js.publish_async("bench.js", PAYLOAD, wait_stall=60.0)
        await js.publish_async_completed()

    await measure(ours if client == "jetspark" else theirs)


async def make_stream(nc: Any, client: str) -> Any:
    """A stream in memory, so that the disk does not matter."""
    js = nc.jetstream()
    if client == "jetspark":
        request = stream_request("BENCH", subjects=["bench.js"], storage="memory")
        checked(await nc.request(*request))
    else:
        from nats.js.api import StorageType

        await js.add_stream(name="BENCH", subjects=["bench.js"], storage=StorageType.MEMORY)
    return js


CASES: dict[str, tuple[Case, int]] = {
    "core publish": (core_publish, 400_000),
    "receive, async for": (receive_for, 200_000),
    "receive, callback": (receive_callback, 200_000),
    "request / reply": (request_reply, 5_000),
    "js.publish, awaited": (js_publish, 5_000),
    "js.publish_async": (js_publish_async, 40_000),
    **client_streams.CASES,
}
# The target as a multiple of nats-py's rate, in one run on the same server.
BARS = {
    "core publish": 2.0,
    "receive, async for": 4.0,
    "js.publish, awaited": 1.5,
    "js.publish_async": 4.0,
    "fetch(500)": 5.0,
    "kv.get": 1.5,
    "kv.keys": 3.0,
}
# The rate of the Go client on two such cores, in another run, for comparison.
GO = {
    "core publish": 3_560_000,
    "js.publish, awaited": 22_500,
    "js.publish_async": 131_000,
    "fetch(500)": 278_000,
    "fetch(500) and ack": 153_000,
    "kv.get": 18_400,
    "kv.put": 17_900,
    "kv.keys": 151_000,
    "our client, fast ingest": 295_000,
    "our client, atomic, 1 in flight": 157_000,
}


def start_load(nc: Any, count: int) -> None:
    """Publish from a separate process, so that only receiving is measured."""
    info = nc.server_info if hasattr(nc, "server_info") else None
    port = info.port if info is not None else nc.connected_url.port
    subprocess.Popen([sys.executable, "-m", "bench.clients", "--load", str(port), str(count)])


def send_load(port: int, count: int) -> None:
    """The load process: frames in bulk over a raw socket."""
    import socket

    frame = b"PUB bench.in %d\r\n%b\r\n" % (len(PAYLOAD), PAYLOAD)
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(b'CONNECT {"verbose":false}\r\n')
        for _ in range(count // 1000):
            raw.sendall(frame * 1000)
        raw.sendall(b"PING\r\n")
        while b"PONG" not in raw.recv(65536):
            pass


async def run_one(client: str, case: str, url: str, *, counted: int) -> None:
    """Measure one case in this process and print it as JSON.

    ``counted``: the number of messages, counted by the callgrind that this process runs under.
    """
    work, count = CASES[case] if case in CASES else client_bulk.CASES[case][:2]
    count = counted or count
    figures: dict[str, float] = {}

    async def measure(timed: Callable[[], Awaitable[None]]) -> None:
        if counted:
            instructions.switch("on", os.getpid())
        cpu, begun = time.process_time(), time.perf_counter()
        await timed()
        if counted:
            instructions.switch("off", os.getpid())
        figures["cpu_ns"] = (time.process_time() - cpu) / count * 1e9
        figures["rate"] = count / (time.perf_counter() - begun)

    nc = await open_client(client, url)
    await work(nc, client, count, measure)
    await nc.close()
    print(json.dumps(figures))


def measured(client: str, case: str, server: str) -> dict[str, float]:
    """One measurement with a fresh client and server."""
    with running(server) as peer:
        url = f"nats://{peer.host}:{peer.port}"
        before = peer.cpu_ns()
        done = subprocess.run(
            [sys.executable, "-m", "bench.clients", "--one", client, case, url],
            capture_output=True,
            text=True,
            check=False,
        )
        served = peer.cpu_ns() - before
    if done.returncode:
        raise RuntimeError(f"{client}, {case}:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    found["served_ns"] = served
    return found


def report(rounds: int, *, only: str = "", server: str = PEER) -> None:
    """Print both tables."""
    chosen = [case for case in CASES if only in case]
    if chosen:
        print(f"\n{'client case, on ' + server:<34} {'nats-py':>12} {'jetspark':>12} {'ratio':>6}")
        print(f"{'':<34} {'msgs/s':>12} {'msgs/s':>12} {'':>6}   bar; CPU ns/msg, ratio; Go")
    for case in chosen:
        compare(case, rounds, server)
    alone = [case for case in client_bulk.CASES if only in case]
    if alone:
        print(f"\n{'client case, on ' + OURS:<34} {'msgs/s':>12} {'bar':>12}")
        print(f"{'':<34} {'':>12} {'':>12}   CPU ns/msg of the client, of the server; Go")
    for case in alone:
        _, count, bar = client_bulk.CASES[case]
        found = [measured("jetspark", case, OURS) for _ in range(rounds)]
        rate = statistics.median(one["rate"] for one in found)
        client, served = (min(one[name] for one in found) for name in ("cpu_ns", "served_ns"))
        print(
            f"{case:<34} {rate:>12,.0f} {format(bar, ',') if bar else '-':>12}   "
            f"{client:,.0f} {served / count:,.0f}{go(case)}"
        )


def compare(case: str, rounds: int, server: str) -> None:
    """Measure both clients in turn and print the row."""
    found: dict[str, list[dict[str, float]]] = {client: [] for client in CLIENTS}
    for _ in range(rounds):
        for client in CLIENTS:
            found[client].append(measured(client, case, server))
    cost = {name: min(one["cpu_ns"] for one in found[name]) for name in CLIENTS}
    rate = {name: statistics.median(one["rate"] for one in found[name]) for name in CLIENTS}
    theirs, ours = cost["nats-py"], cost["jetspark"]
    bar = f">= {BARS[case]:.1f}" if case in BARS else "-"
    print(
        f"{case:<34} {rate['nats-py']:>12,.0f} {rate['jetspark']:>12,.0f} "
        f"{rate['jetspark'] / rate['nats-py']:>6.2f}   {bar:>6}; {theirs:,.0f} {ours:,.0f}, "
        f"{theirs / ours:.2f}{go(case)}"
    )


def go(case: str) -> str:
    """The figure of nats.go, if there is one."""
    return f"; {GO[case]:,}" if case in GO else ""


def main() -> None:
    """Measure everything, or one case in this process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs=3, metavar=("CLIENT", "CASE", "URL"))
    parser.add_argument("--counted", type=int, default=0, help="with --one, under callgrind")
    parser.add_argument("--load", nargs=2, type=int, metavar=("PORT", "COUNT"))
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--server", choices=[PEER, OURS], default=PEER)
    arguments = parser.parse_args()
    if arguments.one:
        asyncio.run(run_one(*arguments.one, counted=arguments.counted))
    elif arguments.load:
        send_load(*arguments.load)
    else:
        report(arguments.rounds, only=arguments.only, server=arguments.server)


if __name__ == "__main__":
    main()
