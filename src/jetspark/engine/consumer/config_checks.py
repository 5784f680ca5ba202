"""Validation of a consumer's configuration, in the order of the released server."""

import re
from collections.abc import Generator
from typing import Final

from jetspark.api.consumer import ConsumerConfig
from jetspark.api.enums import AckPolicy, DeliverPolicy, PriorityPolicy, Retention
from jetspark.api.stream import StreamConfig
from jetspark.engine.refusal import Refusal
from jetspark.engine.stream.subject_rules import PATTERN_MAX
from jetspark.engine.stream.values import (
    DESCRIPTION_MAX,
    METADATA_MAX,
    invalid,
    is_name,
    metadata_size,
)
from jetspark.errors.codes import ErrCode
from jetspark.steps import Pace
from jetspark.subjects.match import is_subset
from jetspark.subjects.pattern_set import PatternSet
from jetspark.subjects.tokens import is_literal, is_valid_subject
from jetspark.units import Nanoseconds, format_duration, parse_int64

HEARTBEAT_LEAST: Final = Nanoseconds(100_000_000)  # wire.md, Limits and timings
EXPIRES_LEAST: Final = Nanoseconds(1_000_000)
GROUPS_MAX: Final = 1024
BACKOFF_MAX: Final = 1024
GROUP_NAME: Final = re.compile(r"[a-zA-Z0-9/_=-]{1,16}", re.ASCII)
# The names of the policies in errors.
_POLICIES: Final = {
    DeliverPolicy.ALL: "all",
    DeliverPolicy.LAST: "last",
    DeliverPolicy.NEW: "new",
    DeliverPolicy.LAST_PER_SUBJECT: "last per subject",
    DeliverPolicy.BY_START_SEQUENCE: "by start sequence",
    DeliverPolicy.BY_START_TIME: "by start time",
}
# Go's texts for an invalid number.
_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


def check_config(
    config: ConsumerConfig,
    stream: StreamConfig,
    *,
    most_ack_pending: tuple[int, ...],
    most_batch: int,
    filters: "CheckedFilters",
) -> None:
    """Raise Refusal for the first error; defaults have been filled in."""
    _check_names_and_replicas(config, stream)
    if len(config.backoff) > BACKOFF_MAX:
        raise invalid(
            f"backoff has {len(config.backoff)} entries, at most {BACKOFF_MAX} are allowed"
        )
    if any(pause < 0 for pause in config.backoff):
        raise Refusal(ErrCode.CONSUMER_BACKOFF_NEGATIVE)
    if config.ack_wait < 0:
        raise Refusal(ErrCode.CONSUMER_ACK_WAIT_NEGATIVE)
    if config.max_deliver != -1 and len(config.backoff) > config.max_deliver:
        raise Refusal(ErrCode.CONSUMER_BACKOFF_TOO_LONG)
    if _size(config.description) > DESCRIPTION_MAX:
        raise Refusal(ErrCode.CONSUMER_DESCRIPTION_TOO_LONG, max=DESCRIPTION_MAX)
    if config.deliver_subject:
        _check_push(config, stream)
    else:
        _check_pull(config, stream, most_batch)
    _check_limits(config, stream, most_ack_pending)
    if config.direct:
        if not config.deliver_subject:
            raise Refusal(ErrCode.CONSUMER_DIRECT_NEEDS_PUSH)
        if config.durable_name:
            raise Refusal(ErrCode.CONSUMER_DIRECT_NEEDS_EPHEMERAL)
    if filters.problem is not None:
        # The filters, which may be megabytes, and a traceback must not keep each other alive.
        raise filters.problem.again()
    _check_start(config)
    _check_sampling(config.sample_freq)
    if config.flow_control and config.idle_heartbeat == 0:
        raise Refusal(ErrCode.CONSUMER_FLOW_CONTROL_NEEDS_HEARTBEAT)
    if config.durable_name and config.name and config.name != config.durable_name:
        raise Refusal(ErrCode.CONSUMER_DURABLE_AND_NAME_MISMATCH)
    if metadata_size(config.metadata) > METADATA_MAX:
        raise Refusal(ErrCode.CONSUMER_METADATA_TOO_LARGE, limit=f"{METADATA_MAX // 1024}KB")
    _check_priority(config)
    if config.sourcing:
        # Only servers that mirror each other send it, over connections that jetspark does not
        # have.
        raise invalid("sourcing consumers are not supported by jetspark")


