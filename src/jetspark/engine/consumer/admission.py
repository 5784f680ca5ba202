"""Admission of CONSUMER.CREATE: a new consumer, a changed one, or a refusal."""

from collections.abc import Generator, Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

from jetspark.api.consumer import ConsumerConfig, ConsumerCreateRequest
from jetspark.api.enums import ConsumerAction, Retention
from jetspark.api.stream import StreamConfig
from jetspark.engine.consumer.config import (
    NO_CEILINGS,
    Ceilings,
    prepare_config,
    with_threshold,
)
from jetspark.engine.consumer.config_checks import CheckedFilters, checking_filters
from jetspark.engine.consumer.config_update import check_update, check_workqueue, finding_rival
from jetspark.engine.refusal import Refusal
from jetspark.errors.codes import ErrCode
from jetspark.steps import at_once
from jetspark.subjects.tokens import NAME_LENGTH_MAX

_SEPARATORS: Final = "/\\"


class Existing(Protocol):
    """A consumer that exists already."""

    @property
    def config(self) -> ConsumerConfig:
        """Its configuration."""

    def bound(self) -> bool:
        """Return whether its deliver subject has a subscriber."""


def named(
    wanted: ConsumerCreateRequest,
    stream: str,
    consumer: str,
    subject_filter: str,
    *,
    durable: bool,
) -> ConsumerCreateRequest:
    """Return the request with the name from its subject; raise Refusal if they disagree.

    ``consumer`` is empty in the oldest form of the subject, ``durable`` is for DURABLE.CREATE.
    """
    config = wanted.config
    if wanted.stream_name != stream:
        raise Refusal(ErrCode.STREAM_MISMATCH)
    if any(separator in (consumer or config.name) for separator in _SEPARATORS):
        raise Refusal(ErrCode.CONSUMER_NAME_HAS_SEPARATORS)
    if durable and not config.durable_name:
        raise Refusal(ErrCode.CONSUMER_DURABLE_NAME_NOT_SET)
    if config.durable_name and consumer and consumer != config.durable_name:
        raise Refusal(ErrCode.CONSUMER_DURABLE_NAME_MISMATCH)
    if config.durable_name and not consumer:
        raise Refusal(ErrCode.CONSUMER_EPHEMERAL_WITH_DURABLE_NAME)
    if subject_filter and config.filter_subjects:
        raise Refusal(ErrCode.CONSUMER_MULTIPLE_FILTERS_IN_SUBJECT)
    if subject_filter and config.filter_subject != subject_filter:
        raise Refusal(ErrCode.CONSUMER_FILTER_MISMATCH)
    if config.num_replicas > 1:
        raise Refusal(ErrCode.REPLICAS_NOT_SUPPORTED)
    if consumer:
        config = msgspec.structs.replace(config, name=consumer)
    return msgspec.structs.replace(wanted, config=config)


class Checked(NamedTuple):
    """Results of the slow checks of a request for a consumer.

    ``has_rival``: another consumer of the work queue receives some of its messages.
    """

    filters: CheckedFilters
    has_rival: bool


def checking(
    config: ConsumerConfig, stream: StreamConfig, consumers: Mapping[str, Existing]
) -> Generator[None, None, Checked]:
    """Run the slow checks in steps; consumers deleted meanwhile still count as rivals."""
    filters = yield from checking_filters(config)
    has_rival = False
    if filters.problem is None and stream.retention == Retention.WORKQUEUE:
        rivals = _rivals(consumers, config.durable_name or config.name)
        has_rival = yield from finding_rival(config, filters, rivals)
    return Checked(filters, has_rival)


def admitted(
    wanted: ConsumerCreateRequest,
    stream: StreamConfig,
    consumers: Mapping[str, Existing],
    ceilings: Ceilings = NO_CEILINGS,
    checked: "Checked | None" = None,
) -> ConsumerConfig:
    """Return the configuration for the consumer; raise Refusal if it is not possible.

    A consumer of the same name is changed, or must be equal if the request is to create one. The
    slow checks may have been done before.
    """
    checked = checked or at_once(checking(wanted.config, stream, consumers))
    name = wanted.config.durable_name or wanted.config.name
    there = consumers.get(name) if name else None
    config = wanted.config
    if there is not None:
        # Only CONSUMER.PAUSE changes it.
        config = msgspec.structs.replace(config, pause_until=there.config.pause_until)
    config = prepare_config(
        config, stream, ceilings, pedantic=wanted.pedantic, filters=checked.filters
    )
    if there is not None:
        return _changed(wanted.action, config, there, stream, checked)
    if wanted.action == ConsumerAction.UPDATE:
        raise Refusal(ErrCode.CONSUMER_DOES_NOT_EXIST)
    most = stream.max_consumers
    if most <= 0 or 0 < ceilings.account_max_consumers < most:
        most = ceilings.account_max_consumers
    if 0 < most <= len(consumers) and most <= len(_rivals(consumers, name)):
        raise Refusal(ErrCode.CONSUMERS_LIMIT_REACHED)
    if stream.retention == Retention.WORKQUEUE and not config.direct:
        check_workqueue(config, _rivals(consumers, name), has_rival=checked.has_rival)
    if len(name.encode("utf-8", "surrogatepass")) > NAME_LENGTH_MAX:
        raise Refusal(ErrCode.CONSUMER_NAME_TOO_LONG, max=NAME_LENGTH_MAX)
    return with_threshold(config)


def _changed(
    action: ConsumerAction,
    config: ConsumerConfig,
    there: Existing,
    stream: StreamConfig,
    checked: "Checked",
) -> ConsumerConfig:
    if action == ConsumerAction.CREATE and config != there.config:
        raise Refusal(ErrCode.CONSUMER_EXISTS)
    if stream.retention == Retention.WORKQUEUE and checked.has_rival:
        raise Refusal(ErrCode.WORKQUEUE_FILTER_NOT_UNIQUE)
    moved = config.deliver_subject != there.config.deliver_subject
    return check_update(there.config, config, bound=moved and there.bound())


def _rivals(consumers: Mapping[str, Existing], name: str) -> list[ConsumerConfig]:
    """Return the other consumers; direct ones take nothing from a work queue, and don't count."""
    return [
        consumer.config
        for other, consumer in consumers.items()
        if other != name and not consumer.config.direct
    ]
