"""A project: Spark's spec, and the streams and buckets it needs.

All errors in the files are one line that names the file, raised before Spark is started.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from jetspark.api.stream import StreamConfig
from jetspark.client.jetstream.kv.config import BucketSettings
from jetspark.errors import Error
from jetspark.errors.extras import check_extra, extra
from jetspark.units import parse_duration

SPEC_NAMES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
RESOURCES_NAME: Final = "jetspark.yml"
SAMPLES_FOLDER: Final = "samples"
WAREHOUSE_FOLDER: Final = "warehouse"

# The settings that transformations read: the server, and the bucket of the ledger.
SERVERS_SETTING: Final = "spark.jetspark.servers"
LEDGER_SETTING: Final = "spark.jetspark.ledger"

_RESOURCE_FIELDS: Final = ("streams", "buckets", "ledger", "progress")
_SPEC_FIELDS: Final = ("name", "storage", "catalog", "database", "schema", "configuration")


EXTRA: Final = ("pipelines", "pipelines need")
# The imports of Spark's pipelines, all in the extra `pipelines` (docs/dependencies.md).
_PACKAGES: Final = (
    "pyspark",
    "pyarrow",
    "pandas",
    "yaml",
    "grpc",
    "grpc_status",
    "google.protobuf",
    "zstandard",
)

# Settings that may be strings such as 2m; numbers are nanoseconds, as on the wire.
DURATIONS: Final = (
    "max_age",
    "duplicate_window",
    "subject_delete_marker_ttl",
    "ttl",
    "limit_marker_ttl",
)


class PipelineRefused(Error):
    """A project that cannot be run; the text says why and what to do."""


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of ``jetspark.yml``."""

    streams: tuple[StreamConfig, ...] = ()
    buckets: tuple[BucketSettings, ...] = ()
    ledger: str = ""
    """The bucket of the exactly-once ledger (docs/spark.md), one of ``buckets``."""
    progress: str = ""
    """The bucket in which a continuous run reports the state of its flows, one of ``buckets``."""
    asked: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """For each ``stream NAME`` and ``bucket NAME``: the settings in the file."""


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline project on disk."""

    root: Path
    spec: Path
    name: str
    storage: Path
    catalog: str = "spark_catalog"
    database: str = "default"
    configuration: dict[str, str] = msgspec.field(default_factory=dict)
    includes: tuple[str, ...] = ()
    """Patterns of source files, relative to the root."""
    resources: Resources = Resources()

    @property
    def warehouse(self) -> Path:
        """The folder of the tables."""
        return self.root / WAREHOUSE_FOLDER

    @property
    def metastore(self) -> Path:
        """The folder of Derby's catalog: a database that one process at a time can open."""
        return self.storage / "metastore"

    @property
    def checkpoints(self) -> Path:
        """The folder where Spark's runner keeps the checkpoints of all flows."""
        return self.storage / "_checkpoints"

    def sources(self) -> Iterator[Path]:
        """Yield the files that define the pipeline, in loading order."""
        for include in self.includes:
            # Spark's rule: "folder/**" is every file below the folder.
            pattern = f"{include}/*" if include.endswith("/**") else include
            for path in sorted(self.root.glob(pattern)):
                if path.is_file() and "__pycache__" not in path.parts:
                    yield path


def find_project(place: Path) -> Path:
    """Return the spec of the project at or above ``place``; ``place`` may be the spec."""
    if place.is_file():
        return place.resolve()
    if not place.is_dir():
        raise PipelineRefused(f"{place} does not exist: give a project folder or its spec")
    for folder in (place.resolve(), *place.resolve().parents):
        found = [folder / name for name in SPEC_NAMES if (folder / name).is_file()]
        if len(found) > 1:
            raise PipelineRefused(f"{folder} has both {' and '.join(SPEC_NAMES)}: remove one")
        if found:
            return found[0]
    raise PipelineRefused(
        f"no {SPEC_NAMES[0]} in {place.resolve()} or above it: change to the project folder, "
        "name it with --project, or create one with: jetspark pipeline init NAME"
    )


def load_project(spec: Path) -> Project:
    """Load and check a project; raises ``PipelineRefused``."""
    content = _mapping(spec)
    known = (*_SPEC_FIELDS, "libraries")
    for field in content:
        if field not in known:
            raise _wrong(spec, f"unknown field {field!r} (expected one of {', '.join(known)})")
    for field in ("name", "storage"):
        if not isinstance(content.get(field), str) or not content[field]:
            raise _wrong(spec, f"{field!r} is missing, or not a string")
    if "database" in content and "schema" in content:
        raise _wrong(spec, "'database' and 'schema' are synonyms: give one of them")
    project = Project(
        root=spec.parent,
        spec=spec,
        name=content["name"],
        storage=_storage(spec, content["storage"]),
        catalog=_text(spec, content, "catalog", "spark_catalog"),
        database=_text(spec, content, "database", _text(spec, content, "schema", "default")),
        configuration=_configuration(spec, content.get("configuration", {})),
        includes=tuple(_includes(spec, content.get("libraries", []))),
        resources=load_resources(spec.parent / RESOURCES_NAME),
    )
    if not any(True for _ in project.sources()):
        raise _wrong(spec, f"'libraries' matches no file: {', '.join(project.includes)}")
    for path in project.sources():
        if path.suffix not in {".py", ".sql"}:
            raise _wrong(spec, f"'libraries' matches {path.name}, which is neither .py nor .sql")
    return project


