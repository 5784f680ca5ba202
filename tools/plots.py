"""Write the plots of docs/benchmarks.md from the figures on that page: python tools/plots.py.

    python tools/plots.py            rewrite docs/plots
    python tools/plots.py --check    exit 1 if one of them is outdated

One source of figures: who updates the tables of the page runs this, and a test compares.
"""

import argparse
import math
import re
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
FOLDER = ROOT / "docs" / "plots"
# A row of a table: its name, their figure, ours, the ratio.
ROW = re.compile(
    r"^(?P<name>\S.*?) {2,}(?P<theirs>[\d,]+)(?:/s)? +"
    r"(?P<ours>[\d,]+)(?:/s)? +(?P<ratio>\d+\.\d\d)\b"
)
LEFT, RIGHT, TOP, STEP, BAR = 270, 150, 56, 22, 12
WIDTH = 860
INK, GRID, OURS, LESS = "#1b1f24", "#d0d7de", "#2f81c7", "#d9822b"
Row = tuple[str, int, int, float]


def tables() -> dict[str, list[Row]]:
    """The rows of each table that compares two systems, by the first line of the table."""
    found: dict[str, list[Row]] = {}
    for block in re.findall(
        r"^```text\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    ):
        rows = [
            (match["name"].rstrip(" *"), *numbers(match), float(match["ratio"]))
            for line in block.splitlines()
            if (match := ROW.match(line))
        ]
        if rows:
            title = next(
                line for line in block.splitlines() if "ratio" in line or "replica" in line
            )
            found[title] = rows
    return found


def numbers(match: re.Match[str]) -> tuple[int, int]:
    """Both figures of a row."""
    return int(match["theirs"].replace(",", "")), int(match["ours"].replace(",", ""))


def short(value: int) -> str:
    """A rate for a label: 1,234,567 as 1.23M."""
    for size, name in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:.3g}{name}"
    return str(value)


def text(x: float, y: float, content: str, more: str = "") -> str:
    """A line of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{INK}" {more}>{escape(content)}</text>'


def draw(title: str, other: str, rows: list[Row]) -> str:
    """Bars of the ratio on a log scale, with both rates at the end of each."""
    low = min(-1, math.floor(min(math.log2(row[3]) for row in rows)))
    high = max(1, math.ceil(max(math.log2(row[3]) for row in rows)))
    height = TOP + STEP * len(rows) + 34

    def place(ratio: float) -> float:
        share = (math.log2(ratio) - low) / (high - low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="white"/>',
        text(16, 26, title, 'font-size="16" font-weight="bold"'),
        text(
            16,
            44,
            f"jetspark compared with {other}; right of 1 is faster. Rates: {other}, jetspark",
        ),
    ]
    for power in range(low, high + 1):
        x = place(2.0**power)
        width = 1.5 if power == 0 else 0.7
        colour = INK if power == 0 else GRID
        bottom = TOP + STEP * len(rows)
        parts.append(
            f'<path d="M{x:.1f} {TOP}V{bottom}" stroke="{colour}" stroke-width="{width}"/>'
        )
        label = f"{2**power}" if power >= 0 else f"1/{2**-power}"
        parts.append(text(x, bottom + 18, label, 'text-anchor="middle"'))
    for at, (name, theirs, ours, ratio) in enumerate(rows):
        y = TOP + STEP * at + (STEP - BAR) / 2
        start, end = sorted((place(1), place(ratio)))
        colour = OURS if ratio >= 1 else LESS
        parts.append(text(LEFT - 12, y + 10, name, 'text-anchor="end"'))
        parts.append(
            f'<rect x="{start:.1f}" y="{y:.1f}" width="{max(end - start, 1):.1f}" height="{BAR}" '
            f'rx="2" fill="{colour}"/>'
        )
        parts.append(
            text(WIDTH - RIGHT + 16, y + 10, f"{ratio:.2f}: {short(theirs)}, {short(ours)}")
        )
    return "\n".join([*parts, "</svg>\n"])


def plots() -> dict[str, str]:
    """All files by name."""
    found = list(tables().items())
    kinds = (
        ("server.svg", "Server", "nats-server"),
        ("replica.svg", "Read replica", "its leader"),
        ("many-streams.svg", "Many streams", "nats-server"),
        ("client.svg", "Client", "nats-py"),
        ("spark.svg", "Spark", "nats-py"),
    )
    return {
        name: draw(title, other, rows)
        for (name, title, other), (_, rows) in zip(kinds, found, strict=True)
    }


def main() -> int:
    """Write the files, or compare them."""
    parser = argparse.ArgumentParser(description="write docs/plots from docs/benchmarks.md")
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 if outdated")
    check = parser.parse_args().check
    FOLDER.mkdir(exist_ok=True)
    stale = [
        name
        for name, content in plots().items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_text("utf-8") != content
    ]
    for name in stale:
        print(f"docs/plots/{name}: {'outdated' if check else 'written'}")
        if not check:
            (FOLDER / name).write_text(plots()[name], "utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
