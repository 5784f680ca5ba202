"""The reconciler: makes the copies of a replica match the leader's streams.

The leader's list of streams is authoritative; it is read every few seconds, and immediately when
the leader reports that a stream was created, deleted or changed, or when a client of ours
requested that. New streams that match are copied, deleted ones are dropped, those that were
created again are copied again, and changed limits are applied. Mirrors do not follow deletes and
purges (wire.md, Mirrors and sources), so what the leader no longer has is removed here.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from jetspark.api.base import Timestamp
from jetspark.api.stream import StreamConfig, StreamInfo
from jetspark.client.jetstream.api import DEFAULT_PREFIX, ApiClient
from jetspark.client.jetstream.listing import stream_pages
from jetspark.client.message import Message
from jetspark.engine.stream.state import stream_state
from jetspark.engine.stream.stream import Stream
from jetspark.errors import Error
from jetspark.replica.bridge import Bridge
from jetspark.replica.copied_stream import (
    CREATED_KEY,
    WHOLE_KEY,
    CopiedStream,
    copied_settings,
    copy_config,
    problem,
    wanted,
)
from jetspark.replica.deletions import Deletions, Outcome
from jetspark.replica.leader import refused
from jetspark.replica.local import LocalStreams
from jetspark.units import parse_rfc3339

log: logging.Logger = logging.getLogger("jetspark.replica")

ADVISORIES: Final = "$JS.EVENT.ADVISORY.STREAM.*.>"
# Listing takes at most one part in this many of the time.
LIST_SHARE: Final = 20
# This many checks follow a change immediately; what they do not settle waits for its turn.
QUICK_LOOKS: Final = 10
# How often an incomplete copy is checked.
WHOLE_SECONDS: Final = 0.02


class CopyReconciler:
    """The copies of a replica and their origins."""

    def __init__(
        self,
        bridge: Bridge,
        local: LocalStreams,
        remote: str,
        patterns: tuple[str, ...],
        no_reads: tuple[str, ...],
        on_streams: Callable[[Iterable[StreamConfig]], None],
        poll: float,
    ) -> None:
        self._bridge = bridge
        self._local = local
        self._remote = remote
        self._patterns = patterns
        self._no_reads = no_reads
        self._on_streams = on_streams
        self._poll = poll
        self._api = ApiClient(bridge.core, DEFAULT_PREFIX, bridge.core.options.timeout)
        self._deletions = Deletions(self._api, local)
        # Copies that were read and may be read again, until one may be outdated.
        self.answering: Final[dict[bytes, tuple[CopiedStream, Stream]]] = {}
        self._look = asyncio.Event()
        self._logged: dict[str, str] = {}
        self.streams: dict[str, CopiedStream] = {}
        # Streams that were changed through this replica: to be checked before the copy answers
        # again.
        self.suspects: dict[str, int] = {}
        self._looks = 0
        # How far the copies of suspects must be to be compared with their origins.
        self._goals: dict[str, int] = {}
        # When the leader last listed its streams; 0: never.
        self.contact_ns: int = 0

    def find(self, name: str) -> CopiedStream | None:
        """Return a copied stream whose copy may be read."""
        if name in self.suspects and self._bridge.up:
            return None
        return self.streams.get(name)

    def read_again(self, name: bytes, copied: CopiedStream, stream: Stream) -> None:
        """Let a copy answer further reads without a check, unless its stream is suspect."""
        if copied.name not in self.suspects:
            self.answering[name] = (copied, stream)

    def note_shown(self, name: str, seq: int) -> None:
        """Note that clients have seen a sequence: the copy does not answer from before it."""
        copied = self.streams.get(name)
        if copied is not None:
            copied.show(seq)

    def suspect(self, name: str) -> None:
        """Note that a client changes a stream: its copy answers once that is applied."""
        if wanted(name, self._patterns):
            self.suspects[name] = self._looks + 2
            self._goals.pop(name, None)
            self.answering.clear()
            self._look.set()

    def adopt(self) -> None:
        """Adopt the copies of an earlier run, which may answer before the leader does."""
        for name in self._local.names():
            stream = self._local.find(name)
            assert stream is not None
            config, metadata = stream.config, stream.config.metadata
            created = metadata.get(CREATED_KEY)
            if created is None:
                raise refused(
                    f"the store has a stream {name} that is not a copy: a replica needs its own "
                    "store; choose another folder with store_dir="
                )
            if not wanted(name, self._patterns):
                log.info(
                    "Stream %s no longer matches the streams to copy: its copy was removed", name
                )
                self._local.drop(name)
                continue
            copied = CopiedStream(
                name, config, Timestamp(parse_rfc3339(created)), stream_state(stream),
                self._local.find, name not in self._no_reads, WHOLE_KEY in metadata,
            )  # fmt: skip
            self.streams[name] = copied

    async def run(self) -> None:
        """Follow the leader until cancelled."""
        subscription = self._bridge.core.add_subscription(
            ADVISORIES, pending_msgs=1000, pending_bytes=1 << 20, callback=self._on_advisory
        )
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._look.clear()
                began = loop.time()
                if self._bridge.up:
                    await self._look_once()
                # A leader with very many streams is not kept busy listing them.
                await self._pause(max(self._poll, LIST_SHARE * (loop.time() - began)))
        finally:
            subscription.end(None)

    async def _look_once(self) -> None:
        """Check the leader's streams; given up if the connection is lost meanwhile."""
        looking = asyncio.ensure_future(self._follow())

        def give_up() -> None:
            looking.cancel()

        self._bridge.core.down_listeners.add(give_up)
        try:
            await asyncio.wait({looking})
            if not looking.cancelled() and looking.exception() is not None:
                # A replica that stopped following would show old streams forever.
                log.error(
                    "Following the leader's streams failed; trying again",
                    exc_info=looking.exception(),
                )
        finally:
            looking.cancel()
            self._bridge.core.down_listeners.discard(give_up)

    def _on_advisory(self, message: Message) -> None:
        """Handle a created, deleted or changed stream; its old copy is not read any more."""
        self._look.set()
        _, _, kind_and_name = message.subject.partition(".STREAM.")
        kind, _, name = kind_and_name.partition(".")
        if kind in {"CREATED", "DELETED"} and name in self.streams:
            self.suspect(name)

    async def _pause(self, pause: float) -> None:
        """Wait for the next check; incomplete copies are watched meanwhile."""
        loop = asyncio.get_running_loop()
        until = loop.time() + pause
        while not self._look.is_set() and loop.time() < until:
            behind = [copied for copied in self.streams.values() if not copied.whole]
            for copied in behind:
                self._note_whole(copied)
            seconds = WHOLE_SECONDS if behind or self.suspects else until - loop.time()
            try:
                async with asyncio.timeout(max(seconds, 0.001)):
                    await self._look.wait()
            except TimeoutError:
                if self._worth_a_look():
                    return

    def _worth_a_look(self) -> bool:
        """Return whether another check may clear a suspicion: not while its copy lags."""
        for name, at in self.suspects.items():
            stream = self._local.find(name)
            reached = stream is None or stream.log.index.last_seq >= self._goals.get(name, 0)
            if reached and self._looks < at + QUICK_LOOKS:
                return True
        return False

    async def _follow(self) -> None:
        self._looks += 1
        shown = {name: copied.shown for name, copied in self.streams.items()}
        unlike: set[str] = set()
        try:
            infos = [info async for page in stream_pages(self._api, "", None) for info in page]
            self.contact_ns = self._local.clock.now_ns()
            whole = self._take(infos)
            # An incomplete copy may have messages that were deleted meanwhile.
            unlike = self.streams.keys() - {info.config.name for info in whole}
            for info in whole:
                self._forget_invented(info, shown.get(info.config.name, 0))
                if not await self._follow_deletions(info):
                    unlike.add(info.config.name)
        except Error as error:
            self._log_once("", f"cannot read the list of streams: {error}")
            return
        self._logged.pop("", None)
        for name in unlike & self.suspects.keys() & self.streams.keys():
            self._goals.setdefault(name, self.streams[name].state.last_seq)
        done = {name for name, at in self.suspects.items() if at <= self._looks}
        for name in done - unlike:
            del self.suspects[name]
            self._goals.pop(name, None)

    def _forget_invented(self, info: StreamInfo, before: int) -> None:
        """Forget an impossible sequence: no stream had reached it afterwards, so it was forged.

        Anyone can send a client what looks like an acknowledgement; the copy would never be read
        again.
        """
        copied = self.streams[info.config.name]
        if copied.shown == before > info.state.last_seq:
            copied.shown_at_most(info.state.last_seq)

    async def _follow_deletions(self, info: StreamInfo) -> bool:
        """Remove what was deleted at the leader; False: it is unknown whether anything is left."""
        name = info.config.name
        copied = self.streams[name]
        outcome = await self._deletions.follow(
            copied, info, now=name in self.suspects, reached=self._goals.get(name, 0)
        )
        if outcome == Outcome.REMAKE:
            self._drop(name)
            self._begin(info)
        return outcome == Outcome.SAME

    def _take(self, infos: list[StreamInfo]) -> list[StreamInfo]:
        """Compare copies with the list; return those whose copies can be checked."""
        self._on_streams([info.config for info in infos])
        there = {info.config.name: info for info in infos}
        for name in sorted(self.streams.keys() - there.keys()):
            log.info("Stream %s was deleted at the leader: its copy is dropped", name)
            self._drop(name)
        chosen = [info for info in infos if wanted(info.config.name, self._patterns)]
        if not chosen:
            patterns = ", ".join(self._patterns)
            self._log_once("*", f"no stream at the leader matches {patterns}: waiting for one")
        else:
            self._logged.pop("*", None)
        return [info for info in chosen if self._take_one(info)]

    def _take_one(self, info: StreamInfo) -> bool:
        name = info.config.name
        refusal = problem(info.config)
        if refusal:
            self._log_once(name, f"stream {name} is not copied, the leader answers for it: "
                           f"{refusal}")  # fmt: skip
            if name in self.streams:
                self._drop(name)
            return False
        copied = self.streams.get(name)
        if copied is not None and copied.created != info.created:
            log.info("Stream %s was created again at the leader: it is copied again", name)
            self._drop(name)
            copied = None
        if copied is not None and self._has_diverged(name):
            log.warning(
                "Replica: stream %s of the leader has lost messages that were copied from it, for "
                "example by restoring an older copy of its store: it is copied again", name
            )  # fmt: skip
            self._drop(name)
            copied = None
        if copied is None:
            copied = self._begin(info)
            if copied is None:
                return False
        if copied.config.allow_direct != info.config.allow_direct:
            self.answering.clear()
        copied.follow(info.config, info.state, reads=name not in self._no_reads)
        if not copied.whole:
            self._note_whole(copied)
        self._follow_config(copied)
        self._note_trouble(name)
        return copied.whole

    def _has_diverged(self, name: str) -> bool:
        """Return whether the leader has other messages under sequences that were copied."""
        stream = self._local.find(name)
        origin = stream.copies[0].origin if stream is not None and stream.copies else None
        return origin is not None and origin.diverged

    def _note_trouble(self, name: str) -> None:
        stream = self._local.find(name)
        error = stream.copies[0].error if stream is not None and stream.copies else b""
        if error:
            text = error.decode(errors="replace")
            self._log_once(f"{name} copy", f"the copy of {name} cannot continue: {text}")
        else:
            self._logged.pop(f"{name} copy", None)

    def _begin(self, info: StreamInfo) -> CopiedStream | None:
        name = info.config.name
        if self._local.find(name) is not None:
            self._local.drop(name)
        config = copy_config(info.config, self._remote, info.created, whole=False)
        refusal = self._local.create(config)
        if refusal:
            self._log_once(name, f"stream {name} cannot be copied: {refusal}")
            return None
        self._logged.pop(name, None)
        log.info("Copying stream %s: %d messages", name, info.state.messages)
        copied = CopiedStream(name, info.config, info.created, info.state, self._local.find)
        self.streams[name] = copied
        return copied

    def _follow_config(self, copied: CopiedStream) -> None:
        stream = self._local.find(copied.name)
        if stream is None:
            return
        config = copy_config(copied.config, self._remote, copied.created, whole=copied.whole)
        if copied_settings(config) != copied_settings(stream.config):
            config = msgspec.structs.replace(
                config, duplicate_window=stream.config.duplicate_window
            )
            refusal = self._local.update(config)
            if refusal:
                self._log_once(
                    copied.name,
                    f"the copy of {copied.name} cannot apply its origin's configuration: "
                    f"{refusal}",
                )

    def _note_whole(self, copied: CopiedStream) -> None:
        if copied.is_current():
            copied.complete()
            log.info("Stream %s is copied up to %d", copied.name, copied.state.last_seq)
            self._follow_config(copied)

    def _drop(self, name: str) -> None:
        self.answering.clear()
        self.streams.pop(name, None)
        refusal = self._local.drop(name) if self._local.find(name) is not None else ""
        if refusal:
            log.error("The copy of %s cannot be dropped: %s", name, refusal)

    def _log_once(self, about: str, text: str) -> None:
        """Log a problem, once until it changes."""
        if self._logged.get(about) != text:
            self._logged[about] = text
            log.warning("Replica: %s", text)
