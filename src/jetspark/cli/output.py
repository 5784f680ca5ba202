"""The output of all commands: tables, named values, messages, JSON.

Results go to standard output, everything else (questions, progress, what was done) to standard
error. On a terminal tables have lines and colours and fit its width; otherwise they are plain
columns, complete, one row per line. `--json` prints one document, `--ndjson` one line per item.
"""

import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple

import click

Form = Literal["text", "json", "ndjson"]
_PLAIN_WIDTH: Final = 80
_NARROWEST: Final = 8
_LEAST: Final = 5
# What a terminal would obey instead of show; \n and \t are harmless.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_STYLES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}

Rows = Sequence[Sequence[str]]
Fields = Iterable[tuple[str, object]]
Emit = Callable[[object], None]


def terminal_width() -> int | None:
    """The width of the terminal on standard output; None if it is none."""
    if not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size((_PLAIN_WIDTH, 24)).columns


def has_colour() -> bool:
    """Whether a terminal wants colours: https://no-color.org."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Column(NamedTuple):
    """A column of a table.

    Numbers are aligned to the right and never shortened; ``long`` texts are shortened first, and
    left out on a terminal that is too narrow for them.
    """

    name: str
    number: bool = False
    long: bool = False


class Output:
    """Where a command writes."""

    def __init__(self, form: Form = "text") -> None:
        self.form: Final = form
        self.width: Final = terminal_width() if form == "text" else None
        self._colour = self.width is not None and has_colour()

    @property
    def json(self) -> bool:
        """Whether JSON is wanted, of either form."""
        return self.form != "text"

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads the results."""
        return self.width is not None

    def line(self, text: str = "") -> None:
        """Write a line of the result."""
        click.echo(text)

    def say(self, text: str) -> None:
        """Write a line to standard error: what was done, what to do next."""
        click.echo(text, err=True)

    def done(self, text: str, **fields: object) -> None:
        """Report what a command has changed: a sentence, or ``fields`` as JSON."""
        if self.json:
            self.value(fields)
        else:
            self.say(text)

    def style(self, text: str, style: str) -> str:
        """A text in bold, dim, red, green or yellow, on terminals with colours."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self._colour else text

    # JSON

    def value(self, value: object) -> None:
        """Write one JSON document."""
        import msgspec

        encoded = to_json(value)
        if self.form == "json":
            encoded = msgspec.json.format(encoded, indent=2)
        click.echo(encoded)

    def values(self, values: Iterable[object]) -> None:
        """Write a list: an array, or a line for each."""
        with self.emitting() as emit:
            for value in values:
                emit(value)

    @contextmanager
    def emitting(self) -> Iterator[Emit]:
        """Write the items of a list as they come: an array, or a line for each."""
        if self.form == "ndjson":
            yield lambda value: click.echo(to_json(value))
            return
        count = 0

        def emit(value: object) -> None:
            nonlocal count
            click.echo("[\n" if count == 0 else ",\n", nl=False)
            click.echo(to_json(value), nl=False)
            count += 1

        try:
            yield emit
        except Exception:
            raise  # the document remains incomplete, as the list is
        except BaseException:  # interrupted: the list ends here
            click.echo("\n]" if count else "[]")
            raise
        click.echo("\n]" if count else "[]")

    # Text

    def table(self, title: str, columns: Sequence[Column | str], rows: Rows) -> None:
        """Write a table."""
        heads = [Column(one) if isinstance(one, str) else one for one in columns]
        cells = [[visible(cell) for cell in row] for row in rows]
        if self.width is None:
            self._plain_table(heads, cells)
        else:
            self._drawn_table(title, heads, cells, self.width)

    def fields(self, title: str, sections: Iterable[tuple[str, Fields]]) -> None:
        """Write named values in sections; values that are None or empty are left out."""
        if title:
            self.line(self.style(visible(title), "bold"))
        kept = [
            (head, [(name, value) for name, value in fields if value not in (None, "", (), [])])
            for head, fields in sections
        ]
        longest = max((len(name) for _, fields in kept for name, _ in fields), default=0)
        for head, fields in kept:
            if not fields:
                continue
            self.line()
            if head:
                self.line(self.style(f"{head}:", "bold"))
                self.line()
            for name, value in fields:
                several = isinstance(value, list | tuple)
                texts = [visible(str(one)) for one in value] if several else [visible(str(value))]  # type: ignore[attr-defined]
                for n, text in enumerate(texts):
                    label = f"{name}:" if n == 0 else ""
                    self.line(f"  {label:>{longest + 1}} {text}".rstrip())

    def data(self, data: bytes) -> None:
        """Write a payload: its bytes, or on a terminal a form that cannot harm it."""
        if self.is_terminal:
            self.line(_CONTROL.sub(_escaped, data.decode("utf-8", "backslashreplace")))
        else:
            click.echo(data)

    def _plain_table(self, heads: list[Column], cells: list[list[str]]) -> None:
        every = [[head.name for head in heads], *cells]
        widths = [max(text_width(row[n]) for row in every) for n in range(len(heads))]
        for row in every:
            self.line("  ".join(_aligned(row, heads, widths)).rstrip())

    def _drawn_table(
        self, title: str, heads: list[Column], cells: list[list[str]], width: int
    ) -> None:
        # Columns without a value tell nothing; programs get them, so that positions are stable.
        used = [n for n, _ in enumerate(heads) if not cells or any(row[n] for row in cells)]
        heads = [heads[n] for n in used]
        cells = [[row[n] for n in used] for row in cells]
        layout = _fitted(heads, cells, width)
        heads = [heads[n] for n in layout.columns]
        cells = [[row[n] for n in layout.columns] for row in cells]
        head_lines, widths = layout.head, layout.widths
        total = sum(widths) + 3 * len(heads) + 1
        if title:
            self.line(self.style(shortened(visible(title), width).center(total).rstrip(), "bold"))
        self.line("┌" + "┬".join("─" * (one + 2) for one in widths) + "┐")
        for line in head_lines:
            shown = [self.style(cell, "bold") for cell in _aligned(line, heads, widths)]
            self.line("│ " + " │ ".join(shown) + " │")
        self.line("├" + "┼".join("─" * (one + 2) for one in widths) + "┤")
        for row in cells:
            self.line("│ " + " │ ".join(_aligned(row, heads, widths)) + " │")
        self.line("└" + "┴".join("─" * (one + 2) for one in widths) + "┘")


def to_json(value: object) -> bytes:
    """A value as JSON, as servers write it: times as RFC 3339, structs of the wire unchanged."""
    import msgspec

    from jetspark.api.base import ApiStruct, encode

    def hook(part: object) -> object:
        from jetspark.client.models.base import Model, to_wire

        if isinstance(part, Model):
            part = to_wire(part)
        if isinstance(part, ApiStruct):
            return msgspec.Raw(encode(part))
        return str(part)

    if isinstance(value, Mapping):
        # A struct inside would be encoded without our form of times.
        value = {
            key: hook(part) if isinstance(part, ApiStruct) else part for key, part in value.items()
        }
    if isinstance(value, ApiStruct):
        return encode(value)
    return msgspec.json.encode(value, enc_hook=hook)


def visible(text: str) -> str:
    """A text on one line: control characters and line breaks become escapes."""
    if text.isprintable():
        return text
    return _CONTROL.sub(_escaped, text).replace("\n", "\\n").replace("\t", "\\t")


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def text_width(text: str) -> int:
    """Columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1
        for one in text
    )


