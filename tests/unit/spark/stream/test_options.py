"""Options of a batch read: typed, checked all at once, none ignored."""

import pickle

import pytest

from jetspark.spark.connection_settings import Connection
from jetspark.spark.option_reader import InvalidOptions
from jetspark.spark.stream.options import (
    MIN_PARTITIONS_VARIABLE,
    HeaderMode,
    SourceOptions,
    TriggerLimits,
    default_min_partitions,
    parse_source_options,
)

NEEDED = {"servers": "nats://localhost:4222", "stream": "ORDERS"}


def test_defaults_are_those_of_the_table() -> None:
    options = parse_source_options(NEEDED)

    assert options == SourceOptions(
        connection=Connection(servers=("nats://localhost:4222",)),
        stream="ORDERS",
        starting_seq=None,
        ending_seq=None,
        min_partitions=1,
        max_records_per_partition=250_000,
        fail_on_data_loss=True,
        headers=HeaderMode.NONE,
        batch_size=5_000,
        max_batch_bytes=8 * 1024 * 1024,
    )


def test_every_option_is_read_whatever_its_case() -> None:
    options = parse_source_options(
        {
            "SERVERS": "nats://a:1, nats://b:2",
            "stream": "ORDERS",
            "NATS.User": "ann",
            "nats.password": "secret",
            "nats.name": "nightly",
            "subject": "orders.*.new",
            "startingoffsets": "10",
            "endingOffsets": "20",
            "minPartitions": "4",
            "maxRecordsPerPartition": "1000",
            "failOnDataLoss": "False",
            "includeHeaders": "MAP",
            "batchSize": "100",
            "maxBatchBytes": "65536",
        }
    )

    assert options == SourceOptions(
        connection=Connection(
            servers=("nats://a:1", "nats://b:2"), name="nightly", user="ann", password="secret"
        ),
        stream="ORDERS",
        subjects=("orders.*.new",),
        starting_seq=10,
        ending_seq=20,
        min_partitions=4,
        max_records_per_partition=1000,
        fail_on_data_loss=False,
        headers=HeaderMode.MAP,
        batch_size=100,
        max_batch_bytes=65536,
    )


def test_words_for_the_ends() -> None:
    options = parse_source_options(
        {**NEEDED, "startingOffsets": "Earliest", "endingOffsets": "latest"}
    )

    assert (options.starting_seq, options.ending_seq) == (None, None)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("servers", "", "servers cannot be used: no server given"),
        ("servers", "http://h:80", "servers cannot be used: .*scheme 'http'"),
        ("servers", "nats://ann:secret@h:99999", "servers cannot be used: .*port"),
        ("stream", "a.b", "stream 'a.b' is not a stream name"),
        ("subject", "a..b", "subject 'a..b' is not a subject"),
        ("subject", "a.*,b,a.c", "subject 'a.\\*' and 'a.c' overlap"),
        ("nats.token", "", "nats.token is empty"),
        ("nats.user", "ann", "nats.user and nats.password must be given together"),
        ("startingOffsets", "latest", "startingOffsets 'latest' would read nothing"),
        ("startingOffsets", "0", "startingOffsets '0' is neither earliest nor a sequence"),
        ("startingOffsets", "1e3", "startingOffsets '1e3' is neither"),
        ("startingOffsets", "٣", "startingOffsets '٣' is neither"),
        ("startingOffsets", '{"A":1}', "startingOffsets .* must have the form"),
        ("endingOffsets", "earliest", "endingOffsets 'earliest' would read nothing"),
        ("endingOffsets", str(2**63), "endingOffsets '9223372036854775808' is neither latest"),
        (
            "endingOffsets",
            "committed:q",
            "endingOffsets committed:<queryId> requires ledgerBucket",
        ),
        ("endingOffsets", "committed:", "endingOffsets 'committed:' does not name a query"),
        ("minPartitions", "0", "minPartitions '0' is not a whole number"),
        ("maxRecordsPerPartition", "-1", "maxRecordsPerPartition '-1' is not a whole number"),
        ("failOnDataLoss", "yes", "failOnDataLoss 'yes' is not a boolean: expected true or false"),
        ("includeHeaders", "true", "includeHeaders 'true' is not one of false, map, raw"),
        ("batchSize", "many", "batchSize 'many' is not a whole number"),
        ("maxBatchBytes", "8MB", "maxBatchBytes '8MB' is not a whole number"),
        ("path", "ORDERS", r"load\(\) does not support a path"),
        ("minPartition", "4", "unknown option 'minpartition': did you mean minPartitions"),
        ("rabbit.topic", "x", r"unknown option 'rabbit.topic' \(expected one of servers, "),
        ("readMode", "quick", "readMode 'quick' is not one of auto, direct, consumer"),
        ("STARTINGTIMESTAMP", "noon", "startingTimestamp 'noon' is not a time like"),
        ("maxOffsetsPerTrigger", "9", "maxOffsetsPerTrigger is for readStream"),
    ],
)
def test_a_mistake_is_named(name: str, value: str, text: str) -> None:
    with pytest.raises(InvalidOptions, match=f"^format 'jetstream': {text}"):
        parse_source_options({**NEEDED, name: value})


