"""What clients of a replica want sent to the leader: each has its turn, and little is under way.

The clients share one connection, and the leader works off what comes there in order, so a client
that sends thousands of requests would make all others wait for them. What clients send therefore
waits in a queue for each, its *lane*. Lanes take turns, and no more is sent than the leader works
off in some ms: PINGs among the messages show how far it is (`Window`). So a client waits for
what is under way and for one turn of each other client, whatever these sent.

A lane keeps the order of everything its client does: messages, subscriptions, PINGs. A client
whose lane is full is not read until there is room. One that does not read its answers has few
requests sent until it does, and in the end none, instead of being cut off for what it asked.
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

# What a message costs the leader, in units of about one small message.
BYTES_PER_UNIT_SHIFT: Final = 10
REQUEST_UNITS: Final = 16
CONTROL_UNITS: Final = 2
# What a lane sends before the next has its turn.
TURN_UNITS: Final = 64
# What may be under way: at first, at least and at most.
WINDOW_FIRST: Final = 256
WINDOW_LEAST: Final = 64
WINDOW_MOST: Final = 8192
# What is under way is to take the leader so long, or two round trips if these are longer.
WINDOW_SECONDS: Final = 0.004
# So much may be under way without a PING to confirm it.
MARK_UNITS: Final = 32
# Nothing was sent for so long: all of it has arrived.
IDLE_SECONDS: Final = 0.1
# How often the round trip is measured: when there is an occasion, and in any case.
PROBE_SECONDS: Final = 1.0
PROBE_SECONDS_MOST: Final = 10.0
# A lane with more than this is full, and has room again below half of it.
LANE_BYTES: Final = 512 * 1024
# What an entry takes in memory beside its bytes.
ENTRY_BYTES: Final = 64
# A client that has more than this to read gets so many entries sent in so many seconds, and none
# from half of what it may have waiting on.
UNREAD_BYTES: Final = 4 * 1024 * 1024
UNREAD_ENTRIES: Final = 16
UNREAD_SECONDS: Final = 0.005
# A leader that does not say a word for so long leaves PINGs unanswered no longer: the client is
# connected to us, and what it sent was handed over.
SILENT_SECONDS: Final = 1.0
# So long a connection that is being made is waited for.
WAIT_SECONDS: Final = 2.0
WAIT_STEP_SECONDS: Final = 0.05
# What is answered at once, in one turn of the loop, when the leader cannot be reached.
REFUSED_AT_ONCE: Final = 1000

_REQUESTS: Final = (b"PUB $JS.API.", b"HPUB $JS.API.")


class Way(enum.Enum):
    """What becomes of messages for the leader now."""

    OPEN = enum.auto()
    WAIT = enum.auto()
    """The connection is being made."""
    NONE = enum.auto()


class Carrier(Protocol):
    """The connection to the leader."""

    def way(self) -> Way:
        """Whether messages can be sent."""

    def carry(self, frames: list[bytes]) -> None:
        """Send finished frames."""

    def ping_leader(self) -> asyncio.Future[None]:
        """Send PING: done when the leader has seen everything that was sent before."""

    def refuse(self, client: ConnectedClient, frame: bytes) -> None:
        """A message cannot be sent: its client hears that, if it asked for an answer."""

    def flush_clients(self) -> None:
        """Write what was queued for clients."""


class Mark:
    """A PING among the messages; the leader has seen ``units`` before it when PONG comes."""

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
    """How much may be under way: what the leader works off in ``WINDOW_SECONDS``.

    The rate is what it confirmed while a PING was under way. A round trip is measured with
    nothing of ours before it, so it is long where the leader is far away or busy with others.
    """

    def __init__(self) -> None:
        self.size: int = WINDOW_FIRST
        self._under_way = 0
        self._unmarked = 0
        self._marks: deque[Mark] = deque()
        self._confirmed = 0
        self._rate = 0.0
        self._round_trip = 0.0
        self._round_trip_before = 0.0
        self._probed_at = float("-inf")
        self._sent_at = float("-inf")
        # When the leader last said something.
        self.heard_at: float = 0.0

    @property
    def room(self) -> int:
        """How many units may be sent now; 0 or less: none."""
        return self.size - self._under_way

    @property
    def marked(self) -> bool:
        """Whether a PING is under way."""
        return bool(self._marks)

    def wants_probe(self, now: float) -> bool:
        """Say whether the round trip is to be measured before more is sent."""
        age = now - self._probed_at
        if age < PROBE_SECONDS:
            return False
        if not self._marks and now - self._sent_at > IDLE_SECONDS:
            # Begin carefully: what comes now may be other work than before.
            self.reset()
            return True
        return age > PROBE_SECONDS_MOST

    def sent(self, units: int, now: float) -> None:
        """Count what was sent."""
        self._under_way += units
        self._unmarked += units
        self._sent_at = now

    def needs_mark(self, *, limited: bool) -> bool:
        """Say whether a PING is due, so that room comes again."""
        return self._unmarked >= MARK_UNITS or (limited and not self._marks)

    def mark(self, now: float, *, limited: bool, asking: "list[Lane]") -> Mark:
        """A PING is being sent."""
        made = Mark(self._unmarked, now, self._confirmed, limited=limited, asking=asking)
        self._unmarked = 0
        self._marks.append(made)
        return made

    def probe(self, now: float) -> Mark:
        """A PING is being sent that nothing of ours is before."""
        self._probed_at = now
        made = Mark(0, now, -1, limited=False, asking=[])
        self._marks.append(made)
        return made

    def confirm(self, mark: Mark, now: float) -> bool:
        """PONG came; False when it was for a connection that is gone."""
        if not self._marks or self._marks[0] is not mark:
            return False
        self._marks.popleft()
        self.heard_at = now
        took = max(now - mark.sent_at, 1e-6)
        if mark.confirmed < 0:
            self._round_trip_before, self._round_trip = self._round_trip, took
            return True
        self._under_way -= mark.units
        self._confirmed += mark.units
        rate = (self._confirmed - mark.confirmed) / took
        if rate > self._rate:
            self._rate = rate
        elif mark.limited:
            # Requests may be slower than those before: soon, but not for one that came late.
            self._rate = max(rate, self._rate * 0.75)
        # One that took long may have met other work by chance.
        round_trip = min(self._round_trip, self._round_trip_before)
        wanted = int(self._rate * max(2 * round_trip, WINDOW_SECONDS))
        self.size = min(max(wanted, WINDOW_LEAST), WINDOW_MOST)
        return True

    def asking(self) -> "list[list[Lane]]":
        """The clients whose PINGs wait for PONG."""
        return [mark.asking for mark in self._marks if mark.asking]

    def reset(self) -> list[Mark]:
        """Nothing is under way any more; the PINGs that were not answered."""
        marks = list(self._marks)
        self._marks.clear()
        self.size = WINDOW_FIRST
        self._under_way = self._unmarked = 0
        self._rate = 0.0
        return marks


# A message, something to be done in its place, or None: a PING.
Entry = bytes | Callable[[], None] | None


class Lane:
    """What one client wants sent, in order."""

    def __init__(self, client: ConnectedClient) -> None:
        self.client: Final = client
        # The client may forget it before the lane is empty.
        self._connection: Any = client.receiver.connection
        self.entries: deque[Entry] = deque()
        self._bytes = 0
        self._units = 0
        # Entries that are no messages.
        self._controls = 0
        # What it may send in its turn; negative for what was too much in the last one.
        self._credit = 0
        self._held = False
        # Its client does not read: it sends a little, then waits again.
        self.trickles = False
        # Its client is gone, and its subscriptions may still go.
        self.left: bool = client.closing

    def put(self, frame: bytes) -> None:
        """Queue a message."""
        self.entries.append(frame)
        self._units += cost(frame)
        self._bytes += len(frame) + ENTRY_BYTES
        if self._bytes > LANE_BYTES and not self._held:
            self._hold()

    def put_control(self, control: Callable[[], None] | None) -> None:
        """Queue something to be done, or a PING."""
        self.entries.append(control)
        self._controls += 1
        self._units += CONTROL_UNITS
        self._bytes += 4 * ENTRY_BYTES
        if self._bytes > LANE_BYTES and not self._held:
            self._hold()

    def take_all(self, room: int, frames: list[bytes]) -> int:
        """Move everything to ``frames`` if it is messages and fits; how many units it was."""
        units = self._units
        if self._controls or units > room:
            return 0
        frames += self.entries  # type: ignore[arg-type]  # messages alone
        self.entries.clear()
        self._bytes = self._units = self._credit = 0
        return units

    def take(self) -> tuple[Entry, int]:
        """The next entry, and what it costs."""
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
        """How many units it may send now: the rest of its turn, or another one."""
        if self._credit <= 0:
            self._credit += TURN_UNITS
        return self._credit

    def end_turn(self, credit: int) -> None:
        """``credit`` is what is left; negative for what was too much."""
        self._credit = credit if self.entries else 0

    @property
    def unread(self) -> int:
        """What its client has not read yet."""
        waiting: int = self._connection.waiting_bytes()
        return waiting

    @property
    def unread_max(self) -> int:
        """From here on it asks for nothing more."""
        return int(self.client.receiver.out_max) // 2

    def _hold(self) -> None:
        if not self.client.closing:
            self._held = True
            self._connection.hold_back()

    def release(self) -> None:
        """Read the client on, when there is room again."""
        if self._held and self._bytes < LANE_BYTES // 2:
            self._held = False
            if not self.client.closing:
                self._connection.go_on()


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
        # Those that have something to send and may.
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
        """How many clients have a lane."""
        return len(self._lanes)

    # What clients do ---------------------------------------------------------------------------

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
        """Do something in the client's turn, after what it sent before."""
        self._put_control(client, control)

    def _put_control(self, client: ConnectedClient, control: Callable[[], None] | None) -> None:
        lane = self._lanes.get(client)
        if lane is None:
            lane = self._lanes[client] = Lane(client)
        if not lane.entries:
            self._activate(lane)
        lane.put_control(control)

    def forget(self, client: ConnectedClient) -> None:
        """A client left; what it sent before goes its way."""
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
            way = self._carrier.way()
            if way is Way.OPEN:
                self._waiting_since = None
                self._send()
            elif self._active or self._unread:
                if way is Way.NONE or self._is_waited_out():
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
                return  # so that the PING has nothing before it; PONG of the last one goes on
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
                if not over:  # there is no room: its turn goes on when there is
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
        """One turn of a lane; how many units it sent, and whether its turn is over."""
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
            lane.trickles = False
            if lane.left:
                self._lanes.pop(lane.client, None)
        lane.release()

    def _do(self, control: Callable[[], None]) -> None:
        try:
            control()
        except Exception:  # one client, not all
            log.exception("What a client of the replica asked for failed")

    # The leader's word -------------------------------------------------------------------------

    def _watch(self, mark: Mark) -> None:
        """Send PING for a mark."""
        self._carrier.ping_leader().add_done_callback(lambda pong: self._on_pong(mark, pong))
        if mark.asking and self._silence_timer is None:
            self._silence_timer = self._loop.call_later(SILENT_SECONDS, self._look_for_silence)

    def _on_pong(self, mark: Mark, pong: "asyncio.Future[None]") -> None:
        if pong.cancelled() or pong.exception() is not None:
            return  # `lost` sees to it
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
        if self._monotonic() - self._window.heard_at >= SILENT_SECONDS:
            for lanes in asking:
                self._answer(lanes)
        else:
            self._silence_timer = self._loop.call_later(SILENT_SECONDS, self._look_for_silence)

    # Without a leader --------------------------------------------------------------------------

    def lost(self) -> None:
        """The connection is gone: nothing is under way, and PINGs are answered."""
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
        """Answer for a leader that cannot be reached, in order, as much as goes in one turn."""
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
        if frames and self._carrier.way() is Way.OPEN:
            self._carrier.carry(frames)

    # Clients that do not read ------------------------------------------------------------------

    def _set_aside(self, lane: Lane) -> None:
        lane.trickles = False
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
                lane.trickles = unread > UNREAD_BYTES
                self._active.append(lane)
        if self._active:
            self.work()


def cost(frame: bytes) -> int:
    """What a message costs the leader, in units."""
    units = 1 + (len(frame) >> BYTES_PER_UNIT_SHIFT)
    return units + REQUEST_UNITS if frame.startswith(_REQUESTS) else units
