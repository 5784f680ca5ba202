"""The options of the Spark formats, and the places that document and test them."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from jetspark.spark.connection_settings import CONNECTION_OPTIONS
from jetspark.spark.kv import options as kv_options
from jetspark.spark.objects import options as object_options
from jetspark.spark.option_reader import STREAMING_WRITE_OPTIONS, Use
from jetspark.spark.stream import option_names

# Spark's own, and a name that is refused with the reason (docs/spark.md, "Filters").
NOT_OURS: Final = {*STREAMING_WRITE_OPTIONS, "pushDown"}

# That an option is read from its text says nothing about its effect.
PARSERS: Final = frozenset({"test_options.py"})


class Format(NamedTuple):
    """A format, or a group of options, with the places that must name its options."""

    uses: Mapping[Use, tuple[str, ...]]
    sections: tuple[str, ...]
    """Headings of the page below which its tables are."""
    tests: tuple[str, ...]


def _own(uses: Mapping[Use, tuple[str, ...]]) -> dict[Use, tuple[str, ...]]:
    """Return the options of a format without those of connections, which have their own place."""
    return {
        use: tuple(name for name in names if name not in (*CONNECTION_OPTIONS, *NOT_OURS))
        for use, names in uses.items()
    }


FORMATS: Final = {
    "jetstream": Format(
        _own(option_names.OPTIONS),
        ("Write a stream", "Read a stream"),
        ("tests/spark/stream", "tests/unit/spark/stream"),
    ),
    "nats_kv": Format(
        _own(kv_options._OPTIONS),
        # The limits of a feed are those of a stream.
        ("Buckets", "Read a stream", "Write a stream"),
        ("tests/spark/kv", "tests/unit/spark/kv", "tests/spark/stream/test_unanswered_writes.py"),
    ),
    "nats_object": Format(
        _own(object_options._OPTIONS),
        ("Objects",),
        ("tests/spark/objects", "tests/unit/spark/objects"),
    ),
    "connections": Format(
        {Use.READ: tuple(CONNECTION_OPTIONS)},
        ("Connections",),
        ("tests/spark/session/test_connection_options.py",),
    ),
}
