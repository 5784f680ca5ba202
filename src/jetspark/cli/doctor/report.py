"""The output of `jetspark doctor`: a table, or JSON."""

import json
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from jetspark.store.inspection import StreamClock, StreamFinding
from jetspark.store.upkeep.quarantine import Damage
from jetspark.units import format_bytes, format_duration, format_rfc3339


def as_json(
    folder: Path, findings: list[StreamFinding], foreign: list[Path], *, repair: bool
) -> str:
    """All findings as one JSON document."""
    document = {
        "store": str(folder),
        "repaired": repair,
        "healthy": not foreign and all(found.healthy for found in findings),
        # Healthy means nothing new: what was lost before stays lost.
        "known_damage": sum(len(found.damage) - found.new_damage for found in findings),
        "lost_messages": sum(found.lost_messages for found in findings),
        "uncounted_places": sum(found.uncounted_places for found in findings),
        "foreign": [str(path) for path in foreign],
        "streams": [msgspec.to_builtins(found) | {"healthy": found.healthy} for found in findings],
    }
    return _json(document)


def _json(document: dict[str, object]) -> str:
    """As text: names of files that are not UTF-8 are escaped when it is printed."""
    return json.dumps(document, indent=2, ensure_ascii=False)


def show(
    console: Console,
    folder: Path,
    findings: list[StreamFinding],
    foreign: list[Path],
    *,
    repair: bool,
) -> None:
    """Print all findings."""
    if findings:
        _show_streams(console, folder, findings, repair=repair)
    else:
        console.print(f"No streams in {escape(str(folder))}.")
    for found in findings:
        _show_details(console, folder, found)
    for path in foreign:
        console.print(
            f"{escape(str(path))} is not part of a jetspark store: move it away", highlight=False
        )
    _conclude(console, folder, findings, foreign, repair=repair)


def _show_streams(
    console: Console, folder: Path, findings: list[StreamFinding], *, repair: bool
) -> None:
    """A table; lines if the terminal is too narrow for it: truncated names are useless."""
    table = Table(title=f"Streams in {folder}")
    table.add_column("stream")
    for title in ("messages", "bytes", "on disk", "lost"):
        table.add_column(title, justify="right")
    table.add_column("damage")
    for found in findings:
        table.add_row(
            escape(found.name or found.folder),
            f"{found.messages:,}",
            format_bytes(found.bytes),
            format_bytes(found.disk_bytes),
            f"{found.lost_messages:,}" if found.lost_messages else "",
            _verdict(found, repair=repair),
        )
    wanted = console.measure(table, options=console.options.update(max_width=10_000)).maximum
    if wanted <= console.width:
        console.print(table)
        return
    for found in findings:
        lost = f"{found.lost_messages:,} lost, " if found.lost_messages else ""
        console.print(
            f"{escape(found.name or found.folder)}: {found.messages:,} messages, "
            f"{format_bytes(found.bytes)}, {format_bytes(found.disk_bytes)} on disk, {lost}"
            f"damage: {_verdict(found, repair=repair)}",
            highlight=False,
        )


def _verdict(found: StreamFinding, *, repair: bool) -> str:
    if found.error:
        return "[red]cannot be read[/red]"
    if found.new_damage:
        done = "quarantined" if repair else "new"
        return f"[red]{found.new_damage} ranges, {done}[/red]"
    if found.notes:
        return "[yellow]repaired[/yellow]" if repair else "[yellow]metadata[/yellow]"
    if found.second_to:
        return "[yellow]not served, see below[/yellow]"
    if found.damage:
        return "known, in quarantine"
    return "[green]none[/green]"


def _show_details(console: Console, folder: Path, found: StreamFinding) -> None:
    name = escape(found.name or found.folder)
    if found.second_to:
        console.print(
            f"{name}: {escape(found.folder)} is a second folder of this stream; a server serves "
            f"{escape(found.second_to)}. Export what you need with `jetspark doctor export "
            f"{escape(str(folder))} --stream {name} --folder {Path(found.folder).name} --out FILE`"
            ", then move the folder out of the store",
            highlight=False,
            soft_wrap=True,
        )
    if found.error:
        console.print(f"{name}: {escape(found.error)}")
    for damage in found.damage:
        console.print(f"{name}: {escape(_words(damage))}", highlight=False)
    for note in found.notes:
        console.print(f"{name}: {escape(note)}", highlight=False)
    if found.torn_bytes:
        console.print(
            f"{name}: {found.torn_bytes:,} bytes of an interrupted write; none of it "
            "was acknowledged",
            highlight=False,
        )


