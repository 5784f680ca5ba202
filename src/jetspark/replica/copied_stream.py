"""A copied stream: the state of the leader's stream and of its copy."""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from jetspark.api.base import Timestamp
from jetspark.api.enums import Discard, Retention
from jetspark.api.stream import ExternalStream, StreamConfig, StreamSource, StreamState
from jetspark.engine.stream.stream import Stream
from jetspark.units import ByteCount

# In the metadata of a copy: when its origin was created, and that it has once been complete.
CREATED_KEY: Final = "jetspark.replica.created"
WHOLE_KEY: Final = "jetspark.replica.whole"


@dataclass(slots=True)
class CopiedStream:
    """One stream and its copy, which may not exist.

    ``whole``: the copy has once been complete; before that it answers nothing, because a key that
    it lacks may exist.
    """

    name: str
    config: StreamConfig
    created: Timestamp
    state: StreamState
    find: Callable[[str], Stream | None]
    reads: bool = True
    whole: bool = False
    # The highest sequence that clients of this replica have seen, in acknowledgements of their
    # writes and in the leader's answers to their reads.
    shown: int = 0
    # Rounds in which the copy had more, or fewer, messages than the leader.
    surplus: int = 0
    lacking: int = 0

    def copy(self) -> Stream | None:
        """The copy, if it may answer reads."""
        return self.find(self.name) if self.whole and self.reads else None

    def follow(self, config: StreamConfig, state: StreamState, *, reads: bool) -> None:
        """Note what the leader has. ``reads``: whether the copy may answer."""
        self.config, self.state, self.reads = config, state, reads
        # So a copy that cannot continue is read for a few seconds at most.
        self.show(state.last_seq)

    def differs_by(self, more: int) -> None:
        """Count a round by how many messages more than the leader the copy has, or fewer."""
        self.surplus = self.surplus + 1 if more > 0 else 0
        self.lacking = self.lacking + 1 if more < 0 else 0

    def complete(self) -> None:
        """Note that the copy has once been complete."""
        self.whole = True

    def show(self, seq: int) -> None:
        """Note that clients have seen a sequence: the copy does not answer from before it."""
        self.shown = max(self.shown, seq)

    def shown_at_most(self, seq: int) -> None:
        """Correct a sequence that clients cannot have seen."""
        self.shown = min(self.shown, seq)

    def is_current(self) -> bool:
        """Return whether the copy has everything that the leader is known to have had."""
        stream = self.find(self.name)
        return stream is not None and stream.log.index.last_seq >= self.state.last_seq


def wanted(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a stream is to be copied: ``*`` and ``?`` as in a shell."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def problem(config: StreamConfig) -> str:
    """Return why a stream cannot be copied; empty if it can."""
    if config.retention != Retention.LIMITS:
        return (
            f"it has {config.retention.value} retention: acknowledged messages are removed from "
            "it, so a copy would show messages that no longer exist"
        )
    return ""


def copy_config(
    origin: StreamConfig, remote: str, created: Timestamp, *, whole: bool
) -> StreamConfig:
    """Return the configuration of a copy.

    Rules of the origin that remove messages by their content or age remove them here as well.
    Sizes are counted differently by other servers, so that limit is followed afterwards, like
    deletes and purges (reconciler.py). Only the origin writes markers.
    """
    return StreamConfig(
        name=origin.name,
        description=f"Copy of {origin.name} of the leader",
        mirror=StreamSource(
            name=origin.name, external=ExternalStream(api=f"$JS.{remote}.API", deliver="")
        ),
        max_msgs=origin.max_msgs if origin.discard == Discard.OLD else -1,
        max_bytes=ByteCount(-1),
        max_age=origin.max_age,
        max_msgs_per_subject=origin.max_msgs_per_subject,
        storage=origin.storage,
        compression=origin.compression,
        allow_direct=origin.allow_direct,
        allow_rollup_hdrs=origin.allow_rollup_hdrs,
        allow_msg_ttl=origin.allow_msg_ttl,
        metadata={CREATED_KEY: str(created)} | ({WHOLE_KEY: "true"} if whole else {}),
    )


def copied_settings(config: StreamConfig) -> StreamConfig:
    """Return the part of a copy's configuration that follows its origin, for comparisons."""
    return msgspec.structs.replace(
        config,
        duplicate_window=StreamConfig().duplicate_window,
        allow_direct=False,
        max_msg_size=-1,
        metadata={
            key: value for key, value in config.metadata.items() if key in {CREATED_KEY, WHOLE_KEY}
        },
    )
