"""A fair queue of what clients of a replica send to the leader: they take turns.

The clients share one connection, and the leader processes its input in order, so a client that
sends thousands of requests would make all others wait for them. So the input of each client waits
in its own queue, its *lane*. Lanes take turns, and no more is sent than the leader processes in
some ms: PINGs among the messages measure its progress (`Window`). So a client waits for what is in
flight and for one turn of each other client, whatever these sent.

A lane keeps the order of everything its client does: messages, subscriptions, PINGs. A client
whose lane is full is not read until there is room. One that does not read its answers gets few
requests sent until it does, and eventually none, instead of being disconnected.
"""

import asyncio
import enum
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from jetspark.server.routing.client import ConnectedClient

log: logging.Logger = logging.getLogger("jetspark.replica")

# The cost of a message for the leader, in units of about one small message.
BYTES_PER_UNIT_SHIFT: Final = 10
REQUEST_UNITS: Final = 16
CONTROL_UNITS: Final = 2
# What a lane sends before the next has its turn.
TURN_UNITS: Final = 64
# The window: initial, minimum and maximum.
WINDOW_FIRST: Final = 256
WINDOW_LEAST: Final = 64
WINDOW_MOST: Final = 8192
# The window should take the leader this long, or two round trips if these are longer.
WINDOW_SECONDS: Final = 0.004
# This much may be in flight without a PING to confirm it.
MARK_UNITS: Final = 32
# Nothing was sent for this long: all of it has arrived.
IDLE_SECONDS: Final = 0.1
# How often the round trip is measured: opportunistically, and at least.
PROBE_SECONDS: Final = 1.0
PROBE_SECONDS_MOST: Final = 10.0
# A lane with more than this is full, and has room again below half of it.
LANE_BYTES: Final = 512 * 1024
# The memory overhead of an entry.
ENTRY_BYTES: Final = 64
# A client with more unread output than this gets only so many entries sent in so many seconds, and
# none from half of its limit on.
UNREAD_BYTES: Final = 4 * 1024 * 1024
UNREAD_ENTRIES: Final = 16
UNREAD_SECONDS: Final = 0.005
# If the leader sends nothing for this long, PINGs are answered anyway: the client is connected to
# us, and what it sent was handed over.
SILENT_SECONDS: Final = 1.0
# How long to wait for a connection that is being established.
WAIT_SECONDS: Final = 2.0
WAIT_STEP_SECONDS: Final = 0.05
# What is answered at once, in one turn of the loop, when the leader cannot be reached.
REFUSED_AT_ONCE: Final = 1000

_REQUESTS: Final = (b"PUB $JS.API.", b"HPUB $JS.API.")


class LinkState(enum.Enum):
    """The state of the path to the leader."""

    OPEN = enum.auto()
    WAIT = enum.auto()
    """The connection is being established."""
    NONE = enum.auto()


class Carrier(Protocol):
    """The connection to the leader."""

    def link_state(self) -> LinkState:
        """Return the state of the path to the leader."""

    def carry(self, frames: list[bytes]) -> None:
        """Send complete frames."""

    def ping_leader(self) -> asyncio.Future[None]:
        """Send PING: done when the leader has seen everything that was sent before."""

    def refuse(self, client: ConnectedClient, frame: bytes) -> None:
        """Refuse a message that cannot be sent: notify its client, if it expects an answer."""

    def flush_clients(self) -> None:
        """Write what was queued for clients."""


class Mark:
    """A PING among the messages; the leader has seen ``units`` before it when PONG arrives."""

    __slots__ = ("asking", "confirmed", "limited", "sent_at", "units")

    def __init__(
        self, units: int, sent_at: float, confirmed: int, *, limited: bool, asking: "list[Lane]"
    ) -> None:
        self.units: int = units
        self.sent_at: float = sent_at
        self.confirmed: int = confirmed
        self.limited: bool = limited
        self.asking: list[Lane] = asking