def load_resources(path: Path) -> Resources:
    """Load ``jetspark.yml``; a project without one needs nothing."""
    if not path.exists():
        return Resources()
    content = _mapping(path)
    for field in content:
        if field not in _RESOURCE_FIELDS:
            known = ", ".join(_RESOURCE_FIELDS)
            raise _wrong(path, f"unknown field {field!r} (expected {known})")
    resources = Resources(
        streams=tuple(_named(path, content, "streams", "name", StreamConfig)),
        buckets=tuple(_named(path, content, "buckets", "bucket", BucketSettings)),
        ledger=_text(path, content, "ledger", ""),
        progress=_text(path, content, "progress", ""),
        asked={
            f"{field.removesuffix('s')} {name}": tuple(settings or ())
            for field in ("streams", "buckets")
            for name, settings in (content.get(field) or {}).items()
        },
    )
    buckets = {one.bucket for one in resources.buckets}
    for field, name in (("ledger", resources.ledger), ("progress", resources.progress)):
        if name and name not in buckets:
            raise _wrong(path, f"{field!r} names {name!r}, which is not among the buckets")
    return resources


def _mapping(path: Path) -> dict[str, Any]:
    with extra(*EXTRA):
        import yaml
    try:
        content = _read_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(path, str(error)) from error
    except yaml.YAMLError as error:
        text = " ".join(str(error).split())
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
            mark = error.problem_mark
            text = f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
        raise _wrong(path, f"not valid YAML: {text}") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise _wrong(path, "expected a mapping, lines of the form 'key: value'")
    return content


def _read_yaml(text: str) -> Any:
    """Parse YAML, refusing duplicate keys: PyYAML would use the last one."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen: set[Any] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if key.value in seen:
                        raise yaml.constructor.ConstructorError(
                            None, None, f"duplicate key {key.value!r}", key.start_mark
                        )
                    seen.add(key.value)
            found: dict[Any, Any] = super().construct_mapping(node, deep=deep)
            return found

    return yaml.load(text, Loader)  # noqa: S506 - a safe loader


def check_packages() -> None:
    """Refuse at once if a package is missing that Spark needs only later in its start."""
    check_extra(*EXTRA, *_PACKAGES)


def _storage(spec: Path, text: str) -> Path:
    parts = urlsplit(text)
    path = Path(unquote(parts.path))
    if parts.scheme != "file" or parts.netloc not in {"", "localhost"} or not path.is_absolute():
        raise _wrong(
            spec, f"'storage' is {text!r}: expected an absolute URI such as file:///data/x"
        )
    return path


def _text(path: Path, content: dict[str, Any], field: str, default: str) -> str:
    value = content.get(field, default)
    if not isinstance(value, str):
        raise _wrong(path, f"{field!r} is not a string")
    return value


def _configuration(spec: Path, value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise _wrong(spec, "'configuration' is not a mapping")
    for key, setting in value.items():
        if not isinstance(key, str) or not isinstance(setting, str):
            raise _wrong(spec, f"'configuration': {key}: {setting!r} is not a string: quote it")
    return value


def _includes(spec: Path, libraries: object) -> Iterator[str]:
    for entry in libraries if isinstance(libraries, list) else [libraries]:
        include = None
        if isinstance(entry, dict) and isinstance(entry.get("glob"), dict):
            include = entry["glob"].get("include")
        if not isinstance(include, str):
            raise _wrong(spec, "'libraries' is not a list such as glob: {include: a/**}")
        if "*" in include.removesuffix("/**") or "?" in include or "[" in include:
            raise _wrong(spec, f"'libraries': {include!r} is neither a file nor a folder/**")
        yield include


def _named(
    path: Path, content: dict[str, Any], field: str, key: str, kind: type[Any]
) -> Iterator[Any]:
    """Yield the named entries of a field as ``kind``, whose field ``key`` is the name."""
    entries = content.get(field) or {}
    if not isinstance(entries, dict):
        raise _wrong(path, f"{field!r} is not a mapping")
    model = msgspec.inspect.type_info(kind)
    for name, settings in entries.items():
        settings = settings or {}  # noqa: PLW2901
        if not isinstance(settings, dict):
            raise _wrong(path, f"{field}: {name} is not a mapping")
        unknown = key if key in settings else _unknown(settings, model)
        if unknown is not None:
            raise _wrong(path, f"{field}: {name}: unknown setting {unknown!r}")
        try:
            durations = {
                setting: parse_duration(value)
                for setting, value in settings.items()
                if setting in DURATIONS and isinstance(value, str)
            }
            yield msgspec.convert({**settings, **durations, key: name}, kind)
        except (msgspec.ValidationError, ValueError) as error:
            raise _wrong(path, f"{field}: {name}: {error}") from None


def _unknown(value: object, model: msgspec.inspect.Type) -> str | None:
    """Return the first name, at any depth, that ``model`` does not have."""
    match model:
        case msgspec.inspect.UnionType():
            found = (_unknown(value, one) for one in model.types)
        case msgspec.inspect.StructType() if isinstance(value, dict):
            fields = {field.encode_name: field.type for field in model.fields}
            found = (
                _unknown(one, fields[name]) if name in fields else str(name)
                for name, one in value.items()
            )
        case msgspec.inspect.VarTupleType() if isinstance(value, list):
            found = (_unknown(one, model.item_type) for one in value)
        case _:
            return None
    return next((name for name in found if name is not None), None)


def _wrong(path: Path, text: str) -> PipelineRefused:
    return PipelineRefused(f"{path.name}: {text}")
