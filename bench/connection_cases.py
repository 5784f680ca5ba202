"""Very many connections, each of which waits for its acknowledgement before it sends again."""

import resource
import select
import socket
import statistics
import time
from collections.abc import Callable

from bench.cases import Case, Work
from bench.load import CONNECT, Wire, make_stream
from bench.servers import Running

BODY = b"x" * 128
ACK = b'"seq":'
RECEIVE = 1 << 16
SILENCE_S = 60


class Crowd:
    """Connections that publish one message at a time, served by one thread with epoll."""

    def __init__(
        self,
        server: Running,
        number: int,
        subject: Callable[[int], bytes],
        inbox: bytes = b"_C",
    ) -> None:
        allow_files(2 * number + 100)
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._frames: dict[int, bytes] = {}
        self.waits_ns: list[int] = []
        for n in range(number):
            made = socket.create_connection((server.host, server.port))
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.settimeout(SILENCE_S)
            hello = CONNECT.replace(b"{", b"{" + server.connect, 1)
            made.sendall(hello + b"SUB %b.%d 1\r\nPING\r\n" % (inbox, n))
            self._sockets[made.fileno()] = made
            frame = b"PUB %b %b.%d 128\r\n%b\r\n" % (subject(n), inbox, n, BODY)
            self._frames[made.fileno()] = frame
        for made in self._sockets.values():
            seen = b""
            while b"PONG\r\n" not in seen:
                seen += made.recv(RECEIVE)
            made.setblocking(False)
            self._poll.register(made.fileno(), select.EPOLLIN)

    def publish(self, count: int) -> None:
        """Publish this many messages and wait for their acknowledgements."""
        sockets, frames, waits = self._sockets, self._frames, self.waits_ns
        receive = {number: made.recv for number, made in sockets.items()}
        send = {number: made.send for number, made in sockets.items()}
        clock = time.perf_counter_ns
        sent_at: dict[int, int] = {}
        sent = answered = 0
        for number in list(sockets)[:count]:
            sent_at[number] = clock()
            send[number](frames[number])
            sent += 1
        while answered < count:
            ready = self._poll.poll(SILENCE_S)
            if not ready:
                raise TimeoutError(f"no answer for {SILENCE_S} s; {answered} of {count} arrived")
            for number, _ in ready:
                data = receive[number](RECEIVE)
                if ACK not in data:
                    if not data or b"-ERR" in data or b'"error"' in data:
                        raise RuntimeError(f"the server answered {data!r}")
                    continue  # a PING
                now = clock()
                waits.append(now - sent_at[number])
                answered += 1
                if sent < count:
                    sent_at[number] = now
                    send[number](frames[number])
                    sent += 1

    def close(self) -> None:
        """Close all connections."""
        self._poll.close()
        for made in self._sockets.values():
            made.close()

    def p50_ms(self) -> float:
        """The median time from a publish to its acknowledgement."""
        return statistics.median(self.waits_ns) / 1e6


def allow_files(number: int) -> None:
    """Raise the limit of open files of this process, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number if hard == resource.RLIM_INFINITY else min(number, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def crowd(number: int, streams: int) -> Callable[[Running, int], Work]:
    """This many connections, each publishing to one of this many streams."""

    def prepare(server: Running, count: int) -> Work:
        wire = Wire(server)
        for n in range(streams):
            make_stream(wire, b"S%d" % n)
        made = Crowd(server, number, lambda n: b"S%d.x" % (n % streams))
        return lambda: made.publish(count)

    return prepare


CASES = (
    Case("2,000 connections, one at a time", 200_000, crowd(2000, 1)),
    Case("2,000 connections, 100 streams", 100_000, crowd(2000, 100)),
)
