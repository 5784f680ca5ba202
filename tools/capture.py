"""Write docs/capture.svg, a picture of a terminal with real commands: make capture.

Starts a server in a temporary folder, runs the commands below on a pseudo terminal, and draws what
they print. The drawing is ours: a grid of cells with the colours of SGR sequences.
"""

import argparse
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from jetspark import sync

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "capture.svg"
# Each fits into a line with its prompt.
COMMANDS = (
    'jetspark pub orders.eu.new \'{"id": 1, "item": "book"}\' --jetstream',
    "jetspark pub orders.us.new 'order {{.Count}}' --jetstream --count 999 --quiet",
    "jetspark stream ls --all",
    "jetspark stream get ORDERS 1 --raw",
    "jetspark consumer next ORDERS billing --raw",
    "jetspark kv put SETTINGS color blue && jetspark kv get SETTINGS color --raw",
)
COLUMNS, ROWS = 92, 50
CELL_W, CELL_H, MARGIN, BAR = 8.4, 17.0, 16, 34
PAPER, INK = "#10161d", "#d7dde4"
COLOURS = {
    30: "#5b6672", 31: "#ff7b72", 32: "#7ee787", 33: "#e3b341",
    34: "#6cb6ff", 35: "#d2a8ff", 36: "#76e3ea", 37: INK,
}  # fmt: skip
SGR = re.compile(r"\x1b\[([\d;]*)m")
# What a terminal draws nothing for: other control sequences, carriage returns.
UNSEEN = re.compile(r"\x1b\[[\d;?]*[A-Za-ln-z]|\x1b\][^\x07]*\x07|\r")


@dataclass(frozen=True)
class Style:
    """How a run of text looks."""

    colour: str = INK
    bold: bool = False
    dim: bool = False

    def changed(self, codes: list[int]) -> "Style":
        """The style after an SGR sequence."""
        style = self
        for code in codes:
            if code == 0:
                style = Style()
            elif code in {1, 2, 22}:
                style = replace(style, bold=code == 1, dim=code == 2)
            elif code == 39:
                style = replace(style, colour=INK)
            elif code in COLOURS or code - 60 in COLOURS:
                style = replace(style, colour=COLOURS.get(code) or COLOURS[code - 60])
        return style


def run(command: str, url: str, folder: str) -> str:
    """What a command prints on a terminal."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "NATS_URL": url, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    environment |= {"HOME": folder, "TZ": "UTC"}
    process = subprocess.Popen(
        ["bash", "-c", command],
        stdin=child, stdout=child, stderr=child, env=environment, close_fds=True,
    )  # fmt: skip
    os.close(child)
    printed = bytearray()
    while select.select([parent], [], [], 30)[0]:
        try:
            chunk = os.read(parent, 65536)
        except OSError:  # the other side is closed
            break
        if not chunk:
            break
        printed += chunk
    os.close(parent)
    if process.wait():
        raise SystemExit(f"{command}: exit code {process.returncode}\n{printed.decode()}")
    return printed.decode()


def session() -> str:
    """The whole terminal: prompts, commands and what they print."""
    with TemporaryDirectory() as folder, sync.Server(store_dir=folder) as server:
        with sync.connect(server.client_url) as client:
            js = client.jetstream()
            js.create_stream("ORDERS", subjects=["orders.>"], allow_direct=True)
            js.create_consumer("ORDERS", durable="billing")
            js.create_key_value("SETTINGS", history=5)
            js.create_object_store("REPORTS").put("2026.pdf", bytes(120_000))
        lines = []
        for command in COMMANDS:
            lines.append(f"\x1b[94m$\x1b[0m \x1b[1m{command}\x1b[0m\n")
            output = UNSEEN.sub("", run(command, server.client_url, folder))
            lines.append(output if output.endswith("\n") or not output else f"{output}\n")
    return "".join(lines)


def width(text: str) -> int:
    """Cells of a text."""
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def runs(line: str, style: Style) -> Iterator[tuple[str, Style]]:
    """The parts of a line that look the same; the last one may be empty and has the next style."""
    at = 0
    for match in SGR.finditer(line):
        yield line[at : match.start()], style
        style = style.changed([int(code or 0) for code in match[1].split(";")])
        at = match.end()
    yield line[at:], style


def draw(text: str) -> str:
    """The terminal as SVG."""
    lines = text.rstrip("\n").split("\n")
    wide = MARGIN * 2 + COLUMNS * CELL_W
    high = BAR + MARGIN + len(lines) * CELL_H
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high:.0f}" '
            f'width="{wide:.0f}" height="{high:.0f}" '
            'font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" '
            'font-size="14">'
        ),
        "<title>A terminal: messages are stored, listed and read with jetspark</title>",
        f'<rect width="{wide:.0f}" height="{high:.0f}" rx="8" fill="{PAPER}"/>',
        *(
            f'<circle cx="{MARGIN + 8 + 20 * at}" cy="17" r="6" fill="{colour}"/>'
            for at, colour in enumerate((COLOURS[31], COLOURS[33], COLOURS[32]))
        ),
    ]
    style = Style()
    for number, line in enumerate(lines):
        column = 0
        y = BAR + (number + 0.75) * CELL_H
        for part, look in list(runs(line, style)):
            style = look
            cells = width(part)
            if part.strip():
                weight = ' font-weight="bold"' * look.bold + ' opacity="0.7"' * look.dim
                parts.append(
                    f'<text x="{MARGIN + column * CELL_W:.1f}" y="{y:.1f}" fill="{look.colour}"'
                    f'{weight} textLength="{cells * CELL_W:.1f}" lengthAdjust="spacingAndGlyphs" '
                    f'xml:space="preserve">{escape(part)}</text>'
                )
            column += cells
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    """Run the commands and write the picture."""
    parser = argparse.ArgumentParser(description="write docs/capture.svg")
    parser.add_argument("--out", type=Path, default=TARGET)
    out: Path = parser.parse_args().out
    out.write_text(draw(session()), encoding="utf-8")
    print(out)


if __name__ == "__main__":
    main()
