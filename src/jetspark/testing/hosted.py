"""A server of ours in a process of its own, controlled by the test process through a socket.

Requests and answers are lines of JSON. When the socket closes, the test process ended: so does
the server.
"""

import asyncio
import gc
import json
import logging
import os
import signal
import socket
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from jetspark.engine.consumer.consumer import Consumer
from jetspark.server.config.loader import load_file
from jetspark.server.jetstream.driver import EngineDriver
from jetspark.server.net.connection import Connection
from jetspark.server.server import Server
from jetspark.sync.portal import loop_factory
from jetspark.testing.clock import LATEST_NS, MovableClock
from jetspark.testing.disk import FillableFiles

# Heartbeats every second would stop the clock 86,400 times a day: after so many stops, it stops at
# most so many times more.
STOPS_MAX: Final = 20_000
# How long the clock waits at a stop for the disk and for clients, in seconds.
DISK_TIMEOUT: Final = 10.0
CLIENT_TIMEOUT: Final = 1.0
# How long it waits there for acknowledgements, and how long in one call: a program that does not
# acknowledge must not make a day long.
ACK_TIMEOUT: Final = 0.05
ACK_TIMEOUT_SUM: Final = 1.5
# One answer shows that a client has read what it was sent; with the second it has sent what its
# program made of it.
ANSWER_ROUNDS: Final = 2
# Answers may lead to new deliveries; and a pull request that expired to the next one, unless its
# program has ended.
ROUNDS_MAX: Final = 8


