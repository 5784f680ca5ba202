"""ADR-15, from "Configuration" to "Creating the JS Consumer": one test per sentence, no server."""

from typing import Any

import msgspec
import pytest

from jetspark.api.consumer import ConsumerConfig, ConsumerInfo
from jetspark.api.enums import AckPolicy, DeliverPolicy
from jetspark.client.jetstream.subscribe.plan import (
    Bind,
    Change,
    Create,
    Wanted,
    new_config,
    plan,
    settle,
)
from jetspark.errors import BadName, ConsumerNotFound, SubscribeRefused
from jetspark.units import seconds


def wanted(**changes: Any) -> Wanted:
    return settle(Wanted(**({"subject": "foo"} | changes)))


def found(*, bound: bool = False, **changes: Any) -> ConsumerInfo:
    given = {"durable_name": "d", "ack_policy": AckPolicy.EXPLICIT, "filter_subject": "foo"}
    config = ConsumerConfig(**(given | changes))
    return ConsumerInfo(stream_name="S", name="d", config=config, push_bound=bound)


def push(**changes: Any) -> ConsumerInfo:
    return found(**({"deliver_subject": "there"} | changes))


# Configuration.


@pytest.mark.parametrize(
    "config", [ConsumerConfig(idle_heartbeat=seconds(1)), ConsumerConfig(flow_control=True)]
)
def test_a_queue_with_heartbeat_or_flow_control_is_refused(config: ConsumerConfig) -> None:
    """If a queue name is provided, configuring heartbeat or flow control is a mistake."""
    with pytest.raises(SubscribeRefused, match="random members"):
        wanted(queue="q", config=config)


def test_no_subject_and_no_stream_is_refused() -> None:
    with pytest.raises(SubscribeRefused, match="neither subject nor stream"):
        wanted(subject="")

    assert wanted(subject="", stream="S").stream == "S"


def test_filters_of_the_configuration_serve_as_subject() -> None:
    config = ConsumerConfig(filter_subjects=("a", "b"))

    assert wanted(subject="", config=config).config.filter_subjects == ("a", "b")
    assert wanted(subject="", config=ConsumerConfig(filter_subject="a")).subject == "a"


@pytest.mark.parametrize("policy", [AckPolicy.NONE, AckPolicy.ALL])
def test_a_pull_subscription_with_ack_none_or_all_is_refused(policy: AckPolicy) -> None:
    with pytest.raises(SubscribeRefused, match="requires ack policy explicit"):
        wanted(pull=True, ack_policy=policy)


def test_a_pull_subscription_with_ack_all_in_its_configuration_is_refused() -> None:
    with pytest.raises(SubscribeRefused, match="requires ack policy explicit"):
        wanted(pull=True, config=ConsumerConfig(ack_policy=AckPolicy.ALL))


@pytest.mark.parametrize(
    "config",
    [
        ConsumerConfig(deliver_group="q"),
        ConsumerConfig(flow_control=True),
        ConsumerConfig(idle_heartbeat=seconds(1)),
    ],
)
def test_a_pull_subscription_has_no_settings_of_push_consumers(config: ConsumerConfig) -> None:
    with pytest.raises(SubscribeRefused, match="a pull subscription has no"):
        settle(Wanted(subject="a", pull=True, config=config))


def test_a_pull_subscription_has_no_deliver_subject() -> None:
    with pytest.raises(SubscribeRefused, match="no deliver_subject"):
        wanted(pull=True, config=ConsumerConfig(deliver_subject="x"))


def test_contradictions_are_refused() -> None:
    with pytest.raises(SubscribeRefused, match=r"queue 'q' and config.deliver_group 'r'"):
        wanted(queue="q", config=ConsumerConfig(deliver_group="r"))
    with pytest.raises(SubscribeRefused, match=r"filter_subject 'bar' differ"):
        wanted(config=ConsumerConfig(filter_subject="bar"))
    with pytest.raises(SubscribeRefused, match=r"consumer 'a' .* durable 'b' differ"):
        wanted(consumer="a", durable="b")


# Queue name.


