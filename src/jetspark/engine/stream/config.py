"""Defaults and validation of a stream's configuration.

What this version does not do yet is refused by name: a setting is never kept and ignored.
"""

from typing import Final

import msgspec

from jetspark.api.base import decoder
from jetspark.api.stream import StreamConfig
from jetspark.engine.refusal import Refusal
from jetspark.errors.codes import ErrCode
from jetspark.subjects.match import overlaps
from jetspark.subjects.tokens import is_valid_subject, stream_name_problem
from jetspark.units import Nanoseconds
from jetspark.version import NATS_VERSION

API_LEVEL: Final = 5
DUPLICATE_WINDOW: Final = Nanoseconds(120_000_000_000)
DESCRIPTION_MAX: Final = 4096  # wire-facts.md 5
METADATA_MAX: Final = 128 * 1024  # wire-facts.md 5
# Zero and negative limits both mean none.
_LIMITS: Final = (
    "max_consumers",
    "max_msgs",
    "max_bytes",
    "max_msgs_per_subject",
    "max_msg_size",
)
# Fields this version honours; any other one must keep its default.
_HONOURED: Final = frozenset({
    "name", "description", "subjects", "allow_direct", "metadata", "duplicate_window",
    "num_replicas", *_LIMITS,
})  # fmt: skip

_decoder = decoder(StreamConfig)


def prepared(config: StreamConfig) -> StreamConfig:
    """Return the configuration with its defaults filled in; raise Refusal with what is wrong."""
    problem = stream_name_problem(config.name)
    if problem:
        raise invalid(problem)
    changes: dict[str, object] = {name: -1 for name in _LIMITS if getattr(config, name) <= 0}
    if not config.subjects:
        changes["subjects"] = (config.name,)
    if config.num_replicas == 0:
        changes["num_replicas"] = 1
    if config.duplicate_window == 0:
        changes["duplicate_window"] = DUPLICATE_WINDOW
    changes["metadata"] = _server_metadata(config.metadata)
    config = msgspec.structs.replace(config, **changes)
    _check_supported(config)
    _check_subjects(config)
    if len(config.description) > DESCRIPTION_MAX:
        raise invalid(f"stream description is too long, maximum allowed is {DESCRIPTION_MAX}")
    if sum(len(k) + len(v) for k, v in config.metadata.items()) > METADATA_MAX:
        raise invalid(f"stream metadata exceeds maximum size of {METADATA_MAX} bytes")
    return config


def decode_config(document: bytes) -> StreamConfig:
    """The configuration as it was stored."""
    return _decoder.decode(document)


def invalid(reason: str) -> Refusal:
    """The answer to a configuration that cannot be."""
    return Refusal(ErrCode.STREAM_INVALID_CONFIG, err=reason)


def _check_supported(config: StreamConfig) -> None:
    plain = StreamConfig()
    for name in StreamConfig.__struct_fields__:
        if name not in _HONOURED and getattr(config, name) != getattr(plain, name):
            raise invalid(f"{name} is not supported by this version of jetspark yet")
    for name in _LIMITS:
        if getattr(config, name) != -1:
            raise invalid(f"{name} is not supported by this version of jetspark yet")
    if config.num_replicas != 1:
        raise Refusal(ErrCode.REPLICAS_NOT_SUPPORTED)


def _check_subjects(config: StreamConfig) -> None:
    subjects = [subject.encode() for subject in config.subjects]
    for i, subject in enumerate(subjects):
        if not is_valid_subject(subject):
            raise invalid(f"invalid subject {config.subjects[i]!r}")
        if overlaps(subject, b"$JS.>") or overlaps(subject, b"$SYS.>"):
            raise invalid(
                f"subject {config.subjects[i]!r} overlaps with the server's own $JS and $SYS"
            )
        for other in subjects[:i]:
            if overlaps(subject, other):
                raise invalid(f"subject {config.subjects[i]!r} overlaps with {other.decode()!r}")


def _server_metadata(given: dict[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in given.items() if not k.startswith(("_nats.", "_jetspark."))}
    return kept | {
        "_jetspark.durability": "durable",
        "_nats.level": str(API_LEVEL),
        "_nats.req.level": "0",
        "_nats.ver": NATS_VERSION,
    }