def host(control: socket.socket, config: str, ahead_ns: int) -> None:
    """Run a server until the control socket closes or SIGTERM arrives."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    gc.freeze()  # what was imported before the fork
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(control, config, ahead_ns))


async def _serve(control: socket.socket, config: str, ahead_ns: int) -> None:
    clock, disk = MovableClock(ahead_ns), FillableFiles()
    server = Server(clock=clock, files=disk, config=config)
    reader, writer = await asyncio.open_connection(sock=control)
    await server.start()
    _answer(writer, 0, {"pid": os.getpid(), "port": server.port})
    hosted = _Hosted(server, clock, disk, config)
    requests = asyncio.create_task(hosted.answer(reader, writer))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, requests.cancel)
    await asyncio.wait({requests})
    await server.close()
    writer.close()


def _answer(writer: asyncio.StreamWriter, number: int, answer: dict[str, Any]) -> None:
    writer.write(json.dumps({"number": number, **answer}).encode() + b"\n")


class _Hosted:
    """What the test process asks of a server."""

    def __init__(
        self, server: Server, clock: MovableClock, disk: FillableFiles, config: str
    ) -> None:
        self._server = server
        self._clock = clock
        self._disk = disk
        self._config = config
        self._ack_time = 0.0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests until the test process ends."""
        while line := await reader.readline():
            request = json.loads(line)
            try:
                _answer(writer, request["number"], await self._do(request))
            except Exception as error:  # noqa: BLE001 - reported to the test
                _answer(writer, request["number"], {"error": f"{type(error).__name__}: {error}"})

    async def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["do"]:
            case "reload":
                await self._server.reload(load_file(self._config, os.environ))
            case "advance":
                await self._advance(self._clock.now_ns() + request["ns"])
            case "fill":
                self._disk.fill()
                self._check_disk()
            case "free":
                self._disk.free()
                self._check_disk()
            case other:
                raise ValueError(f"unknown request {other!r}")
        return {"now_ns": self._clock.now_ns(), "ahead_ns": self._clock.ahead_ns}

    def _check_disk(self) -> None:
        """Refuse messages, or accept them again, without waiting for a write or a second."""
        if self._server.runtime is not None:
            self._server.runtime.refuse_messages()

    # Time --------------------------------------------------------------------------------------

    async def _advance(self, until_ns: int) -> None:
        """Move the clock, with a stop at every deadline: each is met at its own time."""
        if until_ns > LATEST_NS:
            raise ValueError("the clock would pass the year 2223: advance it by less")
        await self._rest()
        self._ack_time = ACK_TIMEOUT_SUM
        self._clock.hold()
        try:
            await self._advance_held(until_ns)
        finally:
            self._clock.release()

    async def _advance_held(self, until_ns: int) -> None:
        stops = 0
        while (at := self._next_deadline()) is not None and at < until_ns:
            stops += 1
            if stops > STOPS_MAX:
                at = max(at, self._clock.now_ns() + (until_ns - at) // STOPS_MAX)
            await self._stop_at(min(at, until_ns))
        await self._stop_at(until_ns)

    def _drivers(self) -> list[EngineDriver]:
        """Return the drivers of the accounts that have streams; most wait for their test."""
        runtime = self._server.runtime
        return [each for each in runtime.drivers if each.engine.streams] if runtime else []

    def _next_deadline(self) -> int | None:
        deadlines = [driver.engine.next_deadline() for driver in self._drivers()]
        return min((each for each in deadlines if each is not None), default=None)

    async def _stop_at(self, time_ns: int) -> None:
        self._clock.move_to(time_ns)
        before = seen = self._sent()
        for driver in self._drivers():
            due = driver.engine.next_deadline()
            if due is not None and due <= self._clock.now_ns():
                driver.look()
        await self._rest()
        for _ in range(ROUNDS_MAX):
            sent = self._sent()
            # Heartbeats are not answered, and there may be one every few seconds.
            if sent.deliveries != seen.deliveries or (
                sent.messages != seen.messages and sent.heartbeats == seen.heartbeats
            ):
                rounds = ANSWER_ROUNDS
            elif sent.waiting < before.waiting:
                # Clients that ask for more every 30 seconds do so now, as they would have.
                rounds = 1
            else:
                break
            seen = sent
            for _ in range(rounds):
                await self._ping()
        if seen.deliveries > before.deliveries:
            await self._await_acks(before.unacknowledged - (seen.deliveries - before.deliveries))

    async def _await_acks(self, left: int) -> None:
        """Give programs whose handlers run in threads or other processes time to acknowledge."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        await _until(
            lambda: self._sent().unacknowledged <= max(0, left), min(ACK_TIMEOUT, self._ack_time)
        )
        self._ack_time -= min(self._ack_time, loop.time() - started)

    def _consumers(self) -> list[Consumer]:
        return [
            each for driver in self._drivers() for each in driver.engine.consumers.by_key.values()
        ]

    def _sent(self) -> "_Sent":
        messages = sum(each.client.receiver.traffic.out_msgs for each in self._server.connections)
        deliveries = unacknowledged = waiting = 0
        heartbeats: list[int] = []
        for consumer in self._consumers():
            deliveries += consumer.state.consumer_seq
            unacknowledged += consumer.state.pending.count
            waiting += len(consumer.delivery.waiting)
            heartbeats.append(consumer.push.heartbeat_at)
            heartbeats += [each.heartbeat_at for each in consumer.delivery.waiting]
        return _Sent(messages, deliveries, unacknowledged, waiting, heartbeats)

    async def _rest(self) -> None:
        """Wait until no account has something to do or to write."""
        await _until(lambda: not any(each.is_busy for each in self._drivers()), DISK_TIMEOUT)

    async def _ping(self) -> None:
        """Wait until every client has answered.

        One that did not answer in time is not waited for again until it does: its event loop may
        be idle until the next test.
        """
        pinged = {each for each in self._server.connections if _may_ping(each)}
        for connection in pinged:
            connection.session.ping(self._clock.now_ns())
        self._server.flush()
        await _until(lambda: not any(map(_owes_answer, self._remaining(pinged))), CLIENT_TIMEOUT)
        await self._rest()

    def _remaining(self, pinged: set[Connection]) -> set[Connection]:
        return pinged & self._server.connections


class _Sent(NamedTuple):
    """How much was sent to clients."""

    messages: int
    deliveries: int
    unacknowledged: int
    # Pull requests that wait for messages.
    waiting: int
    # When each consumer and each pull request has its next heartbeat.
    heartbeats: list[int]


def _may_ping(connection: Connection) -> bool:
    return connection.session.connected and not (
        connection.client.closing or connection.session.pings_out
    )


def _owes_answer(connection: Connection) -> bool:
    return not connection.client.closing and connection.session.pings_out > 0


async def _until(is_done: Callable[[], bool], timeout: float) -> None:
    """Wait for a condition, for a few turns of the loop and then with short pauses."""
    turns = 0
    end = asyncio.get_running_loop().time() + timeout
    while not is_done():
        turns += 1
        await asyncio.sleep(0 if turns < 20 else 0.0002)
        if asyncio.get_running_loop().time() > end:
            return
