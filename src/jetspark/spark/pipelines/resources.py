"""The streams and buckets of a project: created if missing, filled with samples."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

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
from jetspark.errors import (
    ApiError,
    BadName,
    BucketExists,
    BucketNotFound,
    StreamExists,
    StreamNotFound,
)
from jetspark.spark.pipelines.project import (
    DURATIONS,
    RESOURCES_NAME,
    SAMPLES_FOLDER,
    PipelineRefused,
    Project,
)
from jetspark.spark.stream.sink.plan import takes
from jetspark.subjects.tokens import is_valid_literal
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
                there = jetstream.stream(config.name)
            except StreamNotFound:
                try:
                    jetstream.create_stream(from_wire(StreamConfig, config))
                except StreamExists:  # another run has just created it
                    there = jetstream.stream(config.name)
                else:
                    yield f"Made {what}."
                    continue
            found = to_wire(there.config)
            yield from _differences(what, config, found, project.resources.asked[what])


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
                # If another run has just created it, it is compared like any other.
                with suppress(BucketExists):
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


class PublishedSamples(NamedTuple):
    """The result of publishing the samples of a project."""

    lines: int
    known: int
    """How many of them the stream already has."""

    def __str__(self) -> str:
        """Return a line for the user."""
        if not self.known:
            return f"Published {self.lines} samples."
        return (
            f"Published {self.lines} samples, {self.known} of which were stored before and are "
            "not stored again."
        )


def publish_samples(jetstream: sync.JetStream, project: Project) -> PublishedSamples:
    """Publish the lines of ``samples/<STREAM>.ndjson``.

    The message id of a line is derived from its content: published again within the stream's
    duplicate window it is stored once, wherever it is in the file. Equal lines are distinguished
    by count.
    """
    files = sorted((project.root / SAMPLES_FOLDER).glob("*.ndjson"))
    if not files:
        raise PipelineRefused(f"no {SAMPLES_FOLDER}/*.ndjson in {project.root}")
    acks: list[sync.AckFuture] = []
    # Read everything before anything is published.
    for messages in [_samples(jetstream, path) for path in files]:
        acks += [
            jetstream.publish_async(subject, data, msg_id=msg_id)
            for msg_id, (subject, data) in messages.items()
        ]
    jetstream.publish_async_complete()
    return PublishedSamples(len(acks), sum(ack.result().duplicate for ack in acks))


def _samples(jetstream: sync.JetStream, path: Path) -> dict[str, tuple[str, bytes]]:
    """Return subject and payload of each line of a file, by message id."""
    try:
        subjects = jetstream.stream(path.stem).config.subjects
    except (StreamNotFound, BadName) as error:
        raise PipelineRefused(
            f"{SAMPLES_FOLDER}/{path.name} is named after a stream: {error}"
        ) from None
    messages: dict[str, tuple[str, bytes]] = {}
    seen: Counter[bytes] = Counter()
    # Text in JSON may have the characters at which `splitlines` ends a line, too.
    text = path.read_text(encoding="utf-8")
    lines = text.removesuffix("\n").split("\n") if text else []
    for number, line in enumerate(lines, start=1):
        try:
            sample = json.loads(line)
            subject, data = sample["subject"], sample["data"]
        except (ValueError, KeyError, TypeError):
            raise PipelineRefused(
                f'{path.name}:{number} is not {{"subject": ..., "data": ...}}'
            ) from None
        if not _is_subject_of(subjects, subject):
            raise PipelineRefused(
                f"{path.name}:{number}: stream {path.stem} does not store the subject "
                f"{json.dumps(subject)} (it has {', '.join(subjects)})"
            )
        # Other values than strings are JSON in the line, and stay JSON.
        payload = (data if isinstance(data, str) else json.dumps(data)).encode()
        digest = sha256(f"{subject}\n".encode() + payload).digest()
        seen[digest] += 1
        messages[f"sample-{digest[:16].hex()}-{seen[digest]}"] = subject, payload
    return messages


def _is_subject_of(stream_subjects: tuple[str, ...], subject: object) -> bool:
    return (
        isinstance(subject, str)
        and is_valid_literal(subject.encode())
        and takes(stream_subjects, subject)
    )