class Window:
    """How much may be in flight: what the leader processes in ``WINDOW_SECONDS``.

    The rate is what it confirmed while a PING was in flight. A round trip is measured with nothing
    of ours before it, so it is long if the leader is far away or busy with others.
    """

    def __init__(self) -> None:
        self.size: int = WINDOW_FIRST
        self._in_flight = 0
        self._unmarked = 0
        self._marks: deque[Mark] = deque()
        self._confirmed = 0
        self._rate = 0.0
        self._round_trip = 0.0
        self._round_trip_before = 0.0
        self._probed_at = float("-inf")
        self._sent_at = float("-inf")
        # When the leader last sent something.
        self.contact_at: float = 0.0

    @property
    def room(self) -> int:
        """Return how many units may be sent now; 0 or less: none."""
        return self.size - self._in_flight

    @property
    def marked(self) -> bool:
        """Whether a PING is in flight."""
        return bool(self._marks)

    def wants_probe(self, now: float) -> bool:
        """Return whether the round trip is to be measured before more is sent."""
        age = now - self._probed_at
        if age < PROBE_SECONDS:
            return False
        if not self._marks and now - self._sent_at > IDLE_SECONDS:
            # Start carefully: the workload may have changed.
            self.reset()
            return True
        return age > PROBE_SECONDS_MOST

    def sent(self, units: int, now: float) -> None:
        """Count what was sent."""
        self._in_flight += units
        self._unmarked += units
        self._sent_at = now

    def needs_mark(self, *, limited: bool) -> bool:
        """Return whether a PING is due, so that there will be room again."""
        return self._unmarked >= MARK_UNITS or (limited and not self._marks)

    def mark(self, now: float, *, limited: bool, asking: "list[Lane]") -> Mark:
        """Return the mark of a PING that is being sent."""
        made = Mark(self._unmarked, now, self._confirmed, limited=limited, asking=asking)
        self._unmarked = 0
        self._marks.append(made)
        return made

    def probe(self, now: float) -> Mark:
        """Return the mark of a PING that is sent with nothing of ours before it."""
        self._probed_at = now
        made = Mark(0, now, -1, limited=False, asking=[])
        self._marks.append(made)
        return made

    def confirm(self, mark: Mark, now: float) -> bool:
        """Handle PONG; False if it was for a lost connection."""
        if not self._marks or self._marks[0] is not mark:
            return False
        self._marks.popleft()
        self.contact_at = now
        took = max(now - mark.sent_at, 1e-6)
        if mark.confirmed < 0:
            self._round_trip_before, self._round_trip = self._round_trip, took
            return True
        self._in_flight -= mark.units
        self._confirmed += mark.units
        rate = (self._confirmed - mark.confirmed) / took
        if rate > self._rate:
            self._rate = rate
        elif mark.limited:
            # Requests may be slower than before: react soon, but not to one late answer.
            self._rate = max(rate, self._rate * 0.75)
        # A slow one may have been delayed by other work by chance.
        round_trip = min(self._round_trip, self._round_trip_before)
        wanted = int(self._rate * max(2 * round_trip, WINDOW_SECONDS))
        self.size = min(max(wanted, WINDOW_LEAST), WINDOW_MOST)
        return True

    def asking(self) -> "list[list[Lane]]":
        """Return the clients whose PINGs wait for PONG."""
        return [mark.asking for mark in self._marks if mark.asking]

    def reset(self) -> list[Mark]:
        """Reset: nothing is in flight any more; return the unanswered PINGs."""
        marks = list(self._marks)
        self._marks.clear()
        self.size = WINDOW_FIRST
        self._in_flight = self._unmarked = 0
        self._rate = 0.0
        return marks


# A message, a callback to run in order, or None: a PING.
Entry = bytes | Callable[[], None] | None


