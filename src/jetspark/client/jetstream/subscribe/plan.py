"""ADR-15 as functions: the arguments of a subscription, and what to do with a found consumer.

Pure. ``settle`` refuses what cannot work before anything is sent; ``plan`` decides between binding
to a consumer, changing its deliver subject, and creating one. Both raise SubscribeRefused with
what to change.
"""

from typing import Final

import msgspec

from jetspark.api.consumer import ConsumerConfig, ConsumerInfo
from jetspark.api.enums import AckPolicy
from jetspark.client.arguments import text
from jetspark.client.models.base import from_wire
from jetspark.client.models.consumer import ConsumerConfig as ShownConfig
from jetspark.errors import BadName, ConsumerNotFound, SubscribeRefused
from jetspark.errors.codes import ErrCode
from jetspark.subjects.tokens import consumer_name_problem

# Compared by separate rules, or set by the workflow.
_NOT_COMPARED: Final = frozenset(
    {
        "ack_policy",
        "name",
        "durable_name",
        "deliver_subject",
        "deliver_group",
        "filter_subject",
        "filter_subjects",
        "metadata",
        "min_last_seq",
    }
)
# On consumers of queues created by ``subscribe``: the last member deletes them, whichever created
# them.
MADE_BY: Final = "jetspark.made_by"
# Metadata that servers and this client write themselves.
_NOT_USERS: Final = ("_nats.", "_jetspark.", MADE_BY)


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of ``subscribe`` or ``pull_subscribe``.

    ``consumer`` is a consumer to bind to, ``durable`` one to find or create. ``ack_policy`` None
    is that of the configuration, or explicit if that has none. ``keep``: the end of the
    subscription deletes nothing.
    """

    subject: str = ""
    stream: str = ""
    consumer: str = ""
    durable: str = ""
    queue: str = ""
    pull: bool = False
    ack_policy: AckPolicy | None = None
    config: ConsumerConfig = ConsumerConfig()
    keep: bool = False

    @property
    def lookup(self) -> str:
        """The name of the consumer to look up; empty if a new one is to be created."""
        return self.consumer or self.durable or self.config.name


class Bind(msgspec.Struct, frozen=True):
    """Use the existing consumer. ``info`` is None if it could not be looked up (pull)."""

    name: str
    info: ConsumerInfo | None


class Change(msgspec.Struct, frozen=True):
    """Use the existing consumer after changing its configuration (deliver subject)."""

    config: ConsumerConfig


class Create(msgspec.Struct, frozen=True):
    """Create a consumer; a push consumer still needs a deliver subject unless one was given."""

    config: ConsumerConfig


Plan = Bind | Change | Create


def settle(wanted: Wanted) -> Wanted:
    """Check the arguments and fill in what follows from them (ADR-15, "Configuration")."""
    for name in ("subject", "stream", "consumer", "durable", "queue"):
        text(getattr(wanted, name), name)
    config = wanted.config
    queue = wanted.queue or config.deliver_group
    subject = wanted.subject or config.filter_subject
    durable = wanted.durable or config.durable_name
    if queue and config.deliver_group not in {"", queue}:
        raise SubscribeRefused(
            f"queue {queue!r} and config.deliver_group {config.deliver_group!r} differ: give one"
        )
    if wanted.subject and config.filter_subject not in {"", wanted.subject}:
        raise SubscribeRefused(
            f"subject {wanted.subject!r} and config.filter_subject {config.filter_subject!r} "
            "differ: give one of them"
        )
    if wanted.pull:
        _check_pull(wanted)
    if queue and (config.idle_heartbeat or config.flow_control):
        raise SubscribeRefused(
            "a queue subscription cannot have heartbeats or flow control: the server would send "
            "them to random members; leave out idle_heartbeat and flow_control, or the queue"
        )
    if not subject and not config.filter_subjects and not wanted.stream:
        raise SubscribeRefused(
            "neither subject nor stream was given: one of them is required to find the consumer"
        )
    if wanted.consumer and durable and wanted.consumer != durable:
        raise SubscribeRefused(
            f"consumer {wanted.consumer!r} (to bind to) and durable {durable!r} differ: give one"
        )
    if queue and not wanted.consumer and not durable:
        # ADR-15, "Queue name": otherwise every member would get its own consumer.
        durable = queue
        problem = consumer_name_problem(queue)
        if problem is not None:
            error = BadName("consumer", queue, problem)
            error.add_note("the queue name is used as durable name: give durable= as well")
            raise error
    return msgspec.structs.replace(wanted, subject=subject, durable=durable, queue=queue)


def _check_pull(wanted: Wanted) -> None:
    policy = wanted.ack_policy or wanted.config.ack_policy
    wrong = wanted.ack_policy is AckPolicy.NONE or policy is AckPolicy.ALL
    if wrong:
        raise SubscribeRefused(
            f"a pull subscription requires ack policy explicit, not {policy.value}: leave it out, "
            "or use stream.create_consumer"
        )
    config = wanted.config
    for name, given in (
        ("deliver_subject", config.deliver_subject),
        ("deliver_group", config.deliver_group),
        ("flow_control", config.flow_control),
        ("idle_heartbeat", config.idle_heartbeat),
    ):
        if given:
            raise SubscribeRefused(
                f"a pull subscription has no {name} ({given!r} was given): leave it out, or use "
                "js.subscribe"
            )


def plan(wanted: Wanted, found: ConsumerInfo | None) -> Plan:
    """Decide what to do with the consumer that was looked up; ``wanted`` is settled."""
    if found is None:
        if not wanted.consumer:
            return Create(new_config(wanted))
        if wanted.pull:
            # ADR-15, "Consumer name": a pull subscriber proceeds without the lookup.
            return Bind(wanted.consumer, None)
        raise ConsumerNotFound(
            404,
            ErrCode.CONSUMER_NOT_FOUND,
            f"consumer {wanted.consumer!r} of stream {wanted.stream!r} does not exist: create it, "
            "or give durable= instead of consumer= to have it created",
        )
    if wanted.pull:
        _check_found_pull(wanted, found)
    else:
        _check_found_push(wanted, found)
    _check_filter(wanted, found)
    _check_config(wanted, found)
    asked = wanted.config.deliver_subject
    if asked and asked != found.config.deliver_subject:
        return _change(found, asked)
    return Bind(found.name, found)


def _check_found_pull(wanted: Wanted, found: ConsumerInfo) -> None:
    if found.config.deliver_subject:
        raise SubscribeRefused(
            f"{_label(found)} is a push consumer: use js.subscribe for it, "
            f"or another name than {wanted.lookup!r}"
        )


def _check_found_push(wanted: Wanted, found: ConsumerInfo) -> None:
    config, label, queue = found.config, _label(found), wanted.queue
    if not config.deliver_subject:
        raise SubscribeRefused(f"{label} is a pull consumer: use js.pull_subscribe")
    if not queue:
        if config.deliver_group:
            raise SubscribeRefused(
                f"{label} was created for the queue group {config.deliver_group!r}: give "
                f"queue={config.deliver_group!r} to join it"
            )
        if found.push_bound:
            raise SubscribeRefused(
                f"duplicate subscription: {label} already has a subscriber; use another durable "
                "name, or a queue to share one"
            )
        return
    if not config.deliver_group:
        raise SubscribeRefused(
            f"{label} was created without a deliver group: leave out queue={queue!r}, or use "
            "another durable name"
        )
    if config.deliver_group != queue:
        raise SubscribeRefused(
            f"{label} was created for the queue group {config.deliver_group!r}, not for {queue!r}"
        )
    if config.flow_control:
        raise SubscribeRefused(
            f"{label} has flow_control, which queues do not support: create the consumer without "
            "it, or subscribe without queue"
        )
    if config.idle_heartbeat:
        raise SubscribeRefused(
            f"{label} has idle_heartbeat, which queues do not support: create the consumer "
            "without it, or subscribe without queue"
        )


def _check_filter(wanted: Wanted, found: ConsumerInfo) -> None:
    """ADR-15, "Other checks": a filter must be the subject of the subscription."""
    filters = found.config.filter_subjects or (
        (found.config.filter_subject,) if found.config.filter_subject else ()
    )
    asked = wanted.config.filter_subjects or ((wanted.subject,) if wanted.subject else ())
    if filters and asked and set(asked) != set(filters):
        raise SubscribeRefused(
            f"subject mismatch: {_label(found)} filters {', '.join(filters)}, the subscription "
            f"requests {', '.join(asked)}"
        )
    if not filters and wanted.config.filter_subjects:
        raise SubscribeRefused(
            f"subject mismatch: {_label(found)} has no filter, the subscription requests "
            f"{', '.join(asked)}"
        )


def _check_config(wanted: Wanted, found: ConsumerInfo) -> None:
    """The caller's settings must match the consumer: subscribing changes nothing."""
    differences: list[tuple[str, object, object]] = []
    policy = wanted.ack_policy or wanted.config.ack_policy
    if (wanted.ack_policy or policy is not AckPolicy.NONE) and policy != found.config.ack_policy:
        differences.append(("ack_policy", policy, found.config.ack_policy))
    plain = ConsumerConfig()
    for name in plain.__struct_fields__:
        asked, has = getattr(wanted.config, name), getattr(found.config, name)
        if name in _NOT_COMPARED or asked == getattr(plain, name):
            continue
        if asked != has:
            # Shown as users write them: seconds and datetimes.
            asked = getattr(from_wire(ShownConfig, wanted.config), name)
            has = getattr(from_wire(ShownConfig, found.config), name)
            differences.append((name, asked, has))
    metadata = {
        key: text for key, text in found.config.metadata.items() if not key.startswith(_NOT_USERS)
    }
    if wanted.config.metadata and wanted.config.metadata != metadata:
        differences.append(("metadata", wanted.config.metadata, metadata))
    if differences:
        listed = "; ".join(f"{name} is {has}, not {asked}" for name, asked, has in differences)
        raise SubscribeRefused(
            f"{_label(found)} has another configuration and subscribing does not change it: "
            f"{listed}; update the consumer first, or leave these out"
        )