def filters_of(config: ConsumerConfig) -> tuple[str, ...]:
    """Return the filters of a consumer, whichever field has them; none means every subject."""
    return (config.filter_subject,) if config.filter_subject else config.filter_subjects


def _check_names_and_replicas(config: ConsumerConfig, stream: StreamConfig) -> None:
    if config.name and not is_name(config.name):
        raise invalid(r"consumer name can not contain '.', '*', '>', '\', '/'")
    if config.durable_name and not is_name(config.durable_name):
        raise invalid(r"consumer durable name can not contain '.', '*', '>', '\', '/'")
    if config.num_replicas > stream.num_replicas:
        raise Refusal(ErrCode.CONSUMER_REPLICAS_EXCEED_STREAM)
    if config.num_replicas < 0:
        raise Refusal(ErrCode.REPLICAS_NEGATIVE)
    if stream.retention != Retention.LIMITS and config.num_replicas not in {
        0,
        stream.num_replicas,
    }:
        raise Refusal(ErrCode.CONSUMER_REPLICAS_MUST_MATCH)


def _check_push(config: ConsumerConfig, stream: StreamConfig) -> None:
    deliver = config.deliver_subject.encode()
    if not is_literal(deliver):
        raise Refusal(ErrCode.CONSUMER_DELIVER_WILDCARD)
    if not is_valid_subject(deliver):
        raise Refusal(ErrCode.CONSUMER_DELIVER_SUBJECT_INVALID)
    if any(is_subset(deliver, subject.encode()) for subject in stream.subjects):
        raise Refusal(ErrCode.CONSUMER_DELIVER_CYCLE)
    if config.max_waiting != 0:
        raise Refusal(ErrCode.CONSUMER_PUSH_MAX_WAITING)
    if config.max_ack_pending > 0 and config.ack_policy == AckPolicy.NONE:
        raise Refusal(ErrCode.CONSUMER_MAX_ACK_PENDING_NEEDS_ACKS)
    if 0 < config.idle_heartbeat < HEARTBEAT_LEAST:
        raise Refusal(ErrCode.CONSUMER_HEARTBEAT_TOO_SMALL)


def _check_pull(config: ConsumerConfig, stream: StreamConfig, most_batch: int) -> None:
    if config.ack_policy == AckPolicy.NONE and stream.retention == Retention.WORKQUEUE:
        raise Refusal(ErrCode.CONSUMER_PULL_NEEDS_EXPLICIT_ACK)
    if config.rate_limit_bps > 0:
        raise Refusal(ErrCode.CONSUMER_PULL_RATE_LIMIT)
    if config.idle_heartbeat > 0:
        raise Refusal(ErrCode.CONSUMER_HEARTBEAT_NEEDS_PUSH)
    if config.flow_control:
        raise Refusal(ErrCode.CONSUMER_FLOW_CONTROL_NEEDS_PUSH)
    if 0 < config.max_expires < EXPIRES_LEAST:
        raise Refusal(ErrCode.CONSUMER_MAX_EXPIRES_TOO_SMALL)
    if 0 < most_batch < config.max_batch:
        raise Refusal(ErrCode.CONSUMER_MAX_BATCH_EXCEEDED, limit=most_batch)


def _check_limits(
    config: ConsumerConfig, stream: StreamConfig, most_ack_pending: tuple[int, ...]
) -> None:
    limits = stream.consumer_limits
    for most in (*most_ack_pending, limits.max_ack_pending):
        if 0 < most < config.max_ack_pending:
            raise Refusal(ErrCode.CONSUMER_MAX_ACK_PENDING_EXCEEDED, limit=most)
    if 0 < limits.inactive_threshold < config.inactive_threshold:
        raise Refusal(
            ErrCode.CONSUMER_INACTIVE_THRESHOLD_EXCEEDED,
            limit=format_duration(limits.inactive_threshold),
        )


class CheckedFilters:
    """The filters of a configuration, in order and as a set, and their error, if any."""

    def __init__(
        self, filters: list[bytes], patterns: PatternSet, problem: Refusal | None
    ) -> None:
        # A full wildcard counts as no filter.
        self.filters: Final = [] if filters == [b">"] else filters
        self.patterns: Final = patterns
        self.problem: Final = problem


