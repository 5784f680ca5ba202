"""One accepted connection: bytes from the socket to the parser, output back, once per chunk.

Back-pressure has three steps. A receiver whose transport is *paused* gets no runs of messages from
streams. While more than ``STALL_BYTES`` wait for it, its publishers are not read for a few
milliseconds per chunk. When more than ``max_pending`` wait for it, or it does not read for the
write deadline, it is a slow consumer and is disconnected with that reason.

A closing connection may still read its output, until the write deadline. Its subscriptions are
removed immediately.

If the chunk of a client needs more work than one turn of the loop may do, the client is not read
until that is done, in turns of its own between those of the others (turn.py, turn_queue.py). The
same holds for a chunk that is not small if those of other clients have used up the turn.
"""

import asyncio
import logging
import select
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from jetspark.protocol.encoder import encode_err
from jetspark.server.close_reason import CloseReason
from jetspark.server.net.busy_poll import CHUNK_MAX
from jetspark.server.net.chunk_reader import CHUNK, HELD_MIN, ChunkReader
from jetspark.server.net.large_writes import PIECE
from jetspark.server.net.session import Session
from jetspark.server.net.tls import TlsChannel, TlsRuntime
from jetspark.server.net.trace import Tracer
from jetspark.server.routing.client import ConnectedClient
from jetspark.turn import UNITS_PER_TURN

if TYPE_CHECKING:
    from jetspark.server.server import Server

log: logging.Logger = logging.getLogger("jetspark.server")

SLOW_CONSUMER: Final = b"Slow Consumer"
# nats-server stalls a producer for 2 to 5 ms, at most 10 ms per chunk read.
STALL_BYTES: Final = 4 * 1024 * 1024
STALL_SECONDS: Final = 0.005
# How much CPU time the chunks of one client may take before others have their turn.
TURN_NS: Final = 4_000_000
# The peer closed; POLLRDHUP is Linux-specific.
_LEFT: Final = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
# How long after its end work for a client may still be in progress, such as a password check.
RELEASE_AFTER_S: Final = 5.0