def test_the_queue_name_is_the_durable_name_when_none_is_given() -> None:
    assert wanted(queue="bar").durable == "bar"
    assert wanted(queue="bar", durable="d").durable == "d"
    assert wanted(queue="bar", consumer="c").lookup == "c"


def test_a_queue_name_that_cannot_be_a_durable_says_so() -> None:
    with pytest.raises(BadName) as raised:
        wanted(queue="a.b")

    assert "give durable=" in raised.value.__notes__[0]


# Consumer name.


def test_a_named_consumer_that_is_missing_is_an_error() -> None:
    """When a consumer name is specified ... If the lookup fails, it is considered an error."""
    with pytest.raises(ConsumerNotFound, match="give durable="):
        plan(wanted(consumer="c"), None)


def test_a_pull_subscriber_proceeds_without_the_lookup() -> None:
    """... unless the subscription is for a "pull subscriber"."""
    assert plan(wanted(consumer="c", pull=True), None) == Bind("c", None)


def test_a_durable_that_is_missing_is_created() -> None:
    decided = plan(wanted(durable="d"), None)

    assert isinstance(decided, Create)
    assert decided.config.durable_name == "d"


def test_a_consumer_that_fits_is_used() -> None:
    info = push()

    assert plan(wanted(durable="d"), info) == Bind("d", info)
    assert plan(wanted(durable="d", pull=True), found()) == Bind("d", found())


# Push consumer active information and queue group binding.


def test_a_bound_consumer_without_group_is_a_duplicate_subscription() -> None:
    with pytest.raises(SubscribeRefused, match="duplicate subscription"):
        plan(wanted(durable="d"), push(bound=True))


@pytest.mark.parametrize("bound", [False, True])
def test_no_queue_on_a_consumer_of_a_group_is_refused(bound: bool) -> None:
    with pytest.raises(SubscribeRefused, match="created for the queue group 'g': give queue='g'"):
        plan(wanted(durable="d"), push(deliver_group="g", bound=bound))


@pytest.mark.parametrize("bound", [False, True])
def test_another_queue_is_refused(bound: bool) -> None:
    with pytest.raises(SubscribeRefused, match="for the queue group 'g', not for 'q'"):
        plan(wanted(durable="d", queue="q"), push(deliver_group="g", bound=bound))


@pytest.mark.parametrize("bound", [False, True])
def test_a_queue_on_a_consumer_without_group_is_refused(bound: bool) -> None:
    with pytest.raises(SubscribeRefused, match="without a deliver group"):
        plan(wanted(durable="d", queue="q"), push(bound=bound))


def test_the_same_queue_binds_even_when_others_are_bound() -> None:
    info = push(deliver_group="q", bound=True)

    assert plan(wanted(durable="d", queue="q"), info) == Bind("d", info)


# Other checks.


def test_another_filter_is_refused() -> None:
    with pytest.raises(SubscribeRefused, match=r"subject mismatch.*filters bar.*requests foo"):
        plan(wanted(durable="d"), push(filter_subject="bar"))
    with pytest.raises(SubscribeRefused, match="subject mismatch"):
        plan(wanted(durable="d"), push(filter_subject="", filter_subjects=("foo", "bar")))


def test_a_consumer_without_filter_takes_any_subject() -> None:
    """The `FilterSubject` (if not empty) must match the subject."""
    assert isinstance(plan(wanted(durable="d"), push(filter_subject="")), Bind)
    assert isinstance(plan(wanted(subject="", stream="S", durable="d"), push()), Bind)


def test_several_filters_are_compared_as_a_set() -> None:
    config = ConsumerConfig(filter_subjects=("b", "a"))
    same = push(filter_subject="", filter_subjects=("a", "b"))

    assert isinstance(plan(wanted(subject="", durable="d", config=config), same), Bind)
    with pytest.raises(SubscribeRefused, match="has no filter"):
        plan(wanted(subject="", durable="d", config=config), push(filter_subject=""))


def test_pull_on_a_push_consumer_is_refused() -> None:
    with pytest.raises(SubscribeRefused, match=r"is a push consumer.*use js\.subscribe"):
        plan(wanted(durable="d", pull=True), push())


