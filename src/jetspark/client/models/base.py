"""Base of the models: a wire struct inside, Python types outside.

A model holds the wire struct and converts a field when it is read. So a value from a server goes
back unchanged, even where Python's types would lose something: nanoseconds, enum values of a newer
server.
"""

import types
import typing
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import msgspec

from jetspark.api.base import Timestamp
from jetspark.api.enums import Word
from jetspark.client.arguments import closest, text
from jetspark.client.jetstream.timestamps import from_nanoseconds, to_nanoseconds
from jetspark.client.models.durations import from_wire_ns, to_wire_ns
from jetspark.errors import NotSupported
from jetspark.units import Nanoseconds

S = TypeVar("S", bound=msgspec.Struct)
M = TypeVar("M", bound="Model[Any]")

_MODELS: dict[type, type["Model[Any]"]] = {}
_NO_TIME = datetime(1, 1, 1, tzinfo=UTC)


class Model(Generic[S]):
    """Base of the models. A subclass names its struct and annotates the fields.

    ``names`` maps public names to wire names where they differ, ``seconds`` lists fields whose
    plain numbers are nanoseconds, ``hidden`` those not shown, ``always`` times that servers
    always send.
    """

    __slots__ = ("_wire",)
    _wire: S
    _shape: ClassVar["_Shape"]

    def __init_subclass__(
        cls,
        *,
        wire: type[msgspec.Struct],
        names: Mapping[str, str] | None = None,
        seconds: Iterable[str] = (),
        hidden: Iterable[str] = (),
        always: Iterable[str] = (),
    ) -> None:
        super().__init_subclass__()
        public = {own: name for name, own in (names or {}).items()}
        fields = {
            public.get(own, own): own for own in wire.__struct_fields__ if own not in set(hidden)
        }
        cls._shape = _Shape(cls.__name__, wire, fields, frozenset(seconds), frozenset(always))
        _MODELS[wire] = cls
        for name in fields:
            setattr(cls, name, _Field(name))

    def _fill(self, options: Mapping[str, Any]) -> None:
        """Create the struct from arguments; the last step of every constructor."""
        shape = self._shape
        object.__setattr__(self, "_wire", shape.wire(**shape.taken(options)))

    def _replaced(self, changes: Mapping[str, Any]) -> Self:
        return from_wire(
            type(self), msgspec.structs.replace(self._wire, **self._shape.taken(changes))
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"{type(self).__name__} is immutable: create a changed copy with replace({name}=...)"
        )

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self._wire == other._wire)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        plain = self._shape.plain()
        said = [
            f"{name}={getattr(self, name)!r}"
            for name, own in self._shape.fields.items()
            if getattr(self._wire, own) != getattr(plain, own)
        ]
        return f"{type(self).__name__}({', '.join(said)})"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[type, S]]:
        return from_wire, (type(self), self._wire)


def from_wire(model: type[M], struct: Any) -> M:
    """The model of a struct from a server."""
    made = model.__new__(model)
    object.__setattr__(made, "_wire", struct)
    return made


def to_wire(model: Model[S]) -> S:
    """The wire struct of a model."""
    return model._wire  # noqa: SLF001 - a model has no public names but its settings


def check_applied(names: Iterable[str], asked: Model[Any], has: Model[Any], owner: str) -> None:
    """Refuse a server's answer that lacks some of the requested changes.

    Values that mean "the server decides" match anything.
    """
    for name in names:
        wanted, found = getattr(asked, name), getattr(has, name)
        if name == "metadata":
            # Servers add their own entries.
            found = {key: text for key, text in found.items() if not key.startswith("_")}
            wanted = {key: text for key, text in wanted.items() if not key.startswith("_")}
        if wanted == found or (not wanted and not isinstance(wanted, bool)) or wanted == -1:
            continue
        raise NotSupported(
            f"{owner}: the server answered {name}={found!r} instead of the requested {wanted!r}; "
            "it may be too old to support this setting"
        )


class _Field:
    """Reads one field of the wire struct."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Model[Any] | None, owner: type) -> Any:
        if instance is None:
            return self
        shape = instance._shape  # noqa: SLF001 - of this module, here and below
        value = getattr(instance._wire, shape.fields[self._name])  # noqa: SLF001
        return shape.kinds()[self._name].give(value)


class _Kind(NamedTuple):
    """Converts a value to the wire (``take``, with the name for errors) and back (``give``)."""

    take: Callable[[Any, str], Any]
    give: Callable[[Any], Any]


class _Shape:
    """The fields of one model; their types are resolved at first use."""

    def __init__(
        self,
        name: str,
        wire: type[msgspec.Struct],
        fields: dict[str, str],
        seconds: frozenset[str],
        always: frozenset[str],
    ) -> None:
        self._name = name
        self.wire = wire
        self.fields = fields
        self._seconds = seconds
        self._always = always
        self._kinds: dict[str, _Kind] = {}

    def kinds(self) -> dict[str, _Kind]:
        """How each field is converted."""
        if not self._kinds:
            hints = typing.get_type_hints(self.wire, include_extras=True)
            self._kinds = {name: self._kind(name, hints[own]) for name, own in self.fields.items()}
        return self._kinds

    def plain(self) -> msgspec.Struct:
        """The struct with default values."""
        return _plain(self.wire)

    def taken(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments as fields of the struct; TypeError and ValueError name the argument."""
        kinds = self.kinds()
        for name in options:
            if name not in kinds:
                raise TypeError(f"{self._name} has no {name!r}{closest(name, kinds)}")
        return {
            self.fields[name]: kinds[name].take(value, name) for name, value in options.items()
        }

    def _kind(self, name: str, hint: Any) -> _Kind:
        if name in self._seconds:
            return _Kind(to_wire_ns, _give_age)
        kind = kind_of(hint)
        if name in self._always:
            return _Kind(kind.take, lambda value: kind.give(value) or _NO_TIME)
        return kind


