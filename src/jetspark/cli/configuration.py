"""Configurations in files, JSON or YAML, and the difference of two.

Fields are named as on the wire, as `info --json` shows them; durations may be texts such as `1h`,
sizes such as `10MB`.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from jetspark.api.base import ApiStruct, decoder
from jetspark.cli.output import Output, as_dict
from jetspark.cli.quantities import parse_duration, parse_size, show_duration
from jetspark.errors.extras import extra
from jetspark.units import format_bytes

_S = TypeVar("_S", bound=ApiStruct)
_DURATIONS: Final = {
    "max_age", "duplicate_window", "subject_delete_marker_ttl", "inactive_threshold", "ack_wait",
    "max_expires", "idle_heartbeat", "priority_timeout",
}  # fmt: skip
_DURATION_LISTS: Final = {"backoff"}
_SIZES: Final = {"max_bytes", "max_msg_size"}


def read_config(path: Path, struct: type[_S]) -> _S:
    """Read the configuration of a stream or consumer from a file."""
    content = _content(path)
    if isinstance(content, dict) and isinstance(content.get("config"), dict):
        content = content["config"]  # what `info --json` prints, or the file of a backup
    if not isinstance(content, dict):
        raise click.ClickException(f"{path}: expected an object with fields such as name")
    for name in content:
        if name not in struct.__struct_fields__:
            close = get_close_matches(str(name), struct.__struct_fields__, 1)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise click.ClickException(f"{path}: unknown field {name!r}{meant}")
    try:
        return decoder(struct).decode(msgspec.json.encode(_in_numbers(content)))
    except (msgspec.MsgspecError, ValueError) as error:
        raise click.ClickException(f"{path}: {error}") from None


def _content(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise click.ClickException(f"{path}: not a text file") from None
    if path.suffix in {".yml", ".yaml"}:
        with extra("cli", "configurations in YAML need"):
            import yaml
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise click.ClickException(
                f"{path}: not valid YAML: {' '.join(str(error).split())}"
            ) from None
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        raise click.ClickException(
            f"{path}: not valid JSON: {error}; the name of a YAML file ends with .yaml"
        ) from None


def _in_numbers(content: Mapping[str, Any]) -> dict[str, Any]:
    """Texts of durations and sizes as the numbers of the wire."""
    found: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, dict) and name != "metadata":
            found[name] = _in_numbers(value)
        elif name in _DURATIONS and isinstance(value, str):
            found[name] = parse_duration(value)
        elif name in _DURATION_LISTS and isinstance(value, list):
            found[name] = [parse_duration(one) if isinstance(one, str) else one for one in value]
        elif name in _SIZES and isinstance(value, str):
            found[name] = parse_size(value)
        else:
            found[name] = value
    return found


def save_config(output: Output, path: Path, config: ApiStruct) -> None:
    """Write a configuration to a new file that --config reads."""
    text = msgspec.json.format(msgspec.json.encode(as_dict(config)), indent=2)
    try:
        with path.open("xb") as file:
            file.write(text + b"\n")
    except FileExistsError:
        raise click.ClickException(f"{path} exists: name another file, or remove it") from None
    output.done(f"Configuration saved in {path}", saved=str(path))


def difference(old: ApiStruct, new: ApiStruct) -> dict[str, tuple[Any, Any]]:
    """The fields that differ, with both values; entries of the server's metadata are ignored."""
    before, after = _compared(old), _compared(new)
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return {name: (before.get(name), after.get(name)) for name in names}


def _compared(config: ApiStruct) -> dict[str, Any]:
    found: dict[str, Any] = as_dict(config)
    kept = {k: v for k, v in found.pop("metadata", {}).items() if not k.startswith("_nats.")}
    if kept:
        found["metadata"] = kept
    for name in ("subjects", "filter_subjects"):
        if name in found:
            found[name] = sorted(found[name])
    return found


def show_difference(output: Output, changed: Mapping[str, tuple[Any, Any]]) -> None:
    """Write the difference, one line for each old and new value."""
    output.line("Differences (-old +new):")
    for name, (old, new) in changed.items():
        for sign, value, style in (("-", old, "red"), ("+", new, "green")):
            if value is not None:
                output.line(output.style(f"  {sign} {name}: {_shown(name, value)}", style))


def _shown(name: str, value: Any) -> str:
    if name in _DURATIONS and isinstance(value, int):
        return show_duration(value)
    if name in _SIZES and isinstance(value, int) and value > 0:
        return f"{format_bytes(value)} ({value})"
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
