"""The options of format ``nats_object``, checked all at once."""

from collections.abc import Mapping
from typing import Final

import msgspec

from jetspark.spark.connection_settings import CONNECTION_OPTIONS, Connection, parse_connection
from jetspark.spark.objects.glob import glob_pattern
from jetspark.spark.option_reader import (
    STREAMING_WRITE_OPTIONS,
    OptionReader,
    Use,
    positive,
    shortened,
    text_of,
    whole_number,
)
from jetspark.subjects.tokens import bucket_name_problem

OBJECT_FORMAT: Final = "nats_object"


class ObjectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a read or write of an object store."""

    connection: Connection
    bucket: str
    path_glob: str = ""
    """Only matching names; empty: all."""
    min_partitions: int = 1
    start: int = 0
    """Content from this byte on."""
    length: int | None = None
    """At most this many bytes of content; None: to the end."""
    split_bytes: int | None = None
    """The bytes of content per row; None: one row for the whole content."""


_COMMON: Final = (*CONNECTION_OPTIONS, "bucket")
_OPTIONS: Final[Mapping[Use, tuple[str, ...]]] = {
    Use.READ: (*_COMMON, "pathGlobFilter", "minPartitions", "start", "length", "splitBytes"),
    Use.WRITE: _COMMON,
    Use.WRITE_STREAM: (*_COMMON, *STREAMING_WRITE_OPTIONS),
}


def parse_object_options(
    options: Mapping[str, str], use: Use, *, default_min_partitions: int = 1
) -> ObjectOptions:
    """Parse the options, or raise ``InvalidOptions`` with all errors."""
    writing = use is not Use.READ
    reader = OptionReader(OBJECT_FORMAT, options, use, _OPTIONS)
    parsed = ObjectOptions(
        connection=parse_connection(reader),
        bucket=reader.take("bucket", _bucket, "", required=True),
        path_glob="" if writing else reader.take("pathGlobFilter", _glob, ""),
        min_partitions=1
        if writing
        else reader.take("minPartitions", positive, default_min_partitions),
        start=0 if writing else reader.take("start", _bytes, 0),
        length=None if writing else reader.take("length", _bytes, None),
        split_bytes=None if writing else reader.take("splitBytes", positive, None),
    )
    reader.finish()
    return parsed


def _glob(text: str) -> str:
    glob_pattern(text_of(text))  # raises if it is malformed
    return text


def _bytes(text: str) -> int:
    number = whole_number(text, 0, 2**63 - 1)
    if number is None:
        raise ValueError(f"{shortened(text)} is not a number of bytes, 0 or more")
    return number


def _bucket(text: str) -> str:
    problem = bucket_name_problem(text)
    if problem is not None:
        raise ValueError(f"{text!r} is not an object store name: {problem}")
    return text
