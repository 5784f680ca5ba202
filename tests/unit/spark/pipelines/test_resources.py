"""Streams and buckets that a project asks for (docs/pipelines.md, "Project layout")."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("yaml")

from jetspark import StreamConfig, sync
from jetspark.client.jetstream.kv.config import KeyValueConfig
from jetspark.errors import BucketNotFound, StreamNotFound
from jetspark.spark.pipelines.project import PipelineRefused, Project, load_resources
from jetspark.spark.pipelines.resources import ensure_resources, publish_samples

ASKED = """
streams:
  ORDERS:
    subjects: [orders.>, more]
    max_age: 1h
    duplicate_window: 2m
    max_msgs: 0
    allow_direct: true
    metadata: {team: shop}
buckets:
  TOTALS: {history: 10, ttl: 1h, description: totals}
  COPY: {mirror: {name: TOTALS}}
"""


@pytest.fixture(scope="module")
def jetstream() -> Iterator[sync.JetStream]:
    with sync.Server() as server, sync.connect(server.client_url) as client:
        yield client.jetstream()


def asking(folder: Path, text: str) -> Project:
    path = folder / "jetspark.yml"
    path.write_text(text)
    place = folder / "s.yml"
    return Project(
        root=folder, spec=place, name="p", storage=folder, resources=load_resources(path)
    )


def test_what_is_missing_is_made_and_then_is_as_it_should_be(
    tmp_path: Path, jetstream: sync.JetStream
) -> None:
    project = asking(tmp_path, ASKED)

    made = ensure_resources(jetstream, project)

    assert made == ["Made stream ORDERS.", "Made bucket TOTALS.", "Made bucket COPY."]
    assert ensure_resources(jetstream, project) == []


def test_what_another_run_makes_at_the_same_time_is_left_alone(
    tmp_path: Path, jetstream: sync.JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was looked up before, and refused when it was to be made."""
    config = StreamConfig(name="RACE", subjects=("race.>",), max_msgs=5)
    by_the_other: dict[str, Callable[[], object]] = {
        "RACE": lambda: jetstream.create_stream(config),
        "SLOW": lambda: jetstream.create_key_value(KeyValueConfig(bucket="SLOW", history=3)),
    }

    def missing_at_first(
        find: Callable[[sync.JetStream, str], object],
    ) -> Callable[[sync.JetStream, str], object]:
        def look(self: sync.JetStream, name: str) -> object:
            try:
                return find(self, name)
            except (StreamNotFound, BucketNotFound):
                by_the_other.pop(name)()
                raise

        return look

    for name in ("stream", "key_value"):
        find = getattr(sync.JetStream, name)
        monkeypatch.setattr(sync.JetStream, name, missing_at_first(find))
    project = asking(
        tmp_path, "streams: {RACE: {subjects: [race.>]}}\nbuckets: {SLOW: {history: 9}}\n"
    )

    (said,) = ensure_resources(jetstream, project)

    assert said.startswith("The bucket SLOW exists and differs from jetspark.yml: history is 3")


def test_what_differs_is_said_and_left_alone(tmp_path: Path, jetstream: sync.JetStream) -> None:
    there = StreamConfig(name="OTHER", subjects=("a", "b"), max_age=7200, max_msgs=5)
    jetstream.create_stream(there)
    jetstream.create_key_value(KeyValueConfig(bucket="OLD", history=3))
    project = asking(
        tmp_path,
        "streams: {OTHER: {subjects: [b, c], max_age: 1h, storage: file}}\n"
        "buckets: {OLD: {history: 10}}",
    )

    said = ensure_resources(jetstream, project)

    where = "exists and differs from jetspark.yml"
    assert said == [
        (
            f'The stream OTHER {where}: subjects is ["a", "b"], requested ["b", "c"]; '
            "max_age is 2h0m0s, requested 1h0m0s. It was not changed."
        ),
        f"The bucket OLD {where}: history is 3, requested 10. It was not changed.",
    ]
    assert jetstream.stream("OTHER").cached_info.config.subjects == ("a", "b")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("streams: {TAKEN: {subjects: [x.*]}}", "stream TAKEN cannot be created: .*overlap"),
        ("streams: {a b: {}}", "stream a b cannot be created"),
        ("streams: {MANY: {num_replicas: 3}}", "stream MANY cannot be created: .*replicas"),
        ("buckets: {B: {history: 100}}", "bucket B cannot be created: history=100"),
    ],
)
def test_what_the_server_refuses_is_named(
    tmp_path: Path, jetstream: sync.JetStream, asked: str, said: str
) -> None:
    jetstream.create_or_update_stream(StreamConfig(name="X", subjects=("x.>",)))

    with pytest.raises(PipelineRefused, match=rf"jetspark\.yml: {said}") as refused:
        ensure_resources(jetstream, asking(tmp_path, asked))

    assert "\n" not in str(refused.value)


