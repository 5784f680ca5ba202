"""A stream's configuration in the form that the publish path needs: plain fields."""

from librt.random import Random
from mypy_extensions import i64

from jetspark.api.enums import Discard, Retention
from jetspark.api.stream import StreamConfig
from jetspark.subjects.transform import SubjectTransform
from jetspark.units import bounded


class Rules:
    """One configuration, prepared for the publish path. Replaced as a whole by an update.

    ``seed`` is for transforms that distribute messages at random. ``guarded``: a quota is checked
    for every message.
    """

    def __init__(self, config: StreamConfig, seed: int, guarded: bool = False) -> None:
        self.name: bytes = config.name.encode()
        self.sealed: bool = config.sealed
        self.no_ack: bool = config.no_ack
        self.max_msg_size: i64 = config.max_msg_size
        self.max_age: i64 = bounded(config.max_age)
        self.max_msgs: i64 = config.max_msgs
        self.max_bytes: i64 = config.max_bytes
        self.max_per_subject: i64 = config.max_msgs_per_subject
        self.discard_new: bool = config.discard is Discard.NEW
        self.discard_new_per_subject: bool = config.discard_new_per_subject
        self.window: i64 = bounded(config.duplicate_window)
        self.allow_rollup: bool = config.allow_rollup_hdrs and not config.deny_purge
        self.allow_ttl: bool = config.allow_msg_ttl
        self.marker_ttl: i64 = bounded(config.subject_delete_marker_ttl)
        self.allow_counter: bool = config.allow_msg_counter
        self.allow_schedules: bool = config.allow_msg_schedules
        self.allow_atomic: bool = config.allow_atomic
        self.allow_batched: bool = config.allow_batched
        # Needed for schedules only, and there may be very many.
        self.subjects: list[bytes] = []
        if self.allow_schedules:
            self.subjects = [subject.encode() for subject in config.subjects]
        self.transform: SubjectTransform | None = None
        # Distributes messages, in the same way for the same seed; not used for secrets.
        random_below = Random(seed & 0x7FFFFFFFFFFFFFFF).randrange
        transform = config.subject_transform
        if transform is not None and transform.dest:
            self.transform = SubjectTransform(
                transform.src.encode(), transform.dest.encode(), random_below
            )
        self.republish: SubjectTransform | None = None
        self.republish_headers_only: bool = False
        again = config.republish
        if again is not None and again.dest:
            self.republish = SubjectTransform(
                again.src.encode(), again.dest.encode(), random_below
            )
            self.republish_headers_only = again.headers_only
        # Messages without interest are not kept.
        self.by_interest: bool = config.retention is Retention.INTEREST
        # Whether a message without headers is stored unchanged, without further checks.
        self.open: bool = not (
            guarded
            or self.sealed
            or self.no_ack
            or self.by_interest
            or self.max_msg_size >= 0
            or self.allow_counter
            or self.transform is not None
            or self.republish is not None
            or (
                self.discard_new
                and (
                    self.max_msgs > 0
                    or self.max_bytes > 0
                    or (self.max_per_subject > 0 and self.discard_new_per_subject)
                )
            )
        )
