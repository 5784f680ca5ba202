"""Which updates of a consumer are legal, and how consumers share a work queue."""

from collections.abc import Generator, Iterable
from typing import Final

import msgspec

from jetspark.api.consumer import ConsumerConfig
from jetspark.api.enums import AckPolicy, DeliverPolicy
from jetspark.engine.consumer.config import INACTIVE_THRESHOLD, is_durable
from jetspark.engine.consumer.config_checks import CheckedFilters, filters_of
from jetspark.engine.refusal import Refusal
from jetspark.errors.codes import ErrCode
from jetspark.steps import Pace

# Fields that cannot be changed, with the texts of the released server (10012), in its order.
_FIXED: Final = (
    ("deliver_policy", "deliver policy can not be updated"),
    ("mem_storage", "storage type can not be updated"),
    ("direct", "direct can not be updated"),
    ("opt_start_seq", "start sequence can not be updated"),
    ("opt_start_time", "start time can not be updated"),
    ("ack_policy", "ack policy can not be updated"),
    ("replay_policy", "replay policy can not be updated"),
    ("idle_heartbeat", "heart beats can not be updated"),
    ("flow_control", "flow control can not be updated"),
)


def check_update(old: ConsumerConfig, new: ConsumerConfig, *, bound: bool) -> ConsumerConfig:
    """Return the updated configuration; ``new`` was prepared on its own (config.py) before.

    ``bound`` says whether the deliver subject of ``old`` has a subscriber. Raises Refusal for an
    update that is not allowed (wire.md, Consumers).
    """
    for name, text in _FIXED:
        if getattr(old, name) != getattr(new, name):
            raise _refused(text)
    if new.deliver_subject != old.deliver_subject:
        if not old.deliver_subject:
            raise _refused("can not update pull consumer to push based")
        if not new.deliver_subject:
            raise _refused("can not update push consumer to pull based")
        if bound:
            raise Refusal(ErrCode.CONSUMER_NAME_IN_USE)
    if new.max_waiting != old.max_waiting:
        raise _refused("max waiting can not be updated")
    if new.inactive_threshold <= 0 and not is_durable(old):
        new = msgspec.structs.replace(new, inactive_threshold=INACTIVE_THRESHOLD)
    return new


def finding_rival(
    config: ConsumerConfig, filters: CheckedFilters, others: Iterable[ConsumerConfig]
) -> Generator[None, None, bool]:
    """Return, in steps, whether a consumer of a work queue overlaps another one.

    One without filters does not: a new one is refused before (10099), and the released server
    lets an update remove the filters.
    """
    if not filters_of(config):
        return False
    pace = Pace()
    for other in others:
        theirs = filters_of(other)
        if not theirs:
            return True
        for subject in theirs:
            if filters.patterns.overlaps(subject.encode(), None):
                return True
            if pace.is_due(len(subject) + filters.patterns.take_visited()):
                yield
    return False


def check_workqueue(
    config: ConsumerConfig, others: list[ConsumerConfig], *, has_rival: bool
) -> None:
    """Refuse a new consumer that conflicts with the others of a work queue."""
    if config.ack_policy != AckPolicy.EXPLICIT:
        raise Refusal(ErrCode.WORKQUEUE_NEEDS_EXPLICIT_ACK)
    if config.deliver_policy != DeliverPolicy.ALL:
        raise Refusal(ErrCode.WORKQUEUE_NEEDS_DELIVER_ALL)
    if not others:
        return
    if not filters_of(config):
        raise Refusal(ErrCode.WORKQUEUE_MULTIPLE_UNFILTERED)
    if has_rival:
        raise Refusal(ErrCode.WORKQUEUE_FILTER_NOT_UNIQUE)


def _refused(text: str) -> Refusal:
    return Refusal(ErrCode.CONSUMER_CREATE_FAILED, err=text)
