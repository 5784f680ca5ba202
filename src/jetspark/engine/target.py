"""Targets: what the engine does with a subject, resolved once and cached in the routes."""

from typing import Final

from mypy_extensions import i64

from jetspark.engine.stream.stream import Stream

PUBLISH: Final[i64] = 1  # a message for a stream
DIRECT_GET: Final[i64] = 2  # `$JS.API.DIRECT.GET.<stream>[.<subject>]`
REQUEST: Final[i64] = 3  # any other `$JS.API` request
TRANSFER: Final[i64] = 4  # a chunk of a restore, or the acknowledgement of one of a snapshot
NEXT: Final[i64] = 5  # `$JS.API.CONSUMER.MSG.NEXT.<stream>.<consumer>`, if it exists


class Target:
    """The engine's interest in one subject."""

    def __init__(self, kind: i64, stream: Stream | None, subject: bytes) -> None:
        self.kind: i64 = kind
        self.stream: Stream | None = stream
        # DIRECT_GET: the subject appended to the stream's name. REQUEST: what follows `$JS.API.`.
        # NEXT: `<stream>.<consumer>`.
        self.subject: bytes = subject
        # PUBLISH: for the server, to cache the result of subjects that only the stream stores.
        self.shared: object = None

    def share(self, result: object) -> None:
        """Keep the result of the subjects that only the stream stores."""
        self.shared = result

    def clear(self) -> None:
        """Drop the stream, which was deleted: cached routes must not keep it alive."""
        self.stream = None
        self.shared = None