@pytest.fixture
def sampled_stream(jetstream: sync.JetStream) -> Iterator[sync.Stream]:
    yield jetstream.create_stream(StreamConfig(name="S", subjects=("s.>",)))
    jetstream.delete_stream("S")


def sampled(folder: Path, jetstream: sync.JetStream, *lines: str) -> str:
    """Publish lines as the samples of stream S; what is said of it."""
    (folder / "samples").mkdir(exist_ok=True)
    (folder / "samples/S.ndjson").write_text("\n".join(lines))
    return str(publish_samples(jetstream, asking(folder, "streams: {}")))


def test_samples_are_stored_once_also_when_lines_are_added_before_and_between(
    tmp_path: Path, jetstream: sync.JetStream, sampled_stream: sync.Stream
) -> None:
    one, two, new = (f'{{"subject": "s.x", "data": "{text}"}}' for text in ("one", "two", "new"))
    said = [sampled(tmp_path, jetstream, one, two, one)]
    said += [sampled(tmp_path, jetstream, new, one, one, two, one)]

    assert said == [
        "Published 3 samples.",
        "Published 5 samples, 3 of which were stored before and are not stored again.",
    ]
    stored = [message.data for message in sampled_stream.get_batch(seq=1)]
    assert stored == [b"one", b"two", b"one", b"new", b"one"]


def test_only_a_newline_ends_a_sample(
    tmp_path: Path, jetstream: sync.JetStream, sampled_stream: sync.Stream
) -> None:
    text = "one\u2028two\u0085"

    said = sampled(
        tmp_path,
        jetstream,
        f'{{"subject": "s.x", "data": "{text}"}}',
        '{"subject": "s.x", "data": "3"}\n',
    )

    assert said == "Published 2 samples."
    assert [one.data for one in sampled_stream.get_batch(seq=1)] == [text.encode(), b"3"]


def test_a_sample_whose_data_is_no_text_is_published_as_json(
    tmp_path: Path, jetstream: sync.JetStream, sampled_stream: sync.Stream
) -> None:
    sampled(tmp_path, jetstream, '{"subject": "s.x", "data": {"id": 1, "ok": true, "no": null}}')

    (stored,) = sampled_stream.get_batch(seq=1)
    assert stored.data == b'{"id": 1, "ok": true, "no": null}'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"subject": "x.y", "data": ""}', r"S\.ndjson:2: stream S does not store .*\"x\.y\""),
        ('{"subject": "s.*", "data": ""}', r"S\.ndjson:2: stream S does not store .*\"s\.\*\""),
        ('{"subject": 5, "data": ""}', r"S\.ndjson:2: stream S does not store the subject 5"),
        ('["s.x", ""]', r"S\.ndjson:2 is not "),
        ("", r"S\.ndjson:2 is not "),
    ],
)
def test_a_sample_that_cannot_be_published_is_named_and_none_is(
    tmp_path: Path,
    jetstream: sync.JetStream,
    sampled_stream: sync.Stream,
    line: str,
    said: str,
) -> None:
    right = '{"subject": "s.x", "data": ""}'

    with pytest.raises(PipelineRefused, match=said):
        sampled(tmp_path, jetstream, right, line, right)

    assert sampled_stream.info().state.last_seq == 0


def test_a_file_of_samples_without_a_stream_is_named(
    tmp_path: Path, jetstream: sync.JetStream
) -> None:
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples/NONE.ndjson").write_text('{"subject": "s.x", "data": ""}')

    with pytest.raises(PipelineRefused, match=r"samples/NONE\.ndjson is named after a stream: .*"):
        publish_samples(jetstream, asking(tmp_path, "streams: {}"))