def test_push_on_a_pull_consumer_is_refused() -> None:
    with pytest.raises(SubscribeRefused, match="is a pull consumer"):
        plan(wanted(durable="d"), found())


@pytest.mark.parametrize(
    "config",
    [
        ConsumerConfig(max_deliver=3),
        ConsumerConfig(ack_wait=seconds(7)),
        ConsumerConfig(description="other"),
        ConsumerConfig(deliver_policy=DeliverPolicy.NEW),
        ConsumerConfig(idle_heartbeat=seconds(2)),
        ConsumerConfig(metadata={"a": "b"}),
        ConsumerConfig(ack_policy=AckPolicy.ALL),
    ],
    ids=lambda config: ",".join(msgspec.to_builtins(config)),
)
def test_another_configuration_is_refused(config: ConsumerConfig) -> None:
    with pytest.raises(SubscribeRefused, match="subscribing does not change it"):
        plan(wanted(durable="d", config=config), push())


def test_a_refused_configuration_is_shown_in_seconds() -> None:
    config = ConsumerConfig(ack_wait=seconds(7))

    with pytest.raises(SubscribeRefused, match=r"ack_wait is 30\.0, not 7\.0;"):
        plan(wanted(durable="d", config=config), push(ack_wait=seconds(30)))


def test_what_the_caller_left_out_is_not_compared() -> None:
    info = push(
        max_deliver=3,
        ack_wait=seconds(30),
        description="x",
        metadata={"_nats.ver": "2.15.1", "_jetspark.x": "1"},
    )

    assert isinstance(plan(wanted(durable="d"), info), Bind)


def test_equal_settings_are_no_difference() -> None:
    config = ConsumerConfig(max_deliver=3, metadata={"a": "b"})
    info = push(max_deliver=3, metadata={"a": "b", "_nats.level": "5"})

    assert isinstance(plan(wanted(durable="d", config=config), info), Bind)


def test_only_the_deliver_subject_can_be_changed() -> None:
    decided = plan(wanted(durable="d", config=ConsumerConfig(deliver_subject="new")), push())

    assert isinstance(decided, Change)
    assert decided.config == msgspec.structs.replace(push().config, deliver_subject="new")


def test_the_deliver_subject_of_a_bound_group_is_not_changed() -> None:
    config = ConsumerConfig(deliver_subject="new")
    with pytest.raises(SubscribeRefused, match="has subscribers"):
        plan(wanted(durable="d", queue="q", config=config), push(deliver_group="q", bound=True))


def test_flow_control_or_heartbeats_of_a_found_consumer_are_refused_for_queues() -> None:
    with pytest.raises(SubscribeRefused, match="flow_control, which queues do not support"):
        plan(wanted(durable="d", queue="q"), push(deliver_group="q", flow_control=True))
    with pytest.raises(SubscribeRefused, match="idle_heartbeat, which queues do not support"):
        plan(wanted(durable="d", queue="q"), push(deliver_group="q", idle_heartbeat=seconds(1)))


# Creating the JS consumer.


def test_the_new_consumer_gets_filter_ack_policy_and_group() -> None:
    config = new_config(wanted(queue="q", durable="d", config=ConsumerConfig(max_deliver=4)))

    assert config.filter_subject == "foo"
    assert config.ack_policy is AckPolicy.EXPLICIT
    assert config.deliver_group == "q"
    assert config.durable_name == "d"
    assert config.max_deliver == 4


def test_the_ack_policy_can_be_chosen() -> None:
    assert new_config(wanted(ack_policy=AckPolicy.NONE)).ack_policy is AckPolicy.NONE
    chosen = wanted(config=ConsumerConfig(ack_policy=AckPolicy.ALL))
    assert new_config(chosen).ack_policy is AckPolicy.ALL


def test_several_filters_stay_what_they_are() -> None:
    config = new_config(wanted(config=ConsumerConfig(filter_subjects=("foo", "bar"))))

    assert config.filter_subject == ""
    assert config.filter_subjects == ("foo", "bar")


def test_a_new_pull_consumer_has_no_deliver_subject() -> None:
    assert new_config(wanted(pull=True)).deliver_subject == ""