def _change(found: ConsumerInfo, deliver_subject: str) -> Change:
    """ADR-15: only the deliver subject of an existing consumer can be changed."""
    if found.push_bound:
        raise SubscribeRefused(
            f"{_label(found)} delivers to {found.config.deliver_subject!r} and has subscribers: "
            f"its deliver subject cannot become {deliver_subject!r} now"
        )
    return Change(msgspec.structs.replace(found.config, deliver_subject=deliver_subject))


def new_config(wanted: Wanted) -> ConsumerConfig:
    """The configuration of the consumer to create (ADR-15, "Creating the JS Consumer")."""
    config = wanted.config
    policy = wanted.ack_policy
    if policy is None:
        unset = config.ack_policy is AckPolicy.NONE
        policy = AckPolicy.EXPLICIT if unset else config.ack_policy
    metadata = config.metadata
    if wanted.queue and not wanted.keep:
        metadata = {**metadata, MADE_BY: "subscribe"}
    return msgspec.structs.replace(
        config,
        durable_name=wanted.durable,
        ack_policy=policy,
        filter_subject="" if config.filter_subjects else wanted.subject,
        deliver_group=wanted.queue,
        metadata=metadata,
    )


def _label(found: ConsumerInfo) -> str:
    return f"consumer {found.name!r} of stream {found.stream_name!r}"