class Connection(asyncio.BufferedProtocol):
    """The driver of one client."""

    def __init__(self, server: "Server", client: ConnectedClient) -> None:
        self.client = client
        self.session: Session = Session(server, self, client)
        self._server = server
        self._buffer = server.read_buffer
        self._transport: asyncio.Transport | None = None
        self._held_back = 0
        self._turn_began_ns = 0
        # Output that the transport gets later, in pieces: large payloads, and what follows them.
        self._unsent: deque[memoryview] = deque()
        self._unsent_size = 0
        # It waits for another turn to write them.
        self._sends_later = False
        self._transport_full = False
        # The most that waited for it while its transport was full.
        self.most_waiting: int = 0
        self._tls: TlsChannel | None = None
        self._handshake_timer: asyncio.TimerHandle | None = None
        self._fallback_timer: asyncio.TimerHandle | None = None
        self._tracer: Tracer | None = None
        self._ended = False
        # Bound once: it is needed for every chunk.
        self._pause = client.pause
        # It waits for another turn; the part of its last read that was not processed yet.
        self._waiting = False
        self._backlog = b""
        self._keeps_input = False
        # A read that was put off as a whole: as it came from the socket.
        self._unopened = b""
        # A large message from it is being assembled in a thread.
        self._joining = False
        # The socket is closed, for this reason, and earlier input is still being processed.
        self._gone: CloseReason | None = None
        # It closes once the transport has accepted all output.
        self._closes_after = False
        self.stalls: int = 0
        self.handshake_first: bool = False
        self._reader: ChunkReader = ChunkReader(
            self, client, server.read_buffer, server.clock.now_ns, server.flusher, server.busy_poll
        )
        # The transport calls these for every read, without a call in between.
        self.get_buffer: Callable[[int], memoryview] = self._reader.get_buffer  # type: ignore[assignment]
        self.buffer_updated: Callable[[int], None] = self._reader.buffer_updated  # type: ignore[assignment]
        client.attach(self, self.session, self.session.started_ns, server.settings.max_pending)

    # Lifecycle ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send INFO, and start TLS where it is configured."""
        # uvloop's transports are not asyncio.Transport, but behave like one.
        self._transport = cast("asyncio.Transport", transport)
        self.session.begin(transport.get_extra_info("peername"))
        refusal = self._server.joined(self)
        self.follow_settings()
        tls = self._server.tls
        if tls is None or not tls.handshake_first:
            self.client.receiver.queue(self.session.info())
            self.flush()
        if tls is not None and refusal is None:
            self._begin_tls(tls)
        if refusal is not None:
            self.session.close_surplus(refusal)
            self.flush()

    def follow_settings(self) -> None:
        """Apply the server's settings: at the start and when they change."""
        settings = self._server.settings
        self.session.follow_limits()
        self._tracer = None
        if settings.trace or settings.trace_verbose:
            self._tracer = Tracer(
                self.session, self.client.parser, settings.max_traced_msg_len, settings.max_payload
            )
        self._choose_path()

    def _choose_path(self) -> None:
        """Let chunks and output pass without this object where it has nothing to do with them."""
        plain = self._tls is None and self._tracer is None
        self._reader.pass_through(plain)
        usable = plain and not self.client.closing
        self.client.receiver.write_to(self._transport if usable else None)

    def _begin_tls(self, tls: TlsRuntime) -> None:
        """Expect TLS from the client's first byte on."""
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        self._tls = TlsChannel(tls.context, self._transport.write)
        self._choose_path()
        # A client that waits for INFO can start once it arrives, and has the whole time from
        # there.
        wait_s = tls.fallback_s if tls.handshake_first else 0.0
        self._handshake_timer = loop.call_later(wait_s + tls.timeout_s, self._hurry_handshake)
        self.handshake_first = tls.handshake_first
        if tls.handshake_first:
            if tls.fallback_s:
                self._fallback_timer = loop.call_later(tls.fallback_s, self._fall_back)
            else:
                self.client.receiver.queue(self.session.info())
                self.flush()

    def _fall_back(self) -> None:
        """Send INFO in plain text to a client that waits for it before it starts."""
        self._fallback_timer = None
        if self._transport is not None:
            self.handshake_first = False
            self._transport.write(self.session.info())

    def _hurry_handshake(self) -> None:
        if self._tls is not None and not self._tls.established and self._transport is not None:
            log.error("%s TLS handshake error: timeout", self.session)
            self.abort(CloseReason.TLS_HANDSHAKE_FAILURE)

    def _decrypted(self, data: bytes) -> bytes:
        """Return decrypted input; empty during the handshake or when it failed."""
        channel = self._tls
        assert channel is not None
        if self._fallback_timer is not None:
            self._fallback_timer.cancel()
            self._fallback_timer = None
            channel.write(self.session.info())
        known = channel.established
        try:
            plain = channel.receive(data)
        except ssl.SSLError as error:
            what, reason = "TLS handshake error", CloseReason.TLS_HANDSHAKE_FAILURE
            if known:
                what, reason = "TLS error", CloseReason.READ_ERROR
            log.error("%s %s: %s", self.session, what, error)  # noqa: TRY400 - no traceback
            self.client.close(b"", reason)
            self.flush()
            return b""
        if channel.established and not known:
            self._stop_timers()
            self.session.on_tls(channel.session)
        return plain

    def _stop_timers(self) -> None:
        for timer in (self._handshake_timer, self._fallback_timer):
            if timer is not None:
                timer.cancel()
        self._handshake_timer = self._fallback_timer = None

    def _send(self, data: bytes) -> None:
        """Write to the client, after what waits for the transport."""
        if self._tracer is not None:
            self._tracer.got(data)
        if self._unsent:
            self._unsent.append(memoryview(data))
            self._unsent_size += len(data)
        else:
            self._write(data)

    def _write(self, data: bytes | memoryview) -> None:
        """Write to the transport, encrypted if TLS is used."""
        if self._tls is not None:
            try:
                self._tls.write(bytes(data))
            except ssl.SSLError as error:
                log.debug("%s: TLS: %s", self.session, error)
                self.abort(CloseReason.WRITE_ERROR)
        elif self._transport is not None:
            self._transport.write(data)

    def _send_parts(self, parts: list[bytes | memoryview]) -> None:
        """Write large payloads and what is between them, as the transport accepts it."""
        for part in parts:
            if self._tracer is not None:
                self._tracer.got(bytes(part))
            self.client.receiver.count_given(len(part))
            self._unsent.append(memoryview(part))
            self._unsent_size += len(part)
        self._send_some()

    def _send_some(self) -> None:
        """Write of what waits as much as this turn has left for it (large_writes.py)."""
        if not self._sends_later:
            self._send_pieces(self._server.large_writes.share())

    def _send_pieces(self, size: int) -> None:
        """Write pieces of what waits, as many as the transport accepts.

        It would copy what it cannot send, which takes milliseconds for megabytes.
        """
        written = 0
        while self._unsent and not self._transport_full and written < size:
            piece = self._unsent[0][:PIECE]
            if len(piece) == len(self._unsent[0]):
                self._unsent.popleft()
            else:
                self._unsent[0] = self._unsent[0][PIECE:]
            self._unsent_size -= len(piece)
            written += len(piece)
            self._write(piece)
        if written:
            self._server.large_writes.count(written)
        receiver = self.client.receiver
        if self._unsent:
            if not receiver.paused:
                receiver.pause()
                self._server.keepalive.expect_reading(self)
            if not self._transport_full and not self._sends_later:
                self._sends_later = True
                self._server.large_writes.add(self)
            return
        if receiver.paused and not self._transport_full:
            receiver.resume()
            self._server.unread.forget(self)
            self.client.router.engine.resumed()
        if self._closes_after:
            self._close_transport()

    def write_on(self, size: int) -> None:
        """Continue in another turn."""
        self._sends_later = False
        if self._transport is not None and not self._transport.is_closing():
            self._send_pieces(size)

    @property
    def close_reason(self) -> CloseReason:
        """Why it was closed: by the client itself, unless the server was first."""
        return self.client.close_reason or CloseReason.CLIENT_CLOSED

    def close(self, reason: CloseReason) -> None:
        """Close the connection after the queued output, at the latest at the write deadline."""
        self._end(reason)
        if self._transport is None or self._closes_after:
            return
        self._closes_after = True
        if self._unsent:
            self.pause_reading()  # permanently: later input is ignored
        else:
            self._close_transport()

    def _close_transport(self) -> None:
        """Close the transport, which has all output."""
        if self._transport is not None:
            if self._tls is not None:
                self._tls.close()
            self._transport.close()

    def abort(self, reason: CloseReason) -> None:
        """Close the connection immediately; queued output is lost."""
        self._end(reason)
        if self._transport is not None:
            self._transport.abort()

    def fail(self, error: Exception) -> None:
        """Close this connection after an unexpected error; the others continue."""
        self._server.failures.note(str(self.session), error)
        self.abort(CloseReason.WRITE_ERROR)

    def _end(self, reason: CloseReason) -> None:
        """Remove the client from the server; only its socket may live a little longer."""
        client = self.client
        client.stop(reason)
        if self._ended:
            return
        self._ended = True
        client.receiver.end()
        self._server.ended(self)
        turns = self._server.turns
        if client.subscriptions and turns.is_late():
            self.wait_for_turn()  # thousands of clients may leave together
            return
        began_ns = time.thread_time_ns()
        done = self._leave()
        turns.count_read(time.thread_time_ns() - began_ns)
        if not done:
            self.wait_for_turn()

    def _leave(self) -> bool:
        """Undo what the client did; False while some of very many subscriptions are left."""
        if not self.client.drop_some():
            return False
        self.client.router.engine.resumed()  # nothing waits for this one any more
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the closed socket."""
        reason = CloseReason.CLIENT_CLOSED
        if exc is not None:
            broken = isinstance(exc, BrokenPipeError)
            reason = CloseReason.WRITE_ERROR if broken else CloseReason.READ_ERROR
        try:
            if (self._waiting or self._joining) and not self._ended:
                # What the client sent before that is processed first.
                self._gone = reason
            else:
                self._end(reason)
        finally:
            if self._gone is None:
                self._server.left(self)
            self._stop_timers()
            self._transport = None
            self.client.receiver.write_to(None)
            self._unsent.clear()
            self._unsent_size = 0
        if exc is not None:
            log.debug("%s: %s", self.session, exc)
        asyncio.get_running_loop().call_later(RELEASE_AFTER_S, self._release)

    def _release(self) -> None:
        """Break the reference cycles of the connection and its parts: it is no longer used.

        Otherwise only a pass of the garbage collector over all objects would free them, and such
        passes are rare (``cli/serve/running.py``).
        """
        if self._waiting or self._joining:
            # Its input or subscriptions are still being processed.
            asyncio.get_running_loop().call_later(RELEASE_AFTER_S, self._release)
            return
        self.client.cut_cycles()
        self._reader.close()
        del self.session

    # Reading -----------------------------------------------------------------------------------

    def read_chunk(self, nbytes: int) -> None:
        """Process a read that is not plain or not small (chunk_reader.py)."""
        client = self.client
        client.on_read(self._server.clock.now_ns())
        data = self._buffer[:nbytes]
        turn = self._server.turn
        if self._server.turns.is_late() and (nbytes > CHUNK_MAX or self._shakes_hands()):
            self._unopened = bytes(data)
            self._wait_longer()
            self.note_input()
            return
        began_ns = time.thread_time_ns()
        full = nbytes == len(self._buffer)
        if full and not self._turn_began_ns:
            self._turn_began_ns = began_ns
            asyncio.get_running_loop().call_soon(self._end_turn)
        data = self._opened(data)
        turn.begin(self._pause)
        taken = self._take(data)
        turn.end()
        self._server.turns.count_read(time.thread_time_ns() - began_ns)
        if client.paused:
            self._backlog = bytes(data[taken:])
            self._wait_longer()
        elif self._joining:
            self._backlog = bytes(data[taken:])
        self.note_input()
        if client.paused or self._joining:
            return
        if full and time.thread_time_ns() - self._turn_began_ns > TURN_NS:
            # There is more to read, and the loop would read up to 32 buffers of one client before
            # it serves the next. Yielding after each of them would make the groups that are
            # written to disk together smaller, so time decides.
            self._wait_longer()

    def _shakes_hands(self) -> bool:
        """Return whether TLS is not established yet: that takes milliseconds."""
        return self._tls is not None and not self._tls.established

    def _opened(self, data: memoryview) -> memoryview:
        """Return what a client sent: decrypted, and traced if that is configured."""
        if self._tls is not None:
            data = memoryview(self._decrypted(bytes(data)))
        if self._tracer is not None:
            self._tracer.sent(bytes(data))
        return data

    def join_in_thread(self, pieces: list[bytes]) -> bool:
        """Assemble a large message in a thread; nothing is read meanwhile."""
        if self._ended or not self._server.joins.start(pieces, self._joined):
            return False
        self._joining = True
        self.pause_reading()
        return True

    def _joined(self, joining: "asyncio.Future[bytes]") -> None:
        """Process a message that was assembled, and what follows it."""
        self._joining = False
        client = self.client
        client.router.set_time(self._server.clock.now_ns())
        turn = self._server.turn
        turn.begin(self._pause)
        try:
            client.parser.joined(joining.result())
            if self._server.flush(client.router):
                self.stall()
        except Exception as error:  # noqa: BLE001 - one client, not all
            self.fail(error)
        turn.end()
        if not self._joining:
            if client.paused or self._backlog:
                self.wait_for_turn()
            else:
                self._close_if_ended()
        self.resume_reading()
        self._leave_if_closed()

    def _leave_if_closed(self) -> None:
        """Leave if the socket is closed, unless earlier input is left to process."""
        if self._gone is not None and not (self._waiting or self._joining):
            self._end(self._gone)
            self._server.left(self)

    def _take(self, data: memoryview | bytes) -> int:
        """Parse as much of a read as fits in one turn; return the number of bytes."""
        until = (self._turn_began_ns or time.thread_time_ns()) + TURN_NS
        behind = False
        taken = 0
        while taken < len(data) and not self.client.paused and not self._joining:
            self.client.parser.feed(bytes(data[taken : taken + CHUNK]))
            taken = min(taken + CHUNK, len(data))
            if self._server.flush(self.client.router):
                behind = True
            if taken < len(data) and time.thread_time_ns() > until:
                self.client.pause()
        if not self._close_if_ended() and behind:
            self.stall()
        return taken

    def _close_if_ended(self) -> bool:
        """Close if the client ended its TLS session, and everything it sent was processed."""
        if self._tls is None or not self._tls.ended or self.client.paused or self._joining:
            return False
        if self._ended:
            return True
        self.close(CloseReason.CLIENT_CLOSED)
        return True

    def wait_for_turn(self) -> None:
        """Continue in another turn of the loop, before clients that sent much."""
        self._wait(first=True)

    def _wait_longer(self) -> None:
        """Continue in another turn, after clients that sent little."""
        self._wait(first=False)

    def _wait(self, *, first: bool) -> None:
        if not self._waiting:
            self._waiting = True
            if not self._ended:
                self.pause_reading()
            self._server.turns.add(self, first=first)

    # Kept input --------------------------------------------------------------------------------

    def kept_bytes(self) -> int:
        """Return how much input is kept: not complete, or waiting for its turn."""
        if self._ended:
            return 0
        return int(self.client.parser.held()) + len(self._backlog) + len(self._unopened)

    def note_input(self) -> None:
        """Count the input that is kept; if all clients have too much, the largest is closed."""
        kept = self.kept_bytes()
        if kept > HELD_MIN:
            self._keeps_input = True
            self._server.input.note(self, kept)
        elif self._keeps_input:
            self._keeps_input = False
            self._server.input.forget(self)

    def refuse_input(self, details: str) -> None:
        """Close the connection, and drop what it has sent: there is too much of it."""
        log.error("%s - closed: %s", self.session, details)
        self._backlog = self._unopened = b""
        self._gone = None
        self._server.note_freed(int(self.client.parser.held()))
        self.client.parser.drop()
        self.abort(CloseReason.MAXIMUM_PAYLOAD)

    def release(self) -> None:
        """Process held input: the client is ready."""
        turn = self._server.turn
        turn.begin(self._pause)
        if not self.client.closing:
            self.client.release()
        self._server.flush(self.client.router)
        turn.end()
        if self.client.paused:
            self.wait_for_turn()

    def resume(self) -> bool:
        """Continue for another turn; True if more turns are needed."""
        try:
            more = not self._leave() if self._ended else self._resume()
        except Exception as error:  # noqa: BLE001 - one client, not all that wait
            self.fail(error)
            more = False
        self.note_input()
        if not more:
            self._waiting = False
            if self._gone is not None:
                self._leave_if_closed()
            elif not self._ended:
                self.resume_reading()
        return more

    def _resume(self) -> bool:
        """Process more of the client's input; True if some is left."""
        client = self.client
        client.on_read(self._server.clock.now_ns())
        if client.holds_back and client.router.is_behind():
            return True
        turn = self._server.turn
        turn.begin_again(self._pause)
        turn.take(UNITS_PER_TURN - self._server.turns.share(UNITS_PER_TURN))
        client.resume()
        if self._server.flush(client.router):
            self.stall()
        if self._unopened:
            unopened, self._unopened = self._unopened, b""
            self._backlog += bytes(self._opened(memoryview(unopened)))
        backlog, self._backlog = self._backlog, b""
        taken = self._take(backlog)
        self._backlog = backlog[taken:]
        turn.end()
        return client.paused

    def _end_turn(self) -> None:
        """End the turn: the loop has served all others."""
        self._turn_began_ns = 0

    def has_left(self) -> bool:
        """Return whether the client closed, also while it is not read."""
        if self._transport is None or self._transport.is_closing():
            return True
        ask = select.poll()
        ask.register(self._transport.get_extra_info("socket").fileno(), _LEFT)
        return bool(ask.poll(0))

    def eof_received(self) -> bool:
        """Close: the client has half-closed; True if it still gets queued output."""
        self.close(CloseReason.CLIENT_CLOSED)
        return bool(self._unsent)

    def pause_reading(self) -> None:
        """Pause reading; every call needs its own ``resume_reading``."""
        self._held_back += 1
        if self._held_back == 1 and self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading."""
        self._held_back -= 1
        if self._held_back == 0 and self._transport is not None:
            self._transport.resume_reading()

    def stall(self) -> None:
        """Pause this publisher for some milliseconds: a receiver cannot keep up."""
        self.stalls += 1
        self._server.note_stall()
        self.pause_reading()
        asyncio.get_running_loop().call_later(STALL_SECONDS, self.resume_reading)

    # Writing -----------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """Hold runs of messages: the client reads slower than we write."""
        self._transport_full = True
        self.client.receiver.pause()
        self._server.keepalive.expect_reading(self)

    def resume_writing(self) -> None:
        """Continue: the client caught up."""
        self._transport_full = False
        self._send_some()

    def flush(self) -> bool:
        """Write everything queued for the client in one call; True if it cannot keep up."""
        client = self.client
        receiver = client.receiver
        parts = receiver.take_parts() if receiver.parts_size > 0 else None
        data = receiver.take_output()
        transport = self._transport
        if transport is None or transport.is_closing():
            return False
        if receiver.overflowed:
            if self._ended:
                return False  # it closes once the transport has the earlier output
            limit = receiver.out_max
            self.disconnect_slow(
                f"more than max_pending {limit} bytes at once",
                CloseReason.SLOW_CONSUMER_PENDING_BYTES,
            )
            return False
        if parts is not None:
            self._send_parts(parts)
        if data:
            receiver.count_given(len(data))
            if self._unsent or self._tls is not None or self._tracer is not None:
                self._send(data)
            else:
                transport.write(data)
        if client.closing:
            self.close(self.close_reason)
        elif receiver.paused:
            waiting = transport.get_write_buffer_size() + self._unsent_size
            self.most_waiting = max(waiting, self.most_waiting)
            if waiting > self._server.settings.max_pending:
                self.disconnect_slow(
                    f"pending {waiting} bytes exceeds max_pending",
                    CloseReason.SLOW_CONSUMER_PENDING_BYTES,
                )
            else:
                self._server.unread.note(self, waiting)
            return waiting > STALL_BYTES
        return False

    def disconnect_slow(self, details: str, reason: CloseReason) -> None:
        """Disconnect a slow consumer, with the details in the log and, if it reads, an error."""
        log.warning("%s - Slow Consumer Detected: %s", self.session, details)
        self._server.note_slow_consumer(self.session.user)
        self._send(encode_err(SLOW_CONSUMER))
        self.abort(reason)

    def waiting_bytes(self) -> int:
        """Return how many bytes the client has not read yet."""
        if self._transport is None:
            return 0
        return self._transport.get_write_buffer_size() + self._unsent_size

    def taken_bytes(self) -> int:
        """Return how many bytes the client's side of the network has accepted in total."""
        return int(self.client.receiver.given) - self.waiting_bytes()
