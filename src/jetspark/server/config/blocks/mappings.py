"""``mappings``: subjects to be rewritten on arrival; checked, and refused (``not_yet.py``)."""

from typing import Final

import msgspec

from jetspark.server.config.blocks.block import Field, Setting, read_whole_block
from jetspark.server.config.language.problem import ConfigRefused
from jetspark.server.config.values import entries, string
from jetspark.subjects.tokens import is_valid_subject
from jetspark.subjects.transform import TransformError, check_transform
from jetspark.units import parse_int64

WEIGHT_MAX: Final = 100


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """A destination of a mapping, with its share of the messages in percent."""

    subject: str
    weight: int = WEIGHT_MAX


class SubjectMapping(msgspec.Struct, frozen=True, kw_only=True):
    """A rewrite of subjects. If the weights are below 100, the rest keeps its subject.

    Except if a mapping has its own source as a destination: then the rest is dropped on purpose.
    """

    source: str
    destinations: tuple[Destination, ...]


def read_mappings(setting: Setting) -> tuple[SubjectMapping, ...]:
    """Read a block of mappings, source to destination or destinations."""
    mappings: list[SubjectMapping] = []
    for source, node in entries(setting).items():
        inner = setting._replace(name=source, node=node)
        if not is_valid_subject(source.encode()):
            setting.report.problem(node.place, f'Subject "{source}" is not a valid subject')
            continue
        try:
            mappings.append(_mapping(inner, source))
        except ConfigRefused as error:
            setting.report.refused(error)
    return tuple(mappings)


def _mapping(setting: Setting, source: str) -> SubjectMapping:
    value = setting.node.value
    if isinstance(value, str):
        destinations = [Destination(subject=value)]
    elif isinstance(value, list):
        destinations = [_destination(setting.element(node)) for node in value]
    else:
        destinations = [_destination(setting)]
    subjects = [destination.subject for destination in destinations]
    for subject in subjects:
        if subjects.count(subject) > 1:
            raise setting.refused(f'duplicate entry for "{subject}"')
        try:
            check_transform(source.encode(), subject.encode())
        except TransformError as error:
            raise setting.refused(f'cannot map to "{subject}": {error}') from None
    total = sum(destination.weight for destination in destinations)
    if total > WEIGHT_MAX:
        raise setting.refused(f"total weight needs to be <= {WEIGHT_MAX}, got {total}")
    return SubjectMapping(source=source, destinations=tuple(destinations))


def _destination(setting: Setting) -> Destination:
    if not isinstance(setting.node.value, dict):
        raise setting.wrong("a destination: a subject, or blocks { destination, weight }")
    values = read_whole_block(setting._replace(path="mappings"), _DESTINATION)
    subject = values.get("destination")
    if subject is None:
        raise setting.refused("missing 'destination'")
    if "weight" not in values:
        raise setting.refused(f'Missing weight for mapping destination "{subject}"')
    return Destination(subject=subject, weight=values["weight"])


def _weight(setting: Setting) -> int:
    value = setting.node.value
    weight: int | None = None
    if isinstance(value, str):
        weight = parse_int64(value.removesuffix("%"))
    elif isinstance(value, int) and not isinstance(value, bool):
        weight = value
    if weight is None or not 0 <= weight <= WEIGHT_MAX:
        raise setting.wrong('a percentage from 0 to 100, like 20 or "20%"')
    return weight


_DESTINATION: Final = {
    "destination": Field(string, ("dest",)),
    "weight": Field(_weight),
}
