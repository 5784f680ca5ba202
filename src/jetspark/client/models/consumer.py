"""Consumers: configuration and status."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict, Unpack

import msgspec

from jetspark.api import consumer as wire
from jetspark.api.enums import AckPolicy, DeliverPolicy, PriorityPolicy, ReplayPolicy
from jetspark.client.models.base import Model, from_wire, to_wire
from jetspark.client.models.stream import ClusterInfo


class ConsumerOptions(TypedDict, total=False):
    """The settings of a consumer; omitted ones get the server's default.

    ``durable`` names a consumer that stays until it is deleted, ``name`` one that is deleted after
    ``inactive_threshold``; without either, a name is generated. ``ack_policy`` defaults to
    explicit. Durations (``ack_wait``, ``backoff``, ``inactive_threshold``,
    ``idle_heartbeat``, ``max_expires``, ``priority_timeout``) are seconds or ``timedelta``.
    Enumerations may be given as strings.
    """

    durable: str
    name: str
    description: str
    deliver_policy: (
        DeliverPolicy
        | Literal["all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject"]
    )
    opt_start_seq: int
    opt_start_time: datetime | None
    ack_policy: AckPolicy | Literal["none", "all", "explicit"]
    ack_wait: float | timedelta
    max_deliver: int
    backoff: Sequence[float | timedelta]
    filter_subject: str
    filter_subjects: Sequence[str]
    replay_policy: ReplayPolicy | Literal["instant", "original"]
    rate_limit_bps: int
    sample_freq: str
    max_waiting: int
    max_ack_pending: int
    flow_control: bool
    headers_only: bool
    max_batch: int
    max_expires: float | timedelta
    max_bytes: int
    deliver_subject: str
    deliver_group: str
    idle_heartbeat: float | timedelta
    inactive_threshold: float | timedelta
    num_replicas: int
    mem_storage: bool
    direct: bool
    sourcing: bool
    metadata: Mapping[str, str]
    pause_until: datetime | None
    priority_groups: Sequence[str]
    priority_policy: PriorityPolicy | Literal["none", "overflow", "pinned_client", "prioritized"]
    priority_timeout: float | timedelta
    min_last_seq: int


class ConsumerConfig(
    Model[wire.ConsumerConfig], wire=wire.ConsumerConfig, names={"durable": "durable_name"}
):
    """Configuration of a consumer: `ConsumerOptions`. ``durable`` is ``durable_name`` on the wire.

    ``ack_policy`` defaults to explicit: messages are redelivered until they are acknowledged.
    Durations are seconds; reading one returns a float.
    """

    __slots__ = ("_default_acks",)
    # Whether the ack policy was left out: subscriptions and ordered consumers have other defaults.
    _default_acks: bool

    durable: str
    name: str
    description: str
    deliver_policy: DeliverPolicy
    opt_start_seq: int
    opt_start_time: datetime | None
    ack_policy: AckPolicy
    ack_wait: float
    max_deliver: int
    backoff: tuple[float, ...]
    filter_subject: str
    filter_subjects: tuple[str, ...]
    replay_policy: ReplayPolicy
    rate_limit_bps: int
    sample_freq: str
    max_waiting: int
    max_ack_pending: int
    flow_control: bool
    headers_only: bool
    max_batch: int
    max_expires: float
    max_bytes: int
    deliver_subject: str
    deliver_group: str
    idle_heartbeat: float
    inactive_threshold: float
    num_replicas: int
    mem_storage: bool
    direct: bool
    sourcing: bool
    metadata: dict[str, str]
    pause_until: datetime | None
    priority_groups: tuple[str, ...]
    priority_policy: PriorityPolicy
    priority_timeout: float
    min_last_seq: int

    def __init__(self, **options: Unpack[ConsumerOptions]) -> None:
        given: dict[str, Any] = {"ack_policy": AckPolicy.EXPLICIT, **options}
        self._fill(given)
        object.__setattr__(self, "_default_acks", "ack_policy" not in options)

    def replace(self, **changes: Unpack[ConsumerOptions]) -> "ConsumerConfig":
        """A copy of this configuration with the given changes."""
        made = self._replaced(changes)
        default_acks = given_ack_policy(self) is None and "ack_policy" not in changes
        object.__setattr__(made, "_default_acks", default_acks)
        return made

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _restored, (to_wire(self), given_ack_policy(self) is None)


def _restored(struct: wire.ConsumerConfig, default_acks: bool) -> ConsumerConfig:
    made = from_wire(ConsumerConfig, struct)
    object.__setattr__(made, "_default_acks", default_acks)
    return made


def given_ack_policy(config: ConsumerConfig) -> AckPolicy | None:
    """The ack policy if it was given; None if it is the default."""
    return None if getattr(config, "_default_acks", False) else config.ack_policy


def without_default_acks(config: ConsumerConfig) -> wire.ConsumerConfig:
    """The wire struct, without a default ack policy."""
    struct = to_wire(config)
    if given_ack_policy(config) is None:
        return msgspec.structs.replace(struct, ack_policy=AckPolicy.NONE)
    return struct


def consumer_config(config: ConsumerConfig | None, options: ConsumerOptions) -> ConsumerConfig:
    """A configuration from options, or a copy of one with the options applied."""
    if config is None:
        return ConsumerConfig(**options)
    given: object = config  # callers may not be type-checked
    if not isinstance(given, ConsumerConfig):
        hint = f"; a name is an option: durable={given!r}" if isinstance(given, str) else ""
        raise TypeError(f"{given!r}: expected a jetspark.ConsumerConfig{hint}")
    return config.replace(**options) if options else config


class SequenceInfo(Model[wire.SequenceInfo], wire=wire.SequenceInfo):
    """A position, as consumer sequence and stream sequence."""

    __slots__ = ()

    consumer_seq: int
    stream_seq: int
    last_active: datetime | None


class PriorityGroupState(
    Model[wire.PriorityGroupState],
    wire=wire.PriorityGroupState,
    names={"pinned_time": "pinned_ts"},
):
    """The client that is pinned to a priority group."""

    __slots__ = ()

    group: str
    pinned_client_id: str
    pinned_time: datetime | None


class ConsumerInfo(
    Model[wire.ConsumerInfo],
    wire=wire.ConsumerInfo,
    names={"time": "ts"},
    always=("created",),
):
    """Configuration and status of a consumer; ``time`` is when the server sent it.

    ``pause_remaining`` is in seconds. ``stopped`` says why pending messages are not delivered
    while a jetspark server cannot read them from its disk.
    """

    __slots__ = ()

    stream_name: str
    name: str
    created: datetime
    config: ConsumerConfig
    delivered: SequenceInfo
    ack_floor: SequenceInfo
    num_ack_pending: int
    num_redelivered: int
    num_waiting: int
    num_pending: int
    cluster: ClusterInfo | None
    push_bound: bool
    paused: bool
    pause_remaining: float
    time: datetime | None
    priority_groups: tuple[PriorityGroupState, ...]
    stopped: str


class PauseState(Model[wire.PauseResponse], wire=wire.PauseResponse):
    """Whether a consumer is paused, until when, and for how many more seconds."""

    __slots__ = ()

    paused: bool
    pause_until: datetime | None
    pause_remaining: float
