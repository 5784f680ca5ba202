"""Mirrors and sources in a stream's configuration: conflicting settings, and cycles."""

from collections import deque
from collections.abc import Callable, Generator
from typing import Final

import msgspec

from jetspark.api.stream import StreamConfig, StreamSource
from jetspark.api.strict import OBJECTS_MAX
from jetspark.engine.refusal import Refusal
from jetspark.engine.stream.subject_rules import PATTERN_MAX
from jetspark.engine.stream.values import adjusted, invalid, is_name
from jetspark.errors.codes import ErrCode
from jetspark.steps import Pace
from jetspark.subjects.match import overlaps
from jetspark.subjects.pattern_set import PatternSet
from jetspark.subjects.tokens import is_valid_literal, is_valid_subject
from jetspark.subjects.transform import TransformError, check_transform

Find = Callable[[str], StreamConfig | None]

_API: str = "$JS.API"
# The cost of checking one, in bytes of a subject.
SOURCE_SIZE: Final = 64
TRANSFORM_SIZE: Final = 256


def check_mirror(
    config: StreamConfig, mirror: StreamSource, find: Find, *, pedantic: bool
) -> Generator[None, None, StreamConfig]:
    """Check a mirror, in steps; it answers direct gets for its origin if that allows them."""
    conflicts = (
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
    for wrong, code in conflicts:
        if wrong:
            raise Refusal(code)
    if config.subject_delete_marker_ttl > 0:
        raise invalid("subject delete markers forbidden on mirrors")
    pace = Pace()
    yield from _check_transforms(
        mirror,
        pace,
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


def check_sources(config: StreamConfig, find: Find) -> Generator[None, None, None]:
    """Check the sources of a stream, in steps, and that no stream copies itself indirectly."""
    copied = [source for source in (config.mirror, *config.sources) if source is not None]
    entries = len(copied) + sum(len(source.subject_transforms) for source in copied)
    if entries > OBJECTS_MAX:
        raise invalid(
            f"stream has {entries} sources and subject transforms, at most {OBJECTS_MAX} are "
            "allowed"
        )
    if config.sources and config.allow_msg_schedules:
        raise Refusal(ErrCode.SOURCE_WITH_SCHEDULES)
    seen: set[tuple[object, ...]] = set()
    pace = Pace()
    for source in config.sources:
        if pace.is_due(SOURCE_SIZE):
            yield
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
        yield from _check_transforms(
            source,
            pace,
            ErrCode.SOURCE_TRANSFORM_SOURCE_INVALID,
            ErrCode.SOURCE_TRANSFORM_INVALID,
            ErrCode.SOURCE_FILTERS_OVERLAP,
            lambda others, src: others.covers(src, src),
        )
        origin = find(source.name) if source.external is None else None
        if origin is not None and 0 < config.max_msg_size < origin.max_msg_size:
            raise Refusal(ErrCode.SOURCE_MAX_MSG_SIZE_TOO_SMALL)
    yield from _check_prefixes(config, find)
    yield from _check_cycles(config, find)


def _check_transforms(
    source: StreamSource,
    pace: Pace,
    bad_source: ErrCode,
    bad_destination: ErrCode,
    overlapping: ErrCode,
    clash: Callable[[PatternSet, bytes], bool],
) -> Generator[None, None, None]:
    pairs = [(t.src.encode(), t.dest.encode()) for t in source.subject_transforms]
    for src, dest in pairs:
        if pace.is_due(TRANSFORM_SIZE + len(src) + len(dest)):
            yield
        if max(len(src), len(dest)) > PATTERN_MAX:
            raise Refusal(bad_source, err=f"invalid subject of {max(len(src), len(dest))} bytes")
        if src and not is_valid_subject(src):
            raise Refusal(bad_source, err=f"invalid subject {src.decode()}")
        if dest:
            try:
                check_transform(src, dest)
            except TransformError as error:
                raise Refusal(bad_destination, err=error.wire_text) from None
    all_of_them = PatternSet()
    for src, _ in pairs:
        all_of_them.add(src, src)
        if pace.is_due(len(src)):
            yield
    for src, _ in pairs:
        if clash(all_of_them, src):
            raise Refusal(overlapping)
        if pace.is_due(len(src) + all_of_them.take_visited()):
            yield


def _check_prefixes(config: StreamConfig, find: Find) -> Generator[None, None, None]:
    copied = [source for source in (config.mirror, *config.sources) if source is not None]
    external = [source.external for source in copied if source.external is not None]
    if not external:
        return
    pace = Pace()
    taken: dict[str, None] = {}
    for source in copied:
        origin = find(source.name) if source.external is None else None
        for subject in origin.subjects if origin is not None else ():
            taken[subject] = None
            if pace.is_due():
                yield
    for prefix in dict.fromkeys(e.deliver for e in external if e.deliver):
        if not is_valid_literal(prefix.encode()):
            raise Refusal(ErrCode.STREAM_EXTERNAL_DELIVER_WILDCARD, prefix=prefix)
        for subject in taken:
            if pace.is_due(len(prefix) + len(subject)):
                yield
            if overlaps(subject.encode(), f"{prefix}.{subject}".encode()):
                raise Refusal(
                    ErrCode.STREAM_EXTERNAL_DELIVER_OVERLAP, prefix=prefix, subject=subject
                )
    for prefix in dict.fromkeys(e.api for e in external if e.api):
        if pace.is_due(len(prefix)):
            yield
        if not is_valid_literal(prefix.encode()):
            raise invalid(
                f'stream external api prefix "{prefix}" must be a valid subject without wildcards'
            )
        if overlaps(prefix.encode(), _API.encode()):
            raise Refusal(ErrCode.STREAM_EXTERNAL_API_OVERLAP, prefix=prefix, subject=_API)


def _check_cycles(config: StreamConfig, find: Find) -> Generator[None, None, None]:
    to_visit = deque([config])
    visited: set[str] = set()
    pace = Pace()
    while to_visit:
        current = to_visit.popleft()
        if current.name in visited:
            continue  # visited already: several streams copy it
        visited.add(current.name)
        for source in current.sources:
            if pace.is_due():
                yield
            if source.external is not None:
                continue
            if source.name in visited:
                if (yield from _flows(current, source.filter_subject, pace)):
                    raise invalid("detected cycle")
            elif (origin := find(source.name)) is not None:
                to_visit.append(origin)
        mirror = current.mirror
        if mirror is not None and mirror.external is None:
            if mirror.name in visited:
                raise invalid("detected cycle")
            if (origin := find(mirror.name)) is not None:
                to_visit.append(origin)


def _flows(config: StreamConfig, pattern: str, pace: Pace) -> Generator[None, None, bool]:
    if not pattern:
        return True
    for subject in config.subjects:
        if overlaps(subject.encode(), pattern.encode()):
            return True
        if pace.is_due(len(subject)):
            yield
    return False