def shortened(text: str, width: int) -> str:
    """A text that fits, with an ellipsis for what does not."""
    if text_width(text) <= width:
        return text
    while text and text_width(text) > width - 1:
        text = text[:-1]
    return text + "…"


def _aligned(row: Sequence[str], heads: list[Column], widths: list[int]) -> list[str]:
    texts = []
    for cell, head, width in zip(row, heads, widths, strict=True):
        text = shortened(cell, width)
        blank = " " * (width - text_width(text))
        texts.append(blank + text if head.number else text + blank)
    return texts


class _Layout(NamedTuple):
    """Which columns of a table are shown, the lines of its head, and the widths."""

    columns: list[int]
    head: list[list[str]]
    widths: list[int]


def _fitted(heads: list[Column], cells: list[list[str]], width: int) -> _Layout:
    """The layout of a table that fits a terminal.

    What gives way, in this order: long texts; names of columns, which take several lines; columns
    with long texts; names again, which are shortened; texts. Numbers never do.
    """
    columns = list(range(len(heads)))
    content = [max((text_width(row[n]) for row in cells), default=0) for n in columns]
    wide = [max(text_width(head.name), content[n]) for n, head in enumerate(heads)]
    least = [_NARROWEST if head.long else wide[n] for n, head in enumerate(heads)]
    widths = _shrunk(wide, least, _room(width, columns))
    if sum(widths) <= _room(width, columns):
        return _Layout(columns, [[head.name for head in heads]], widths)
    narrow = [
        max(content[n], *(text_width(word) for word in head.name.split()))
        for n, head in enumerate(heads)
    ]
    least = [min(_NARROWEST, one) if heads[n].long else one for n, one in enumerate(narrow)]
    if sum(least) > _room(width, columns):
        columns = [n for n, head in enumerate(heads) if not head.long]
    room = _room(width, columns)
    widths = _shrunk([narrow[n] for n in columns], [least[n] for n in columns], room)
    for least_text in (max(narrow), _NARROWEST, _LEAST):
        bounds = [max(content[n], _LEAST) if heads[n].number else least_text for n in columns]
        widths = _shrunk(widths, bounds, room)
    words = [heads[n].name.split() for n in columns]
    tallest = max(map(len, words), default=1)
    head = [
        [each[n - tallest + len(each)] if n >= tallest - len(each) else "" for each in words]
        for n in range(tallest)
    ]
    return _Layout(columns, head, widths)


def _room(width: int, columns: list[int]) -> int:
    """The width that a terminal leaves for the texts of a table, besides lines and blanks."""
    return width - 3 * len(columns) - 1


def _shrunk(widths: list[int], least: list[int], room: int) -> list[int]:
    """Take from the widest columns until they fit, or all have their least width."""
    widths = list(widths)
    while sum(widths) > room:
        able = [n for n, width in enumerate(widths) if width > least[n]]
        if not able:
            break
        widths[max(able, key=lambda n: widths[n])] -= 1
    return widths


def as_dict(value: object) -> Any:
    """A wire struct as plain values, to be changed or compared."""
    import msgspec

    return msgspec.json.decode(to_json(value))
