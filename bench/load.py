"""A raw-socket load generator that prebuilds its bytes: the same for both servers.

Server figures never use a client library as load.
"""

import socket
import threading

from bench.servers import Running

CONNECT = (
    b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,'
    b'"lang":"bench","version":"1","protocol":1}\r\n'
)
RECEIVE = 1 << 18


class Wire:
    """One connection."""

    def __init__(self, server: Running) -> None:
        self.socket = socket.create_connection((server.host, server.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(60)
        self.send(CONNECT.replace(b"{", b"{" + server.connect, 1))
        self.sync()

    def send(self, data: bytes) -> None:
        """Send all bytes."""
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """The next received bytes."""
        data = self.socket.recv(RECEIVE)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data

    def sync(self) -> None:
        """Wait until the server has processed everything sent so far."""
        self.send(b"PING\r\n")
        seen = b""
        while b"PONG\r\n" not in seen:
            seen = seen[-5:] + self.receive()

    def request(self, subject: bytes, body: bytes) -> bytes:
        """One request and its complete reply."""
        self.send(
            b"SUB _R.1 99\r\nUNSUB 99 1\r\nPUB %b _R.1 %d\r\n%b\r\n" % (subject, len(body), body)
        )
        seen = b""
        # A PING of the server may follow the reply.
        while b"}\r\n" not in seen:
            seen += self.receive()
        return seen

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()


def make_stream(wire: Wire, name: bytes, config: bytes = b"") -> None:
    """Create a stream `name` over `name.>`."""
    body = b'{"name":"%b","subjects":["%b.>"],"allow_direct":true%b}' % (name, name, config)
    reply = wire.request(b"$JS.API.STREAM.CREATE." + name, body)
    if b'"error"' in reply:
        raise RuntimeError(reply.decode(errors="replace"))


def windowed(wire: Wire, frame: bytes, mark: bytes, count: int, window: int) -> None:
    """Keep ``window`` frames in flight until ``count`` replies with ``mark`` arrived."""
    wire.send(frame * min(window, count))
    sent = min(window, count)
    answered = returned = 0
    tail = b""
    while answered < count:
        data = tail + wire.receive()
        found = data.count(mark)
        # A mark split by the end of a chunk is counted with the next one.
        tail = data[-(len(mark) - 1) :] if len(mark) > 1 else b""
        answered += found
        returned += found
        if sent < count and returned >= max(1, window // 4):
            more = min(returned, count - sent)
            wire.send(frame * more)
            sent += more
            returned = 0


def windowed_frames(wire: Wire, frames: list[bytes], mark: bytes, window: int) -> None:
    """The same with a separate frame for each message."""
    count, sent = len(frames), min(window, len(frames))
    wire.send(b"".join(frames[:sent]))
    answered = returned = 0
    tail = b""
    while answered < count:
        data = tail + wire.receive()
        found = data.count(mark)
        tail = data[-(len(mark) - 1) :]
        answered += found
        returned += found
        if sent < count and returned >= max(1, window // 4):
            more = min(returned, count - sent)
            wire.send(b"".join(frames[sent : sent + more]))
            sent += more
            returned = 0


def publish_all(wire: Wire, frame: bytes, count: int) -> None:
    """Publish from a separate thread, in chunks of about 128 KiB."""
    per_chunk = max(1, 131072 // len(frame))
    chunk = frame * per_chunk
    for _ in range(count // per_chunk):
        wire.send(chunk)
    wire.send(frame * (count % per_chunk))


def receive_all(wire: Wire, mark: bytes, count: int) -> None:
    """Read until ``count`` frames with ``mark`` arrived."""
    seen = 0
    tail = b""
    while seen < count:
        data = tail + wire.receive()
        seen += data.count(mark)
        tail = data[-(len(mark) - 1) :]


def answer_all(wire: Wire, count: int) -> None:
    """Answer ``count`` requests, each to its reply subject; all of a chunk at once."""
    answered = 0
    held = b""
    while answered < count:
        held += wire.receive()
        # `MSG service 1 <reply> 16 CRLF 16 bytes CRLF`: nothing in a payload looks like a frame.
        *whole, held = held.split(b"MSG service 1 ")
        frames = [part for part in [*whole, held] if part.endswith(b"f\r\n")]
        held = b"" if held.endswith(b"f\r\n") else (b"MSG service 1 " + held if held else b"")
        wire.send(b"".join(b"PUB %b 2\r\nok\r\n" % part[: part.index(b" ")] for part in frames))
        answered += len(frames)


def in_threads(*jobs: "threading.Thread") -> None:
    """Run jobs concurrently and wait for all."""
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
