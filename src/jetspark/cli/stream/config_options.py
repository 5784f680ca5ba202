"""The options that set the configuration of a stream: natscli's names.

`stream add`, `edit` and `copy` share them. An option that is not given changes nothing.
"""

from collections.abc import Callable
from typing import Any, Final

import click

from jetspark.cli.quantities import (
    COUNT,
    DURATION,
    LIMIT,
    LIMIT_DURATION,
    METADATA,
    REPLICAS,
    SIZE,
)

_Declared = Callable[[], None]
_STORAGE: Final = click.Choice(("file", "f", "memory", "m"))
_RETENTION: Final = click.Choice(("limits", "interest", "work", "workq", "workqueue"))

_BOTH: Final = (
    click.option(
        "--subjects", "--subject", multiple=True,
        help="Subjects to store; separated by commas, or repeated.",
    ),
    click.option("--description", help="What the stream is for."),
    click.option("--compression", type=click.Choice(("none", "s2")), help="Compression on disk."),
    click.option("--replicas", type=REPLICAS, help="Copies in a cluster."),
    click.option("--tag", "tags", multiple=True, help="Place it on servers with this tag."),
    click.option("--cluster", help="Place it in this cluster."),
    click.option("--ack/--no-ack", default=None, help="Acknowledge publishes."),
    click.option(
        "--retention", type=_RETENTION,
        help="Remove messages by limits, without interest, or once consumed (work).",
    ),
    click.option(
        "--discard", type=click.Choice(("old", "new")),
        help="A full stream removes the oldest messages, or refuses new ones.",
    ),
    click.option(
        "--discard-per-subject/--no-discard-per-subject", default=None,
        help="Refuse new messages of a subject that has its maximum.",
    ),
    click.option("--max-age", type=LIMIT_DURATION, help="Maximum age of messages: 7d, 1h."),
    click.option("--max-bytes", type=SIZE, help="Maximum size of the stream: 10GB; -1: no limit."),
    click.option("--max-consumers", type=LIMIT, help="Maximum number of consumers."),
    click.option("--max-msg-size", type=SIZE, help="Maximum size of a message: 1MB."),
    click.option("--max-msgs", type=LIMIT, help="Maximum number of messages; -1: no limit."),
    click.option("--max-msgs-per-subject", type=LIMIT, help="The same for each subject."),
    click.option(
        "--dupe-window", type=DURATION, help="How long message ids are remembered: 2m."
    ),
    click.option("--mirror", help="Be a copy of this stream."),
    click.option("--source", "sources", multiple=True, help="Copy messages of this stream too."),
    click.option(
        "--allow-batch/--no-allow-batch", default=None, help="Allow atomic batches (ADR-50)."
    ),
    click.option("--allow-fast/--no-allow-fast", default=None, help="Allow fast batches."),
    click.option("--allow-counter", is_flag=True, default=None, help="Be a counter."),
    click.option(
        "--allow-rollup/--no-allow-rollup", default=None, help="Allow the rollup header."
    ),
    click.option(
        "--deny-delete/--no-deny-delete", default=None, help="Refuse to delete single messages."
    ),
    click.option("--deny-purge/--no-deny-purge", default=None, help="Refuse to purge."),
    click.option("--allow-direct/--no-allow-direct", default=None, help="Allow direct gets."),
    click.option(
        "--allow-mirror-direct/--no-allow-mirror-direct", default=None,
        help="A mirror answers direct gets for its origin.",
    ),
    click.option("--allow-msg-ttl", is_flag=True, default=None, help="Allow TTLs of messages."),
    click.option(
        "--allow-schedules/--no-allow-schedules", default=None, help="Allow scheduled messages."
    ),
    click.option(
        "--subject-del-markers-ttl", type=DURATION,
        help="How long a marker remains after the last message of a subject expired.",
    ),
    click.option("--transform-source", help="Subjects to store under another name."),
    click.option("--transform-destination", help="The other name: 'new.{{wildcard(1)}}'."),
    click.option("--metadata", type=METADATA, multiple=True, help="Metadata; may be repeated."),
    click.option("--republish-source", help="Subjects to publish again once stored."),
    click.option("--republish-destination", help="The subject to publish them under."),
    click.option(
        "--republish-headers", is_flag=True, default=None, help="Republish without payloads."
    ),
)  # fmt: skip
_NEW: Final = (
    click.option("--storage", type=_STORAGE, help="Where messages are stored."),
    click.option("--first-sequence", type=COUNT, help="Sequence of the first message."),
    click.option(
        "--limit-consumer-inactive", type=DURATION,
        help="Longest inactive threshold of its consumers.",
    ),
    click.option(
        "--limit-consumer-max-pending", type=COUNT,
        help="Maximum of unacknowledged messages of its consumers.",
    ),
    click.option(
        "--persist-mode", type=click.Choice(("default", "async")),
        help="async: acknowledge before messages are on disk.",
    ),
)  # fmt: skip
_EDIT: Final = (
    click.option("--no-mirror", is_flag=True, help="Stop mirroring; the messages stay."),
    click.option("--no-transform", is_flag=True, help="Remove the subject transform."),
    click.option("--no-republish", is_flag=True, help="Stop republishing."),
)


def config_options(*, edit: bool) -> Callable[[_Declared], _Declared]:
    """Add the options to a command; ``edit``: those that can change an existing stream."""

    def declare(described: _Declared) -> _Declared:
        decorated: Any = described
        for option in reversed((*_BOTH, *(_EDIT if edit else _NEW))):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return declare
