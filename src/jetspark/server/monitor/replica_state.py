"""The state of a read replica, for monitoring."""

import msgspec


class CopiedStreamState(msgspec.Struct, frozen=True, kw_only=True):
    """A stream of the leader that a read replica copies."""

    name: str
    lag: int  # messages that the leader has and the copy does not, as far as known
    whole: bool  # it has once been complete; before that it answers nothing
    error: str = ""  # why the copy cannot continue


class ReplicaState(msgspec.Struct, frozen=True, kw_only=True):
    """A read replica and its leader. ``contact_ns``: the last contact with it; 0: never."""

    leader: str  # host and port of each server to try
    leader_id: str
    leader_name: str
    connected: bool
    read_only: bool
    contact_ns: int
    reads_answered: int
    reads_passed: int
    streams: tuple[CopiedStreamState, ...]
