"""The streams and buckets of a project: created if missing, filled with samples."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from jetspark import sync
from jetspark.client.jetstream.kv.config import (
    TTL_LEVEL,
    KeyValueConfig,
    from_stream_config,
    stream_name,
    to_stream_config,
)
from jetspark.client.models.base import from_wire, to_wire
from jetspark.client.models.stream import StreamConfig
from jetspark.errors import ApiError, BadName, BucketNotFound, StreamNotFound
from jetspark.spark.pipelines.project import (
    DURATIONS,
    RESOURCES_NAME,
    SAMPLES_FOLDER,
    PipelineRefused,
    Project,
)
from jetspark.units import format_duration


def ensure_resources(jetstream: sync.JetStream, project: Project) -> list[str]:
    """Create missing streams and buckets; return what was done, and differences.

    Existing ones are not changed: their owner may have had reasons, and they may have other users.
    Differences from the project are reported, though.
    """
    return [*_ensure_streams(jetstream, project), *_ensure_buckets(jetstream, project)]


def _ensure_streams(jetstream: sync.JetStream, project: Project) -> Iterator[str]:
    for config in project.resources.streams:
        what = f"stream {config.name}"
        with _named(what):
            try:
                there = to_wire(jetstream.stream(config.name).config)
            except StreamNotFound:
                jetstream.create_stream(from_wire(StreamConfig, config))
                yield f"Made {what}."
            else:
                yield from _differences(what, config, there, project.resources.asked[what])


def _ensure_buckets(jetstream: sync.JetStream, project: Project) -> Iterator[str]:
    for config in project.resources.buckets:
        what = f"bucket {config.bucket}"
        with _named(what):
            # Converted there and back, so that both are in the server's form.
            asked = from_wire(KeyValueConfig, config)
            wanted = from_stream_config(to_stream_config(asked, TTL_LEVEL))
            try:
                jetstream.key_value(config.bucket)
            except BucketNotFound:
                jetstream.create_key_value(asked)
                yield f"Made {what}."
                continue
            there = to_wire(jetstream.stream(stream_name(config.bucket)).config)
            yield from _differences(
                what,
                to_wire(wanted),
                to_wire(from_stream_config(there)),
                project.resources.asked[what],
            )


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Add to an error which stream or bucket it is about; the server does not."""
    try:
        yield
    except (ApiError, BadName, ValueError) as error:
        raise PipelineRefused(f"{RESOURCES_NAME}: {what} cannot be created: {error}") from error


def _differences(
    what: str, wanted: msgspec.Struct, there: msgspec.Struct, asked: tuple[str, ...]
) -> Iterator[str]:
    """Yield a line if ``there`` differs from what was requested."""
    found = [
        f"{name} is {_shown(name, is_now)}, requested {_shown(name, wish)}"
        for name in asked
        if (wish := _plain(name, wanted)) != (is_now := _plain(name, there))
    ]
    if found:
        yield (
            f"The {what} exists and differs from {RESOURCES_NAME}: {'; '.join(found)}. "
            "It was not changed."
        )


def _plain(name: str, config: msgspec.Struct) -> Any:
    """Return a setting without the server's additions and different notations."""
    value = msgspec.to_builtins(getattr(config, name))
    if name == "metadata":
        return {key: text for key, text in value.items() if not key.startswith("_")}
    if name == "subjects":
        return sorted(value)
    if name.startswith("max_") and name not in DURATIONS and value <= 0:
        return -1
    return value


def _shown(name: str, value: Any) -> str:
    if name in DURATIONS:
        return format_duration(value)
    return json.dumps(value)


def publish_samples(jetstream: sync.JetStream, project: Project) -> int:
    """Publish the lines of ``samples/<STREAM>.ndjson``; return their number.

    The message id is the line number: published again within the stream's duplicate window, a line
    is stored once.
    """
    files = sorted((project.root / SAMPLES_FOLDER).glob("*.ndjson"))
    if not files:
        raise PipelineRefused(f"no {SAMPLES_FOLDER}/*.ndjson in {project.root}")
    count = 0
    for path in files:
        stream = jetstream.stream(path.stem)
        subjects: list[str] = []
        payloads: list[bytes] = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                sample = json.loads(line)
                subjects.append(str(sample["subject"]))
                payloads.append(str(sample["data"]).encode())
            except (ValueError, KeyError, TypeError):
                raise PipelineRefused(
                    f'{path.name}:{number} is not {{"subject": ..., "data": ...}}'
                ) from None
        for at, (subject, payload) in enumerate(zip(subjects, payloads, strict=True)):
            jetstream.publish_async(subject, payload, msg_id=f"sample-{stream.name}-{at}")
        jetstream.publish_async_complete()
        count += len(subjects)
    return count