class Lane:
    """The queue of one client, in order."""

    def __init__(self, client: ConnectedClient) -> None:
        self.client: Final = client
        # The client may forget it before the lane is empty.
        self._connection: Any = client.receiver.connection
        self.entries: deque[Entry] = deque()
        self._bytes = 0
        self._units = 0
        # Entries that are not messages.
        self._controls = 0
        # What it may send in its turn; negative for an overdraft of the last one.
        self._credit = 0
        self._held = False
        # Its client does not read: it sends a little, then waits again.
        self.trickles: bool = False
        # Its client disconnected, and its unsubscribes may still be sent.
        self.left: bool = client.closing

    def put(self, frame: bytes) -> None:
        """Queue a message."""
        self.entries.append(frame)
        self._units += cost(frame)
        self._bytes += len(frame) + ENTRY_BYTES
        if self._bytes > LANE_BYTES and not self._held:
            self._hold()

    def put_control(self, control: Callable[[], None] | None) -> None:
        """Queue a callback, or a PING."""
        self.entries.append(control)
        self._controls += 1
        self._units += CONTROL_UNITS
        self._bytes += 4 * ENTRY_BYTES
        if self._bytes > LANE_BYTES and not self._held:
            self._hold()

    def trickle(self, trickles: bool) -> None:
        """Set whether it sends only a little in its turn."""
        self.trickles = trickles

    def take_all(self, room: int, frames: list[bytes]) -> int:
        """Move everything to ``frames`` if it is messages and fits; return the units."""
        units = self._units
        if self._controls or units > room:
            return 0
        frames += self.entries  # type: ignore[arg-type]  # messages alone
        self.entries.clear()
        self._bytes = self._units = self._credit = 0
        return units

    def take(self) -> tuple[Entry, int]:
        """Return the next entry, and its cost."""
        entry = self.entries.popleft()
        if isinstance(entry, bytes):
            units = cost(entry)
            self._bytes -= len(entry) + ENTRY_BYTES
        else:
            units = CONTROL_UNITS
            self._bytes -= 4 * ENTRY_BYTES
            self._controls -= 1
        self._units -= units
        return entry, units

    def begin_turn(self) -> int:
        """Return how many units it may send now: the rest of its turn, or another one."""
        if self._credit <= 0:
            self._credit += TURN_UNITS
        return self._credit

    def end_turn(self, credit: int) -> None:
        """``credit`` is what is left; negative for an overdraft."""
        self._credit = credit if self.entries else 0

    @property
    def unread(self) -> int:
        """How much its client has not read yet."""
        waiting: int = self._connection.waiting_bytes()
        return waiting

    @property
    def unread_max(self) -> int:
        """The amount from which on nothing more is requested for it."""
        return int(self.client.receiver.out_max) // 2

    def _hold(self) -> None:
        if not self.client.closing:
            self._held = True
            self._connection.pause_reading()

    def release(self) -> None:
        """Resume reading the client, if there is room again."""
        if self._held and self._bytes < LANE_BYTES // 2:
            self._held = False
            if not self.client.closing:
                self._connection.resume_reading()


