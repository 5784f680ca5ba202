"""Mirrors and sources in a stream's configuration: what may stand beside them, and cycles."""

from collections.abc import Callable

import msgspec

from jetspark.api.stream import StreamConfig, StreamSource
from jetspark.engine.refusal import Refusal
from jetspark.engine.stream.values import adjusted, invalid, is_name
from jetspark.errors.codes import ErrCode
from jetspark.subjects.match import overlaps
from jetspark.subjects.pattern_set import PatternSet
from jetspark.subjects.tokens import is_valid_literal, is_valid_subject
from jetspark.subjects.transform import SubjectTransform, TransformError

Find = Callable[[str], StreamConfig | None]

_API: str = "$JS.API"


def check_mirror(
    config: StreamConfig, mirror: StreamSource, find: Find, *, pedantic: bool
) -> StreamConfig:
    """Check a mirror; it serves direct gets for its origin when the origin allows them."""
    beside = (
        (config.first_seq > 0, ErrCode.MIRROR_WITH_FIRST_SEQ),
        (bool(config.subjects), ErrCode.MIRROR_WITH_SUBJECTS),
        (bool(config.sources), ErrCode.MIRROR_WITH_SOURCES),
        (config.allow_msg_counter, ErrCode.MIRROR_WITH_COUNTERS),
        (config.allow_atomic, ErrCode.MIRROR_WITH_ATOMIC),
        (config.allow_batched, ErrCode.MIRROR_WITH_FAST),
        (config.allow_msg_schedules, ErrCode.MIRROR_WITH_SCHEDULES),
        (
            bool(mirror.filter_subject and mirror.subject_transforms),
            ErrCode.MIRROR_FILTER_AND_TRANSFORMS,
        ),
    )
    for wrong, code in beside:
        if wrong:
            raise Refusal(code)
    if config.subject_delete_marker_ttl > 0:
        raise invalid("subject delete markers forbidden on mirrors")
    _check_transforms(
        mirror,
        ErrCode.MIRROR_TRANSFORM_SOURCE_INVALID,
        ErrCode.MIRROR_TRANSFORM_INVALID,
        ErrCode.MIRROR_FILTERS_OVERLAP,
        lambda others, src: others.overlaps(src, src),
    )
    if mirror.external is None:
        if not is_name(mirror.name):
            raise Refusal(ErrCode.MIRROR_NAME_INVALID)
        origin = find(mirror.name)
        if origin is None:
            return config
        if 0 < config.max_msg_size < origin.max_msg_size:
            raise Refusal(ErrCode.MIRROR_MAX_MSG_SIZE_TOO_SMALL)
        if config.mirror_direct == origin.allow_direct:
            return config
        if pedantic:
            raise adjusted("origin stream has direct get set, mirror has it disabled")
        return msgspec.structs.replace(config, mirror_direct=origin.allow_direct)
    return config


def check_sources(config: StreamConfig, find: Find) -> None:
    """Check the sources of a stream, and that no stream reaches itself through copies."""
    if config.sources and config.allow_msg_schedules:
        raise Refusal(ErrCode.SOURCE_WITH_SCHEDULES)
    seen: set[tuple[object, ...]] = set()
    for source in config.sources:
        if not is_name(source.name):
            raise Refusal(ErrCode.SOURCE_NAME_INVALID)
        identity = (
            source.name,
            source.external.api if source.external else "",
            source.filter_subject,
            source.subject_transforms,
        )
        if identity in seen:
            raise Refusal(ErrCode.SOURCE_DUPLICATE)
        seen.add(identity)
        if source.filter_subject and source.subject_transforms:
            raise Refusal(ErrCode.SOURCE_FILTER_AND_TRANSFORMS)
        _check_transforms(
            source,
            ErrCode.SOURCE_TRANSFORM_SOURCE_INVALID,
            ErrCode.SOURCE_TRANSFORM_INVALID,
            ErrCode.SOURCE_FILTERS_OVERLAP,
            lambda others, src: others.covers(src, src),
        )
        origin = find(source.name) if source.external is None else None
        if origin is not None and 0 < config.max_msg_size < origin.max_msg_size:
            raise Refusal(ErrCode.SOURCE_MAX_MSG_SIZE_TOO_SMALL)
    _check_prefixes(config, find)
    _check_cycles(config, find)


def _check_transforms(
    source: StreamSource,
    bad_source: ErrCode,
    bad_destination: ErrCode,
    overlapping: ErrCode,
    clash: Callable[[PatternSet, bytes], bool],
) -> None:
    pairs = [(t.src.encode(), t.dest.encode()) for t in source.subject_transforms]
    for src, dest in pairs:
        if src and not is_valid_subject(src):
            raise Refusal(bad_source, err=f"invalid subject {src.decode()}")
        if dest:
            try:
                SubjectTransform(src, dest)
            except TransformError as error:
                raise Refusal(bad_destination, err=error.wire_text) from None
    all_of_them = PatternSet()
    for src, _ in pairs:
        all_of_them.add(src, src)
    if any(clash(all_of_them, src) for src, _ in pairs):
        raise Refusal(overlapping)


def _check_prefixes(config: StreamConfig, find: Find) -> None:
    copied = [source for source in (config.mirror, *config.sources) if source is not None]
    taken = [
        subject
        for source in copied
        if source.external is None
        for origin in [find(source.name)]
        if origin is not None
        for subject in origin.subjects
    ]
    external = [source.external for source in copied if source.external is not None]
    for prefix in (e.deliver for e in external if e.deliver):
        if not is_valid_literal(prefix.encode()):
            raise Refusal(ErrCode.STREAM_EXTERNAL_DELIVER_WILDCARD, prefix=prefix)
        for subject in taken:
            if overlaps(subject.encode(), f"{prefix}.{subject}".encode()):
                raise Refusal(
                    ErrCode.STREAM_EXTERNAL_DELIVER_OVERLAP, prefix=prefix, subject=subject
                )
    for prefix in (e.api for e in external if e.api):
        if not is_valid_literal(prefix.encode()):
            raise invalid(
                f'stream external api prefix "{prefix}" must be a valid subject without wildcards'
            )
        if overlaps(prefix.encode(), _API.encode()):
            raise Refusal(ErrCode.STREAM_EXTERNAL_API_OVERLAP, prefix=prefix, subject=_API)


def _check_cycles(config: StreamConfig, find: Find) -> None:
    to_visit = [config]
    visited: set[str] = set()
    while to_visit:
        current = to_visit.pop(0)
        if current.name in visited:
            continue  # several streams copy it
        visited.add(current.name)
        for source in current.sources:
            if source.external is not None:
                continue
            if source.name in visited:
                if _flows(current, source.filter_subject):
                    raise invalid("detected cycle")
            elif (origin := find(source.name)) is not None:
                to_visit.append(origin)
        mirror = current.mirror
        if mirror is not None and mirror.external is None:
            if mirror.name in visited:
                raise invalid("detected cycle")
            if (origin := find(mirror.name)) is not None:
                to_visit.append(origin)


def _flows(config: StreamConfig, pattern: str) -> bool:
    return not pattern or any(overlaps(s.encode(), pattern.encode()) for s in config.subjects)