def _words(damage: Damage) -> str:
    lost = ""
    if damage.first_seq == damage.last_seq != 0:
        lost = f", message {damage.first_seq}"
    elif damage.first_seq:
        lost = (
            f", up to {damage.messages:,} of the messages {damage.first_seq:,} to "
            f"{damage.last_seq:,}"
        )
    if damage.offset < 0:
        return f"{damage.reason} ({damage.segment}){lost}"
    return (
        f"{damage.length:,} bytes at {damage.offset:,} of {damage.segment}: {damage.reason}{lost}"
    )


def _conclude(
    console: Console,
    folder: Path,
    findings: list[StreamFinding],
    foreign: list[Path],
    *,
    repair: bool,
) -> None:
    damaged = [found for found in findings if found.damage]
    if damaged:
        names = ", ".join(found.name or found.folder for found in damaged)
        lost = sum(found.lost_messages for found in damaged)
        text = f"messages lost: at most {lost:,}" if lost else "no messages lost"
        if any(found.uncounted_places for found in damaged):
            more = f"{text}; what else" if lost else "what"
            text = f"{more} was lost is unknown, see above"
        console.print(
            f"[yellow]Damaged: {escape(names)}; {text}.[/yellow]", highlight=False, soft_wrap=True
        )
    if any(found.error for found in findings):
        console.print("[red]Some streams cannot be read.[/red]")
    elif repair:
        console.print("[green]Everything that can be rebuilt was rebuilt.[/green]")
    elif damaged and all(found.healthy for found in findings) and not foreign:
        console.print("No new damage: every record is valid except those known as damaged.")
    elif all(found.healthy for found in findings) and not foreign:
        console.print("[green]Healthy: every record is valid.[/green]")
    elif any(found.new_damage or found.notes for found in findings):
        console.print(
            # The notes are those of a start: what they say was written is an overlay's.
            "Damage was found, and nothing was changed. "
            f"`jetspark doctor repair {escape(str(folder))}` quarantines damaged bytes and does "
            "what the lines above say was written, created or restored; every valid record is "
            "kept."
        )


def clocks_as_json(folder: Path, findings: list[StreamClock], *, repair: bool) -> str:
    """The clock findings as one JSON document."""
    document = {
        "store": str(folder),
        "repaired": repair,
        "healthy": not any(found.ahead and not found.repaired for found in findings),
        "streams": [
            msgspec.to_builtins(found) | {"ahead": found.ahead, "newest": _date(found.newest_ns)}
            for found in findings
        ],
    }
    return _json(document)


def show_clocks(
    console: Console, folder: Path, findings: list[StreamClock], *, repair: bool
) -> None:
    """Print the clock findings."""
    ahead = [found for found in findings if found.ahead]
    for found in ahead:
        text = (
            f"{escape(found.name)}: the newest time is {_date(found.newest_ns)}, "
            f"{_seconds(found.ahead_ns)} ahead of the clock of this machine"
        )
        if found.error:
            text += f"; [red]{escape(found.error)}[/red]"
        elif repair:
            text += f"; [green]{found.repaired:,} records were corrected[/green]"
        console.print(text, highlight=False, soft_wrap=True)
    if not ahead:
        console.print("No stream has times ahead of the clock of this machine.")
    elif not repair:
        console.print(
            f"Nothing was changed. If the clock of this machine is correct now, run "
            f"`jetspark doctor clock {escape(str(folder))} --repair`.",
            highlight=False,
            soft_wrap=True,
        )


def _date(time_ns: int) -> str:
    return format_rfc3339(time_ns) if time_ns else "none"


def _seconds(duration_ns: int) -> str:
    return format_duration(duration_ns // 1_000_000_000 * 1_000_000_000)
