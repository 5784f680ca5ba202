"""Validation of a stream's subjects, transform and republish settings."""

from collections.abc import Generator
from typing import Final

import msgspec

from jetspark.api.stream import StreamConfig
from jetspark.engine.refusal import Refusal
from jetspark.engine.stream.values import adjusted, invalid
from jetspark.errors.codes import ErrCode
from jetspark.steps import Pace
from jetspark.subjects.match import is_subset, overlaps
from jetspark.subjects.pattern_set import PatternSet
from jetspark.subjects.tokens import is_valid_subject
from jetspark.subjects.transform import TransformError, check_transform

PATTERN_MAX: Final = 16 * 1024
"""No message has a longer subject, and each token of a pattern costs memory."""
_EVERYTHING: Final = ">"
# A server answers on these; a stream without acknowledgements may still record them.
_API_SPACES: Final = (b"$JS.>", b"$JSC.>", b"$NRG.>")
_EVENTS: Final = b"$JS.EVENT.>"
_MAY_BE_SPACE: Final = b"$*>"  # the first byte of anything that overlaps one of these
_SYSTEM: Final = b"$SYS.>"
_SYSTEM_ACCOUNTS: Final = b"$SYS.ACCOUNT.>"


def with_subjects(config: StreamConfig) -> Generator[None, None, StreamConfig]:
    """Check the subjects, in steps; a stream without any, and not a copy, stores its name."""
    if not config.subjects:
        if config.mirror is None and not config.sources:
            config = msgspec.structs.replace(config, subjects=(config.name,))
        return config
    pace = Pace()
    patterns: list[bytes] = []
    all_of_them = PatternSet()
    for subject in config.subjects:
        pattern = subject.encode()
        patterns.append(pattern)
        if len(pattern) > PATTERN_MAX:
            raise invalid(f"subject has {len(pattern)} bytes, at most {PATTERN_MAX} are allowed")
        all_of_them.add(pattern, pattern)
        if pace.is_due(len(pattern)):
            yield
    for i, subject in enumerate(config.subjects):
        pattern = patterns[i]
        if not is_valid_subject(pattern):
            raise invalid("invalid subject")
        if subject == _EVERYTHING:
            if not config.no_ack:
                raise invalid("capturing all subjects requires no-ack to be true")
            if config.num_replicas != 1:
                raise invalid("capturing all subjects requires replicas of 1")
        if not config.no_ack:
            _check_spaces(pattern)
        if all_of_them.overlaps(pattern, pattern):
            # Those before it overlap nothing, so it is a later one.
            other = yield from _first_overlapping(pattern, patterns, i + 1)
            raise invalid(f'subject "{subject}" overlaps with "{config.subjects[other]}"')
        if pace.is_due(len(pattern) + all_of_them.take_visited()):
            yield
    return config


def _first_overlapping(
    pattern: bytes, patterns: list[bytes], start: int
) -> Generator[None, None, int]:
    pace = Pace()
    for n in range(start, len(patterns)):
        if overlaps(patterns[n], pattern):
            return n
        if pace.is_due(len(pattern)):
            yield
    raise AssertionError("one of them overlaps it")


def _check_spaces(subject: bytes) -> None:
    if subject[0] not in _MAY_BE_SPACE:
        return
    if any(overlaps(subject, space) for space in _API_SPACES) and not is_subset(subject, _EVENTS):
        raise invalid("subjects that overlap with jetstream api require no-ack to be true")
    if overlaps(subject, _SYSTEM) and not is_subset(subject, _SYSTEM_ACCOUNTS):
        raise invalid("subjects that overlap with system api require no-ack to be true")


def republished(config: StreamConfig, *, pedantic: bool) -> Generator[None, None, StreamConfig]:
    """Check the transform and the republish settings, in steps."""
    transform = config.subject_transform
    if transform is not None:
        if transform.src and not is_valid_subject(transform.src.encode()):
            raise Refusal(
                ErrCode.STREAM_TRANSFORM_SOURCE_INVALID, err=f"invalid subject {transform.src}"
            )
        if transform.dest:
            try:
                check_transform(transform.src.encode(), transform.dest.encode())
            except TransformError as error:
                raise Refusal(ErrCode.STREAM_TRANSFORM_INVALID, err=error.wire_text) from None
    again = config.republish
    if again is None:
        return config
    if not again.src:
        if pedantic:
            raise adjusted("republish source can not be empty")
        again = msgspec.structs.replace(again, src=_EVERYTHING)
    if (
        transform is not None
        and again.src == again.dest == _EVERYTHING
        and config.subjects == (transform.src,)
    ):
        if pedantic:
            raise adjusted("implicit republish based on subject transform")
        again = msgspec.structs.replace(again, src=transform.dest, dest=transform.dest)
    pace = Pace()
    for subject in config.subjects:
        if overlaps(again.dest.encode(), subject.encode()):
            raise invalid("stream configuration for republish destination forms a cycle")
        if pace.is_due(len(subject)):
            yield
    try:
        if again.dest:  # without it nothing is republished
            check_transform(again.src.encode(), again.dest.encode())
    except TransformError:
        raise invalid(
            f"stream configuration for republish with transform from '{again.src}' to "
            f"'{again.dest}' not valid"
        ) from None
    return msgspec.structs.replace(config, republish=again)
