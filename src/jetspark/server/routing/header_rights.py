"""What the headers of a message make a stream do on other subjects, and whether its publisher may.

A schedule publishes to its target, reads its source and may end another schedule; a rollup of a
whole stream removes its messages. nats-server asks for the permission to publish the message and
for no other, so that who may publish to one subject of such a stream writes, reads and removes all
of them. Here the publisher needs, for the same connection, what it would need to do it itself.
"""

from typing import Final

from mypy_extensions import i64

from jetspark.engine.stream.headers import PublishHeaders
from jetspark.engine.stream.stream import Stream
from jetspark.headers.names import ROLLUP, SCHEDULE
from jetspark.server.auth.permissions import Rules

# A stream whose name is not known: of the leader of a replica.
ANY_STREAM: Final = b"*"
# A stream with more subjects than this can be rolled up by who may purge it, and by no one else.
SUBJECTS_MAX: Final = 32
# A header may be as long as a message, and verdicts about subjects are cached: no subject of a
# control line is longer.
SUBJECT_MAX: Final = 4096

_ALL: Final = b"all"


class HeaderDenial:
    """A permission that the publisher does not have."""

    def __init__(self, subject: bytes, reads: bool) -> None:
        self.subject: bytes = subject
        # To subscribe to the subject; otherwise, to publish to it.
        self.reads: bool = reads


def reach_further(block: bytes) -> bool:
    """Return whether headers may concern other subjects; most do not."""
    return block.find(SCHEDULE) >= 0 or block.find(ROLLUP) >= 0


def denied_by_headers(block: bytes, stream: Stream | None, rules: Rules) -> HeaderDenial | None:
    """Return what the headers of a message ask for and ``rules`` do not permit, if anything.

    Without a stream it is the leader's, whichever that is.
    """
    schedules = stream is None or stream.rules.allow_schedules
    if not schedules and stream is not None and not stream.rules.allow_rollup:
        return None
    name = ANY_STREAM if stream is None else stream.rules.name
    headers = PublishHeaders()
    headers.read(block)
    if schedules:
        # To end a schedule is to remove the message on its subject.
        for written in (headers.schedule_target, headers.scheduler):
            if written and (len(written) > SUBJECT_MAX or not rules.publishes(written)):
                return HeaderDenial(written, False)
        source = headers.schedule_source
        if source and (len(source) > SUBJECT_MAX or not _reads(name, source, rules)):
            return HeaderDenial(source, True)
    if headers.rollup.lower() == _ALL:
        purge = b"$JS.API.STREAM.PURGE.%b" % name
        if not rules.publishes(purge) and not _publishes_all(stream, rules):
            return HeaderDenial(purge, False)
    return None


def _reads(stream: bytes, subject: bytes, rules: Rules) -> bool:
    """Return whether a subject may be read: by a subscription, or by a request."""
    return rules.subscribes(subject, b"") or rules.publishes(
        b"$JS.API.DIRECT.GET.%b.%b" % (stream, subject)
    )


def _publishes_all(stream: Stream | None, rules: Rules) -> bool:
    """Return whether every subject of a stream is permitted: each can be rolled up alone."""
    if stream is None:
        return False
    subjects = stream.config.subjects
    count: i64 = len(subjects)
    if count == 0 or count > SUBJECTS_MAX:
        return False
    return all(rules.publishes_all(subject.encode()) for subject in subjects)