def test_all_mistakes_are_in_one_error() -> None:
    with pytest.raises(InvalidOptions) as caught:
        parse_source_options({"batchSize": "x", "strem": "ORDERS", "failOnDataLoss": "?"})

    text = str(caught.value)
    assert "5 options are invalid" in text
    for part in (
        "servers is missing",
        "stream is missing",
        "batchSize 'x'",
        "failOnDataLoss '?'",
        "unknown option 'strem': did you mean stream?",
    ):
        assert part in text


def test_a_start_after_the_end_is_refused() -> None:
    with pytest.raises(InvalidOptions, match="startingOffsets 9 is after endingOffsets 8"):
        parse_source_options({**NEEDED, "startingOffsets": "9", "endingOffsets": "8"})


def test_several_filters_and_times_by_two_spellings() -> None:
    options = parse_source_options(
        {
            **NEEDED,
            "subject": "a.*, b.>",
            "startingTimestamp": "2026-11-15T12:00:00Z",
            "endingTimestamp": "1794744000500",
        }
    )

    assert options.subjects == ("a.*", "b.>")
    assert options.starting_time_ns == 1_794_744_000_000_000_000
    assert options.ending_time_ns == 1_794_744_000_500_000_000


def test_a_subject_alone_will_do() -> None:
    """The stream is then looked up."""
    options = parse_source_options({"servers": "nats://h", "subject": "a.>"})

    assert (options.stream, options.subjects) == ("", ("a.>",))


def test_offsets_as_json_name_the_stream() -> None:
    given = {
        **NEEDED,
        "startingOffsets": '{"ORDERS": 17}',
        "endingOffsets": '{"ORDERS": "latest"}',
    }

    options = parse_source_options(given)

    assert (options.starting_seq, options.ending_seq) == (17, None)


@pytest.mark.parametrize("text", ['{"OTHER": 1}', '{"ORDERS": [1]}', "{", '{"ORDERS": 1, "B": 2}'])
def test_offsets_as_json_of_something_else_are_refused(text: str) -> None:
    with pytest.raises(InvalidOptions, match="startingOffsets"):
        parse_source_options({**NEEDED, "startingOffsets": text})


def test_a_streaming_read_begins_with_the_next_message_and_takes_all_there_is() -> None:
    options = parse_source_options(NEEDED, streaming=True)

    assert options.from_latest
    assert options.starting_seq is None
    assert options.trigger == TriggerLimits()


def test_the_limits_of_a_trigger() -> None:
    options = parse_source_options(
        {
            **NEEDED,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "1000",
            "maxBytesPerTrigger": "1048576",
            "minOffsetsPerTrigger": "10",
            "maxTriggerDelay": "1m30s",
        },
        streaming=True,
    )

    assert not options.from_latest
    assert options.trigger == TriggerLimits(
        max_offsets=1000, max_bytes=1048576, min_offsets=10, max_delay_s=90.0
    )


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        (
            "endingOffsets",
            "9",
            "endingOffsets is for read, not for readStream: a stream has no end",
        ),
        ("maxOffsetsPerTrigger", "0", "maxOffsetsPerTrigger '0' is not a whole number"),
        ("maxTriggerDelay", "soon", "maxTriggerDelay 'soon' is not a duration"),
        ("maxTriggerDelay", "-1s", "maxTriggerDelay '-1s' is negative"),
    ],
)
def test_a_mistake_in_a_streaming_read_is_named(name: str, value: str, text: str) -> None:
    with pytest.raises(InvalidOptions, match=f"^format 'jetstream': {text}"):
        parse_source_options({**NEEDED, name: value}, streaming=True)


