"""The streams and buckets of a project: made where they are missing, filled with samples."""

import json

from jetspark import sync
from jetspark.errors import BucketNotFound, StreamNotFound
from jetspark.spark.pipelines.project import SAMPLES_FOLDER, PipelineRefused, Project


def ensure_resources(jetstream: sync.JetStream, project: Project) -> list[str]:
    """Make the streams and buckets that are missing; return their names."""
    made: list[str] = []
    for config in project.resources.streams:
        try:
            jetstream.stream(config.name)
        except StreamNotFound:
            jetstream.create_stream(config)
            made.append(f"stream {config.name}")
    for bucket in project.resources.buckets:
        try:
            jetstream.key_value(bucket.bucket)
        except BucketNotFound:
            jetstream.create_key_value(bucket)
            made.append(f"bucket {bucket.bucket}")
    return made


def publish_samples(jetstream: sync.JetStream, project: Project) -> int:
    """Publish the lines of ``samples/<STREAM>.ndjson``; return how many there are.

    A line has its number as message id: published again within the stream's duplicate window it
    is stored once.
    """
    files = sorted((project.root / SAMPLES_FOLDER).glob("*.ndjson"))
    if not files:
        raise PipelineRefused(f"there is no {SAMPLES_FOLDER}/*.ndjson in {project.root}")
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
                    f'{path.name}:{number} is no {{"subject": ..., "data": ...}}'
                ) from None
        for at, (subject, payload) in enumerate(zip(subjects, payloads, strict=True)):
            jetstream.publish_async(subject, payload, msg_id=f"sample-{stream.name}-{at}")
        jetstream.publish_async_complete()
        count += len(subjects)
    return count
