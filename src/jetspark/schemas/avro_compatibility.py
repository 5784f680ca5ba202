"""Which changes of an Avro schema keep payloads readable: the specification's schema resolution.

Stricter in one point: a promotion that would round numbers (long to double, int to float) is a
problem here. Schemas are those that `avro.record_of` accepts: unions only with null.
"""

from collections.abc import Mapping
from typing import Any, Final

# A reader's type, and the writer's types that it holds exactly.
_PROMOTED: Final = {
    "long": ("int",),
    "double": ("int", "float"),
    "string": (),
    "bytes": ("string",),
}


def avro_problems(reader: Mapping[str, Any], writer: Mapping[str, Any]) -> list[str]:
    """Return why payloads of ``writer`` could not be resolved to ``reader`` (parsed schemas)."""
    return _Comparison(reader["__named_schemas"], writer["__named_schemas"]).record(
        reader, writer, ""
    )


class _Comparison:
    """Compares two schemas, each with its named types."""

    def __init__(self, reader_names: Mapping[str, Any], writer_names: Mapping[str, Any]) -> None:
        self._reader_names = reader_names
        self._writer_names = writer_names

    def record(self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: str) -> list[str]:
        """Compare two records; fields are found by name, or by an alias of the reader."""
        written = {field["name"]: field for field in writer["fields"]}
        problems: list[str] = []
        for field in reader["fields"]:
            where = f"{path}.{field['name']}" if path else field["name"]
            names = [field["name"], *field.get("aliases", ())]
            old = next((written[name] for name in names if name in written), None)
            if old is not None:
                problems += self.any(field["type"], old["type"], where)
            elif "default" not in field:
                problems.append(f"{where} has no default, and they do not have it")
        return problems

    def any(self, reader: Any, writer: Any, path: str) -> list[str]:
        """Compare types of the same place, with null or without."""
        wanted, wanted_null = _branches(reader)
        given, given_null = _branches(writer)
        if given_null and not wanted_null:
            return [f"{path} is not nullable, and they may have null there"]
        wide = [one for one in wanted if all(not self._one(one, old, path) for old in given)]
        if wide or not given:
            return []
        if len(wanted) == 1 == len(given):
            return self._one(wanted[0], given[0], path)
        return [f"{path} is {_shown(reader)}, which does not hold every {_shown(writer)}"]

    def _one(self, reader: Any, writer: Any, path: str) -> list[str]:
        reader = self._declared(reader, self._reader_names)
        writer = self._declared(writer, self._writer_names)
        wanted, given = _kind(reader), _kind(writer)
        refused = [f"{path} is {_shown(reader)}, which does not hold every {_shown(writer)}"]
        if wanted != given:
            promoted = given in _PROMOTED.get(wanted, ())
            return [] if promoted and not (_is_logical(reader) or _is_logical(writer)) else refused
        match wanted:
            case "record":
                if _short(reader) != _short(writer) and not _is_alias(reader, writer):
                    return [f"{path} is record {reader['name']}, and {writer['name']} there"]
                return self.record(reader, writer, path)
            case "array":
                return self.any(reader["items"], writer["items"], f"{path}[]")
            case "map":
                return self.any(reader["values"], writer["values"], f"{path}.value")
            case "enum":
                return _enum_problems(reader, writer, path)
            case "fixed" if reader["size"] != writer["size"]:
                return refused
        return [] if _logical(reader) == _logical(writer) else refused

    @staticmethod
    def _declared(given: Any, names: Mapping[str, Any]) -> Any:
        return names.get(given, given) if isinstance(given, str) else given


def _enum_problems(reader: Any, writer: Any, path: str) -> list[str]:
    if _short(reader) != _short(writer) and not _is_alias(reader, writer):
        return [f"{path} is enum {reader['name']}, and {writer['name']} there"]
    missing = [one for one in writer["symbols"] if one not in reader["symbols"]]
    if not missing or "default" in reader:
        return []
    return [f"enum {reader['name']} of {path} does not have {', '.join(missing)}, and no default"]


def _branches(given: Any) -> tuple[list[Any], bool]:
    if not isinstance(given, list):
        return [given], False
    kept = [one for one in given if one != "null"]
    return kept, len(kept) < len(given)


def _kind(given: Any) -> str:
    kind = given if isinstance(given, str) else given["type"]
    return kind if isinstance(kind, str) else _kind(kind)


def _is_logical(given: Any) -> bool:
    return isinstance(given, Mapping) and "logicalType" in given


def _logical(given: Any) -> list[Any]:
    if not isinstance(given, Mapping):
        return [None, None, 0]
    return [given.get("logicalType"), given.get("precision"), given.get("scale", 0)]


def _short(given: Mapping[str, Any]) -> str:
    """The name without its namespace, by which the specification compares."""
    return str(given["name"]).rpartition(".")[2]


def _is_alias(reader: Mapping[str, Any], writer: Mapping[str, Any]) -> bool:
    return writer["name"] in reader.get("aliases", ())


def _shown(given: Any) -> str:
    if isinstance(given, list):
        return f"a union of {', '.join(map(_shown, given))}"
    if isinstance(given, str):
        return given
    return str(given.get("logicalType") or given.get("name") or given["type"])