def test_at_least_and_at_most_must_fit() -> None:
    given = {**NEEDED, "minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "9"}

    with pytest.raises(InvalidOptions, match="minOffsetsPerTrigger 10 is more than"):
        parse_source_options(given, streaming=True)


def test_a_token_and_a_user_exclude_each_other() -> None:
    given = {**NEEDED, "nats.token": "t", "nats.user": "u", "nats.password": "p"}

    with pytest.raises(InvalidOptions, match="mutually exclusive"):
        parse_source_options(given)


def test_secrets_do_not_show() -> None:
    """Options travel to every executor and into its logs."""
    options = parse_source_options(
        {
            **NEEDED,
            "servers": "nats://ann:hidden@h:4222",
            "nats.user": "bob",
            "nats.password": "hidden",
        }
    )

    assert "hidden" not in repr(options)
    assert "h:4222" in repr(options)


def test_options_travel_to_the_tasks() -> None:
    options = parse_source_options({**NEEDED, "includeHeaders": "raw"})

    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(("text", "count"), [("8", 8), ("0", 1), ("x", 1), ("-3", 1)])
def test_the_driver_leaves_the_default_of_min_partitions(text: str, count: int) -> None:
    """The planner worker cannot know the core count."""
    assert default_min_partitions({MIN_PARTITIONS_VARIABLE: text}) == count


def test_the_left_default_is_used_only_when_nothing_was_asked_for() -> None:
    given = {**NEEDED, "minPartitions": "3"}

    assert parse_source_options(NEEDED, default_min_partitions=8).min_partitions == 8
    assert parse_source_options(given, default_min_partitions=8).min_partitions == 3


SEVERAL = {"servers": "nats://127.0.0.1:4222", "streams": "A, B"}


def test_several_streams_have_their_own_starts_and_ends() -> None:
    options = parse_source_options(
        {
            **SEVERAL,
            "startingOffsets": '{"A": 17, "B": "earliest"}',
            "endingOffsetsByTimestamp": '{"A": "2026-11-15T12:00:00Z", "B": 1794744000500}',
            "minLastSeq": '{"A": 5, "B": 6}',
        }
    )

    assert options.streams == ("A", "B")
    first, second = options.for_stream("A"), options.for_stream("B")
    assert (first.stream, first.streams, first.starting_seq) == ("A", (), 17)
    assert (second.stream, second.starting_seq, second.min_last_seq) == ("B", None, 6)
    assert (first.ending_time_ns, second.ending_time_ns) == (
        1794744000_000_000_000,
        1794744000_500_000_000,
    )


def test_a_pattern_has_starts_for_some_streams_and_the_default_for_others() -> None:
    options = parse_source_options(
        {
            "servers": "nats://127.0.0.1:4222",
            "streamPattern": "ORDERS_.*",
            "startingOffsetsByTimestamp": '{"ORDERS_EU": "2026-11-15T12:00:00Z"}',
            "progressConsumer": "spark",
        },
        streaming=True,
    )

    assert options.for_stream("ORDERS_EU").starting_time_ns == 1794744000_000_000_000
    assert not options.for_stream("ORDERS_EU").from_latest
    assert options.for_stream("ORDERS_US").from_latest
    assert options.progress_consumer == "spark"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"stream": "A"}, "stream and streams are mutually exclusive: give one of them"),
        ({"streamPattern": "A.*"}, "streams and streamPattern are mutually exclusive"),
        ({"streams": "A,B,A"}, "streams names A twice: messages would be duplicated"),
        ({"streams": "A,"}, "streams '' is not a stream name"),
        ({"startingOffsets": "17"}, 'use {"A": 17, "B": 17}'),
        ({"startingOffsets": '{"A": 17}'}, "it has no value for B"),
        ({"endingOffsets": '{"A": 1, "B": 2, "C": 3}'}, "names C, which the query does not read"),
        ({"endingOffsets": '{"A": "open", "B": 2}'}, "open must apply to every stream or to none"),
        (
            {"startingOffsets": '{"A": 9, "B": 1}', "endingOffsets": '{"A": 8, "B": 1}'},
            "9 is after",
        ),
        ({"startingOffsetsByTimestamp": "2026-11-15"}, "for all streams use startingTimestamp"),
        (
            {"startingTimestamp": "1", "startingOffsetsByTimestamp": '{"A": 1, "B": 1}'},
            "startingTimestamp and startingOffsetsByTimestamp are mutually exclusive",
        ),
        ({"minLastSeq": "7"}, 'use {"A": 17, "B": 17}'),
        ({"subscribe": "A"}, "'subscribe' is an option of Spark's Kafka source: use streams"),
        ({"kafka.security.protocol": "x"}, "a setting of Kafka's client"),
        ({"progressConsumer": "spark"}, "progressConsumer is for readStream, not for read"),
    ],
)
def test_a_mistake_about_several_streams_is_named(given: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidOptions) as caught:
        parse_source_options({**SEVERAL, **given})
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"streamPattern": "A("}, "streamPattern 'A(' is not a regular expression"),
        ({"streamPattern": "A.*", "startingOffsets": '{"B": 1}'}, "streamPattern does not match"),
        ({"subject": "a", "startingOffsets": '{"A": 1}'}, "requires the option stream or streams"),
        ({"stream": "A", "progressConsumer": "a.b"}, "'a.b' is not a name of a consumer"),
        (
            {"stream": "A", "progressConsumer": "x", "onCommit": "ack:x"},
            "progressConsumer and onCommit name the same consumer",
        ),
    ],
)
def test_a_mistake_of_a_streaming_read_is_named(given: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidOptions) as caught:
        parse_source_options({"servers": "nats://127.0.0.1:4222", **given}, streaming=True)
    assert text in str(caught.value)