def checking_filters(config: ConsumerConfig) -> Generator[None, None, CheckedFilters]:
    """Check the filters, in steps. The error is raised later, in its order among the others."""
    filters: list[bytes] = []
    patterns = PatternSet()
    try:
        yield from _check_filters(config, filters, patterns)
    except Refusal as problem:
        return CheckedFilters(filters, patterns, problem)
    return CheckedFilters(filters, patterns, None)


def _check_filters(
    config: ConsumerConfig, wanted: list[bytes], all_of_them: PatternSet
) -> Generator[None, None, None]:
    if config.filter_subject and config.filter_subjects:
        raise Refusal(ErrCode.CONSUMER_BOTH_FILTERS)
    if config.filter_subject and not is_valid_subject(config.filter_subject.encode()):
        raise invalid("invalid subject")
    if "" in config.filter_subjects:
        raise Refusal(ErrCode.CONSUMER_FILTER_EMPTY)
    pace = Pace()
    for text in filters_of(config):
        subject = text.encode()
        if len(subject) > PATTERN_MAX:
            raise invalid(f"filter has {len(subject)} bytes, at most {PATTERN_MAX} are allowed")
        wanted.append(subject)
        all_of_them.add(subject, subject)
        if pace.is_due(len(subject)):
            yield
    for subject in wanted:
        if not is_valid_subject(subject):
            raise invalid("invalid subject")
        if all_of_them.covers(subject, subject):
            raise Refusal(ErrCode.CONSUMER_FILTERS_OVERLAP)
        if pace.is_due(len(subject) + all_of_them.take_visited()):
            yield


def _check_start(config: ConsumerConfig) -> None:
    policy = config.deliver_policy
    with_seq, with_time = config.opt_start_seq > 0, config.opt_start_time is not None
    if policy == DeliverPolicy.BY_START_SEQUENCE:
        if not with_seq:
            raise _start_problem(policy, "start sequence is not set")
        if with_time:
            raise _start_problem(policy, "start time is also set")
        return
    if policy == DeliverPolicy.BY_START_TIME:
        if not with_time:
            raise _start_problem(policy, "start time is not set")
        if with_seq:
            raise _start_problem(policy, "start start sequence is also set")
        return
    if with_seq:
        raise _start_problem(policy, "start sequence is also set")
    if with_time:
        raise _start_problem(policy, "start time is also set")
    if policy == DeliverPolicy.LAST_PER_SUBJECT and not filters_of(config):
        raise _start_problem(policy, "filter subject is not set")


def _start_problem(policy: DeliverPolicy, problem: str) -> Refusal:
    text = f"consumer delivery policy is deliver {_POLICIES[policy]}, but optional {problem}"
    return Refusal(ErrCode.CONSUMER_INVALID_POLICY, err=text)


def _check_sampling(text: str) -> None:
    if not text:
        return
    number = text.removesuffix("%")
    if _NUMBER.fullmatch(number) is None:
        problem = "invalid syntax"
    elif (value := parse_int64(number)) is None:
        problem = "value out of range"
    elif value < 0:
        raise Refusal(ErrCode.CONSUMER_INVALID_SAMPLING, err="<nil>")
    else:
        return
    quoted = f'strconv.Atoi: parsing "{number}": {problem}'
    raise Refusal(ErrCode.CONSUMER_INVALID_SAMPLING, err=quoted)


def _check_priority(config: ConsumerConfig) -> None:
    if config.priority_policy == PriorityPolicy.NONE:
        if config.priority_groups:
            raise Refusal(ErrCode.PRIORITY_GROUPS_WITH_POLICY_NONE)
        if config.priority_timeout > 0:
            raise Refusal(ErrCode.PINNED_TTL_WITH_POLICY_NONE)
        return
    if config.deliver_subject:
        raise Refusal(ErrCode.PRIORITY_GROUPS_WITH_PUSH)
    if not config.priority_groups:
        raise Refusal(ErrCode.PRIORITY_POLICY_WITHOUT_GROUP)
    if len(config.priority_groups) > GROUPS_MAX:
        text = f"{len(config.priority_groups)} priority groups, at most {GROUPS_MAX} are allowed"
        raise invalid(text)
    for group in config.priority_groups:
        if not group:
            raise Refusal(ErrCode.PRIORITY_GROUP_EMPTY)
        if GROUP_NAME.fullmatch(group) is None:
            raise Refusal(ErrCode.PRIORITY_GROUP_INVALID)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
