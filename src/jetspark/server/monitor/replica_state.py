"""What monitoring must know of a read replica."""

import msgspec


class CopiedStreamState(msgspec.Struct, frozen=True, kw_only=True):
    """A stream of the leader that a read replica copies."""

    name: str
    lag: int  # messages that the leader has and the copy has not, as far as is known
    whole: bool  # it has once had everything; before that it answers nothing
    error: str = ""  # why the copy does not go on


class ReplicaState(msgspec.Struct, frozen=True, kw_only=True):
    """A read replica and its leader. ``heard_ns``: the leader's last word; 0 is never."""

    leader: str  # host and port of each server that is tried
    leader_id: str
    leader_name: str
    connected: bool
    read_only: bool
    heard_ns: int
    reads_answered: int
    reads_passed: int
    streams: tuple[CopiedStreamState, ...]
