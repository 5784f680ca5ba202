"""The subjects of a stream's configuration: what it may store, rename and publish again."""

from typing import Final

import msgspec

from jetspark.api.stream import StreamConfig
from jetspark.engine.refusal import Refusal
from jetspark.engine.stream.values import adjusted, invalid
from jetspark.errors.codes import ErrCode
from jetspark.subjects.match import is_subset, overlaps
from jetspark.subjects.pattern_set import PatternSet
from jetspark.subjects.tokens import is_valid_subject
from jetspark.subjects.transform import SubjectTransform, TransformError

_EVERYTHING: Final = ">"
# A server answers on these; a stream without acknowledgements may record them all the same.
_API_SPACES: Final = (b"$JS.>", b"$JSC.>", b"$NRG.>")
_EVENTS: Final = b"$JS.EVENT.>"
_MAY_BE_SPACE: Final = b"$*>"  # how what overlaps one of these begins
_SYSTEM: Final = b"$SYS.>"
_SYSTEM_ACCOUNTS: Final = b"$SYS.ACCOUNT.>"


def with_subjects(config: StreamConfig) -> StreamConfig:
    """Check the subjects; a stream without any, that copies nothing, stores its own name."""
    if not config.subjects:
        if config.mirror is None and not config.sources:
            config = msgspec.structs.replace(config, subjects=(config.name,))
        return config
    patterns = [subject.encode() for subject in config.subjects]
    all_of_them = PatternSet()
    for pattern in patterns:
        all_of_them.add(pattern, pattern)
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
            other = next(n for n in range(i + 1, len(patterns)) if overlaps(patterns[n], pattern))
            raise invalid(f'subject "{subject}" overlaps with "{config.subjects[other]}"')
    return config


def _check_spaces(subject: bytes) -> None:
    if subject[0] not in _MAY_BE_SPACE:
        return
    if any(overlaps(subject, space) for space in _API_SPACES) and not is_subset(subject, _EVENTS):
        raise invalid("subjects that overlap with jetstream api require no-ack to be true")
    if overlaps(subject, _SYSTEM) and not is_subset(subject, _SYSTEM_ACCOUNTS):
        raise invalid("subjects that overlap with system api require no-ack to be true")


def republished(config: StreamConfig, *, pedantic: bool) -> StreamConfig:
    """Check the transform and where messages are published again."""
    transform = config.subject_transform
    if transform is not None:
        if transform.src and not is_valid_subject(transform.src.encode()):
            raise Refusal(
                ErrCode.STREAM_TRANSFORM_SOURCE_INVALID, err=f"invalid subject {transform.src}"
            )
        if transform.dest:
            try:
                SubjectTransform(transform.src.encode(), transform.dest.encode())
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
    if any(overlaps(again.dest.encode(), subject.encode()) for subject in config.subjects):
        raise invalid("stream configuration for republish destination forms a cycle")
    try:
        if again.dest:  # none publishes nothing again
            SubjectTransform(again.src.encode(), again.dest.encode())
    except TransformError:
        raise invalid(
            f"stream configuration for republish with transform from '{again.src}' to "
            f"'{again.dest}' not valid"
        ) from None
    return msgspec.structs.replace(config, republish=again)