class FairQueue:
    """The lanes of the clients of one connection to the leader."""

    def __init__(
        self,
        carrier: Carrier,
        loop: asyncio.AbstractEventLoop,
        # The loop's own time is that of its turn, in whole milliseconds.
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._carrier = carrier
        self._loop = loop
        self._monotonic = monotonic
        self._window = Window()
        self._lanes: dict[ConnectedClient, Lane] = {}
        # Those that have something to send and may send.
        self._active: deque[Lane] = deque()
        # Those whose clients do not read.
        self._unread: list[Lane] = []
        self._unread_timer: asyncio.TimerHandle | None = None
        self._asking: list[Lane] = []
        self._silence_timer: asyncio.TimerHandle | None = None
        self._waiting_since: float | None = None
        self._wait_timer: asyncio.TimerHandle | None = None
        self._due = False
        self._working = False

    @property
    def clients(self) -> int:
        """The number of clients with a lane."""
        return len(self._lanes)

    # Called by clients -------------------------------------------------------------------------

    def put(self, client: ConnectedClient, frame: bytes) -> None:
        """Send a message in its client's turn."""
        lane = self._lanes.get(client)
        if lane is None:
            lane = self._lanes[client] = Lane(client)
        if not lane.entries:
            self._activate(lane)
        lane.put(frame)

    def put_ping(self, client: ConnectedClient) -> None:
        """Answer a PING when the leader has seen everything before it."""
        self._put_control(client, None)

    def in_order(self, client: ConnectedClient, control: Callable[[], None]) -> None:
        """Run a callback in the client's turn, after what it sent before."""
        self._put_control(client, control)

    def _put_control(self, client: ConnectedClient, control: Callable[[], None] | None) -> None:
        lane = self._lanes.get(client)
        if lane is None:
            lane = self._lanes[client] = Lane(client)
        if not lane.entries:
            self._activate(lane)
        lane.put_control(control)

    def forget(self, client: ConnectedClient) -> None:
        """Remove a disconnected client; what it sent before is still sent."""
        lane = self._lanes.get(client)
        if lane is not None:
            lane.left = True
            if not lane.entries:
                del self._lanes[client]

    def _activate(self, lane: Lane) -> None:
        self._active.append(lane)
        if not self._due:
            self._due = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._due = False
        self.work()

    # Sending -----------------------------------------------------------------------------------

    def work(self) -> None:
        """Send what may be sent now."""
        if self._working:
            return
        self._working = True
        try:
            link_state = self._carrier.link_state()
            if link_state is LinkState.OPEN:
                self._waiting_since = None
                self._send()
            elif self._active or self._unread:
                if link_state is LinkState.NONE or self._is_waited_out():
                    self._refuse_some()
                elif self._wait_timer is None:
                    self._wait_timer = self._loop.call_later(WAIT_STEP_SECONDS, self._look_again)
        finally:
            self._working = False

    def _send(self) -> None:
        window = self._window
        now = self._monotonic()
        if self._active and window.wants_probe(now):
            if window.marked:
                return  # until PONG of the last one: the PING must have nothing before it
            self._watch(window.probe(now))
        room = window.room
        frames: list[bytes] = []
        spent = 0
        while self._active and spent < room:
            lane = self._active[0]
            if not lane.trickles and lane.unread > UNREAD_BYTES:
                self._active.popleft()
                self._set_aside(lane)
                continue
            units = 0
            if len(self._active) == 1 and not lane.trickles:
                units = lane.take_all(room - spent, frames)
            if not units:
                units, over = self._turn(lane, frames, room - spent)
                if not over:  # no room: its turn continues when there is
                    spent += units
                    lane.release()
                    break
            spent += units
            self._active.popleft()
            self._end_turn(lane)
        if frames:
            self._carrier.carry(frames)
        if spent:
            window.sent(spent, now)
        limited = bool(self._active)
        if self._asking or window.needs_mark(limited=limited):
            asking, self._asking = self._asking, []
            self._watch(window.mark(now, limited=limited, asking=asking))

    def _turn(self, lane: Lane, frames: list[bytes], room: int) -> tuple[int, bool]:
        """Run one turn of a lane; return how many units it sent, and whether its turn is over."""
        left = lane.begin_turn()
        entries = UNREAD_ENTRIES if lane.trickles else left
        spent = 0
        while lane.entries and left > 0 and entries > 0 and spent < room:
            entry, units = lane.take()
            left -= units
            spent += units
            entries -= 1
            if isinstance(entry, bytes):
                frames.append(entry)
                continue
            if entry is None:
                self._asking.append(lane)
                continue
            if frames:
                self._carrier.carry(frames)
                frames.clear()
            self._do(entry)
        lane.end_turn(left)
        return spent, lane.trickles or left <= 0 or not lane.entries

    def _end_turn(self, lane: Lane) -> None:
        if lane.entries:
            if lane.trickles:
                self._set_aside(lane)
            else:
                self._active.append(lane)
        else:
            lane.trickle(False)
            if lane.left:
                self._lanes.pop(lane.client, None)
        lane.release()

    def _do(self, control: Callable[[], None]) -> None:
        try:
            control()
        except Exception:  # only this client
            log.exception("An operation of a client of the replica failed")

    # PONGs of the leader -----------------------------------------------------------------------

    def _watch(self, mark: Mark) -> None:
        """Send PING for a mark."""
        self._carrier.ping_leader().add_done_callback(lambda pong: self._on_pong(mark, pong))
        if mark.asking and self._silence_timer is None:
            self._silence_timer = self._loop.call_later(SILENT_SECONDS, self._look_for_silence)

    def _on_pong(self, mark: Mark, pong: "asyncio.Future[None]") -> None:
        if pong.cancelled() or pong.exception() is not None:
            return  # `lost` handles it
        if self._window.confirm(mark, self._monotonic()):
            self._answer(mark.asking)
            if self._active:
                self.work()

    def _answer(self, asking: list[Lane]) -> None:
        """Answer the PINGs of clients that waited for the leader."""
        if not asking:
            return
        for lane in asking:
            if not lane.client.closing:
                lane.client.answer_ping()
        asking.clear()
        self._carrier.flush_clients()

    def _look_for_silence(self) -> None:
        self._silence_timer = None
        asking = self._window.asking()
        if not asking:
            return
        if self._monotonic() - self._window.contact_at >= SILENT_SECONDS:
            for lanes in asking:
                self._answer(lanes)
        else:
            self._silence_timer = self._loop.call_later(SILENT_SECONDS, self._look_for_silence)

    # Without a leader --------------------------------------------------------------------------

    def lost(self) -> None:
        """Handle a lost connection: nothing is in flight, and PINGs are answered."""
        for mark in self._window.reset():
            self._answer(mark.asking)
        self.work()

    def _is_waited_out(self) -> bool:
        now = self._monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        return now - self._waiting_since > WAIT_SECONDS

    def _look_again(self) -> None:
        self._wait_timer = None
        self.work()

    def _refuse_some(self) -> None:
        """Answer for a leader that cannot be reached, in order, as much as fits in one turn."""
        self._active.extend(self._unread)
        self._unread.clear()
        left = REFUSED_AT_ONCE
        while self._active and left > 0:
            lane = self._active[0]
            while lane.entries and left > 0:
                left -= 1
                entry, _ = lane.take()
                if isinstance(entry, bytes):
                    self._carrier.refuse(lane.client, entry)
                elif entry is not None:
                    self._do(entry)
                elif not lane.client.closing:
                    lane.client.answer_ping()
            self._active.popleft()
            self._end_turn(lane)
        self._carrier.flush_clients()
        if self._active and not self._due:
            self._due = True
            self._loop.call_soon(self._run)

    def close(self) -> None:
        """Send everything that waits, however much that is; no PING is answered any more."""
        for timer in (self._unread_timer, self._silence_timer, self._wait_timer):
            if timer is not None:
                timer.cancel()
        self._unread_timer = self._silence_timer = self._wait_timer = None
        frames: list[bytes] = []
        for lane in (*self._active, *self._unread):
            while lane.entries:
                entry, _ = lane.take()
                if isinstance(entry, bytes):
                    frames.append(entry)
            lane.release()
        self._active.clear()
        self._unread.clear()
        if frames and self._carrier.link_state() is LinkState.OPEN:
            self._carrier.carry(frames)

    # Clients that do not read ------------------------------------------------------------------

    def _set_aside(self, lane: Lane) -> None:
        lane.trickle(False)
        self._unread.append(lane)
        if self._unread_timer is None:
            self._unread_timer = self._loop.call_later(UNREAD_SECONDS, self._look_at_unread)

    def _look_at_unread(self) -> None:
        self._unread_timer = None
        lanes, self._unread = self._unread, []
        for lane in lanes:
            unread = lane.unread
            if unread > lane.unread_max and not lane.client.closing:
                self._set_aside(lane)
            else:
                lane.trickle(unread > UNREAD_BYTES)
                self._active.append(lane)
        if self._active:
            self.work()


def cost(frame: bytes) -> int:
    """Return the cost of a message for the leader, in units."""
    units = 1 + (len(frame) >> BYTES_PER_UNIT_SHIFT)
    return units + REQUEST_UNITS if frame.startswith(_REQUESTS) else units