@cache
def _plain(wire: type[msgspec.Struct]) -> msgspec.Struct:
    required = {
        field.name: ""
        for field in msgspec.structs.fields(wire)
        if field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
    }
    return wire(**required)


def kind_of(hint: Any) -> _Kind:
    """The conversion for a field with this annotation on the wire."""
    if typing.get_origin(hint) is typing.Annotated:
        of, *notes = typing.get_args(hint)
        if of is Nanoseconds:
            return _SECONDS
        return _number(*(note for note in notes if isinstance(note, msgspec.Meta)))
    if hint is Nanoseconds:
        return _SECONDS
    if hint is Timestamp:
        return _TIME
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        held = [one for one in inner if one not in {types.NoneType, msgspec.UnsetType}]
        return _optional(kind_of(held[0]))
    if origin is tuple:
        return _many(kind_of(inner[0]), texts=inner[0] is str)
    if origin is dict:
        return _TEXT_MAP if inner[1] is str else _mapping(kind_of(inner[1]))
    if isinstance(hint, type) and issubclass(hint, Word):
        return _word(hint)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _part(hint)
    return {str: _TEXT, bool: _BOOL}.get(hint) or _number()


def _same(value: Any) -> Any:
    return value


def _give_age(ns: int) -> float | None:
    """Seconds since something; None if it has not happened, which servers send as -1."""
    return from_wire_ns(ns) if ns >= 0 else None


def _take_text(value: Any, name: str) -> str:
    return str(text(value, name))


def _take_bool(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: expected True or False")
    return value


def _take_time(value: Any, name: str) -> Timestamp:
    if isinstance(value, Timestamp):
        return value
    if not isinstance(value, datetime):
        raise TypeError(f"{name}={value!r}: expected a datetime with a time zone")
    if value.tzinfo is None:
        raise ValueError(f"{name}={value!r} has no time zone: use datetime(..., tzinfo=UTC)")
    return Timestamp(to_nanoseconds(value))


def _give_time(value: int) -> datetime | None:
    return from_nanoseconds(value) if value else None


def _take_texts(value: Any, name: str) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(
        isinstance(text, str) for pair in value.items() for text in pair
    ):
        raise TypeError(f"{name}={value!r}: expected a dict of str to str")
    return dict(value)


_TEXT = _Kind(_take_text, _same)
_BOOL = _Kind(_take_bool, _same)
_TIME = _Kind(_take_time, _give_time)
_SECONDS = _Kind(to_wire_ns, from_wire_ns)
_TEXT_MAP = _Kind(_take_texts, dict)


def _number(*bounds: msgspec.Meta) -> _Kind:
    least = max((note.ge for note in bounds if note.ge is not None), default=-(2**63))
    most = min((note.le for note in bounds if note.le is not None), default=2**63 - 1)

    def take(value: Any, name: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name}={value!r}: expected an int")
        if not least <= value <= most:
            raise ValueError(f"{name}={value}: expected {least} to {most}")
        return int(value)

    return _Kind(take, _same)


def _optional(kind: _Kind) -> _Kind:
    return _Kind(
        lambda value, name: None if value is None else kind.take(value, name),
        lambda value: None if value in (None, msgspec.UNSET) else kind.give(value),
    )


def _many(kind: _Kind, *, texts: bool) -> _Kind:
    def take(value: Any, name: str) -> tuple[Any, ...]:
        if texts and isinstance(value, str):
            value = (value,)
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise TypeError(f"{name}={value!r}: expected a list")
        return tuple(kind.take(one, f"{name}[{n}]") for n, one in enumerate(value))

    if kind.give is _same:
        return _Kind(take, _same)
    return _Kind(take, lambda value: tuple(kind.give(one) for one in value))


def _mapping(kind: _Kind) -> _Kind:
    def take(value: Any, name: str) -> dict[str, Any]:
        return {key: kind.take(one, f"{name}[{key!r}]") for key, one in dict(value).items()}

    if kind.give is _same:
        return _Kind(take, _same)
    return _Kind(take, lambda value: {key: kind.give(one) for key, one in value.items()})


def _word(words: type[Word]) -> _Kind:
    def take(value: Any, name: str) -> Word:
        if isinstance(value, words):  # also one that a newer server invented
            return value
        if isinstance(value, str) and value in words._value2member_map_:
            return words(value)
        expected = ", ".join(repr(member.value) for member in words)
        raise ValueError(f"{name}={value!r}: expected one of {expected}")

    return _Kind(take, _same)


def _part(struct: type[msgspec.Struct]) -> _Kind:
    """A nested struct: its model if it has one, else the struct itself."""
    model = _MODELS.get(struct)

    def take(value: Any, name: str) -> Any:
        if model is not None and isinstance(value, model):
            return to_wire(value)
        if isinstance(value, struct):
            return value
        if isinstance(value, str) and "name" in struct.__struct_fields__:
            return struct(name=value)
        expected = f"a {struct.__name__}"
        if "name" in struct.__struct_fields__:
            expected += " or a name"
        raise TypeError(f"{name}={value!r}: expected {expected}")

    if model is None:
        return _Kind(take, _same)
    return _Kind(take, lambda value: from_wire(model, value))
