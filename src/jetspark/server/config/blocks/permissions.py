"""The ``permissions`` of a user."""

from typing import Final

import msgspec

from jetspark.server.config.blocks.block import Field, Setting, read_block
from jetspark.server.config.values import integer, strings
from jetspark.subjects.tokens import is_valid_subject
from jetspark.units import Nanoseconds, minutes, parse_duration


class SubjectPermission(msgspec.Struct, frozen=True, kw_only=True):
    """Subjects that are allowed (None: all) and denied. Deny wins.

    For subscriptions an entry may be ``subject queue``: the subject as a member of that group.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()


class Responses(msgspec.Struct, frozen=True, kw_only=True):
    """Permission to answer requests. Negative numbers mean no limit."""

    max_msgs: int = 1
    expires: Nanoseconds = minutes(2)


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """A ``permissions`` block."""

    publish: SubjectPermission = SubjectPermission()
    subscribe: SubjectPermission = SubjectPermission()
    allow_responses: Responses | None = None


def read_permissions(setting: Setting) -> Permissions:
    """Read a ``permissions`` block."""
    permissions = Permissions(**read_block(setting, _FIELDS))
    if permissions.allow_responses is None or permissions.publish.allow is not None:
        return permissions
    # Permission to answer replaces that to publish: without an `allow` only answers remain.
    publish = msgspec.structs.replace(permissions.publish, allow=())
    return msgspec.structs.replace(permissions, publish=publish)


def _publish(setting: Setting) -> SubjectPermission:
    return _subject_permission(setting, queues=False)


def _subscribe(setting: Setting) -> SubjectPermission:
    return _subject_permission(setting, queues=True)


def _subject_permission(setting: Setting, *, queues: bool) -> SubjectPermission:
    if not isinstance(setting.node.value, dict):
        return SubjectPermission(allow=_subjects(setting, queues=queues, empty=False))
    fields = {
        "allow": Field(lambda inner: _subjects(inner, queues=queues, empty=False)),
        "deny": Field(lambda inner: _subjects(inner, queues=queues, empty=True)),
    }
    return SubjectPermission(**read_block(setting, fields))


def _subjects(setting: Setting, *, queues: bool, empty: bool) -> tuple[str, ...]:
    if not isinstance(setting.node.value, str | list):
        raise setting.wrong("a subject or a list of subjects")
    subjects = strings(setting)
    if not subjects and not empty:
        raise setting.refused(
            "an empty list allows everything in nats-server; leave it out for that, "
            "or deny '>' to allow nothing"
        )
    for subject in subjects:
        problem = _subject_problem(subject, queues=queues)
        if problem:
            raise setting.refused(problem)
    return subjects


def _subject_problem(subject: str, *, queues: bool) -> str:
    if is_valid_subject(subject.encode()):
        return ""
    words = subject.split()
    if not queues or len(words) != 2:
        return f'subject "{subject}" is not a valid subject'
    if not is_valid_subject(words[0].encode()):
        return f'subject "{words[0]}" is not a valid subject'
    if not is_valid_subject(words[1].encode()):
        return f'queue "{words[1]}" is not a valid queue'
    return ""


def _responses(setting: Setting) -> Responses | None:
    if isinstance(setting.node.value, bool):
        return Responses() if setting.node.value else None
    if not isinstance(setting.node.value, dict):
        raise setting.wrong("true, false or a block { max, expires }")
    values = read_block(setting, _RESPONSES)
    return Responses(**{name: value for name, value in values.items() if value != 0})


def _expires(setting: Setting) -> Nanoseconds:
    if not isinstance(setting.node.value, str):
        raise setting.wrong('a duration with a unit, in quotes, like "1m"')
    try:
        return parse_duration(setting.node.value)
    except ValueError as error:
        raise setting.refused(str(error)) from None


_RESPONSES: Final = {
    "max_msgs": Field(integer, ("max", "max_messages", "max_responses")),
    "expires": Field(_expires, ("expiration", "ttl")),
}
_FIELDS: Final = {
    "publish": Field(_publish, ("pub", "import")),
    "subscribe": Field(_subscribe, ("sub", "export")),
    "allow_responses": Field(_responses, ("publish_allow_responses",)),
}
