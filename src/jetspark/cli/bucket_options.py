"""The settings that buckets and object stores share: their options, and what they change."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from jetspark.cli.quantities import (
    LIMIT_DURATION,
    METADATA,
    REPLICAS,
    SIZE,
    show_limit,
    show_seconds,
)

_Declared = TypeVar("_Declared", bound=Callable[..., Any])
Changes = dict[str, tuple[Any, Any]]

COMMON: Final = (
    click.option("--description", help="A description."),
    click.option("--ttl", type=LIMIT_DURATION, help="How long values are kept: 7d; -1: forever."),
    click.option("--replicas", type=REPLICAS, help="Copies in a cluster."),
    click.option("--max-bucket-size", type=SIZE, help="Maximum size: 1GB; -1: no limit."),
    click.option("--tags", multiple=True, help="Place it on servers with this tag."),
    click.option("--cluster", help="Place it in this cluster."),
    click.option("--compress/--no-compress", default=None, help="Compress the stored data."),
    click.option("--metadata", type=METADATA, multiple=True, help="Metadata; may be repeated."),
)
STORAGE: Final = click.option(
    "--storage", type=click.Choice(("file", "f", "memory", "m")), help="Where it is stored."
)


def declare(options: tuple[Any, ...]) -> Callable[[_Declared], _Declared]:
    """Add options to a command."""

    def added(described: _Declared) -> _Declared:
        decorated: Any = described
        for option in reversed(options):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return added


def common_settings(flags: dict[str, Any], current: Any) -> dict[str, Any]:
    """The settings for the options that were given; ``current`` is the configuration so far."""
    names = {
        "description": "description",
        "ttl": "ttl",
        "replicas": "replicas",
        "max_bucket_size": "max_bytes",
        "compress": "compression",
    }
    found = {field: flags[name] for name, field in names.items() if flags[name] is not None}
    if flags.get("storage") is not None:
        found["storage"] = "memory" if flags["storage"].startswith("m") else "file"
    if flags["metadata"]:
        found["metadata"] = {**current.metadata, **dict(flags["metadata"])}
    if flags["tags"] or flags["cluster"] is not None:
        from jetspark.client.models.stream import Placement

        old = current.placement or Placement()
        cluster = old.cluster if flags["cluster"] is None else flags["cluster"]
        tags = tuple(flags["tags"]) or old.tags
        found["placement"] = Placement(cluster=cluster, tags=tags) if cluster or tags else None
    return found


def changed_settings(old: Any, new: Any, names: tuple[str, ...]) -> Changes:
    """The settings that differ, with both values as `show_difference` writes them."""
    found: Changes = {}
    for name in names:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            found[name] = (_shown(name, before), _shown(name, after))
    return found


def _shown(name: str, value: Any) -> Any:
    if name in {"ttl", "limit_marker_ttl"}:
        return show_seconds(value) if value else "unlimited"
    if name in {"max_bytes", "max_value_size"}:
        return show_limit(value)
    if name in {"mirror", "sources"}:
        sources = value if isinstance(value, tuple) else (value,) if value else ()
        return ", ".join(source.name for source in sources) or None
    if name == "placement":
        if value is None:
            return None
        return ", ".join(one for one in (value.cluster, *value.tags) if one)
    if name == "republish":
        return None if value is None else f"{value.src or '>'} to {value.dest}"
    return value
