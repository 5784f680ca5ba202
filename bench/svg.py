"""Line charts as SVG, without a plotting library: panels of one figure in a grid."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 340, 230
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 30, 40
COLUMNS = 3
HEAD, FOOT = 34, 30
COLOURS = ("#d9822b", "#3b6ea8", "#5b8c3e", "#b03a2e", "#7a5195", "#555555")
DECADE = 10.0

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """One chart: a line per name. ``log_x`` and ``log_y``: positive values on a log scale."""

    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, Points]
    log_x: bool = True
    log_y: bool = False


class Axis:
    """Values to pixels, and where to put marks."""

    def __init__(self, values: Sequence[float], *, log: bool, start: float, end: float) -> None:
        self._log = log
        low, high = 0.0, max(values)
        if log:
            low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(high))
            high = max(high, low + 1)
        else:
            high = _round_up(high) if high > 0 else 1.0
        self._low, self._high = float(low), float(high)
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        """The pixel of a value."""
        place = math.log10(value) if self._log else value
        share = (place - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)

    def marks(self) -> list[float]:
        """Values that get a mark."""
        if self._log:
            count = int(self._high - self._low)
            step = max(1, count // 5)
            return [DECADE**power for power in range(int(self._low), int(self._high) + 1, step)]
        return [self._high * part / 4 for part in range(5)]


def figure(title: str, panels: Sequence[Panel]) -> str:
    """Draw the panels with one legend for all of them."""
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    width, height = columns * WIDTH, HEAD + rows * HEIGHT + FOOT
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(names)}
    size = f'width="{width}" height="{height}"'
    box = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box}>',
        f'<rect {size} fill="white"/>',
        _text(12, 22, title, size=15, weight="bold"),
    ]
    for at, panel in enumerate(panels):
        column, row = at % columns * WIDTH, HEAD + at // columns * HEIGHT
        parts.append(f'<g transform="translate({column} {row})">')
        parts += _panel(panel, colours)
        parts.append("</g>")
    x = 14.0
    for name in names:
        y = height - 12
        parts.append(_line([(x, y - 4), (x + 20, y - 4)], colours[name], 2))
        parts.append(_text(x + 26, y, name))
        x += 46 + 6.5 * len(name)
    parts.append("</svg>\n")
    return "\n".join(parts)


def _panel(panel: Panel, colours: Mapping[str, str]) -> list[str]:
    parts = [_text(LEFT, 18, panel.title, size=12, weight="bold")]
    lines = {
        name: [
            (x, y) for x, y in points if (x > 0 or not panel.log_x) and (y > 0 or not panel.log_y)
        ]
        for name, points in panel.lines.items()
    }
    points = [point for line in lines.values() for point in line]
    if not points:
        return [*parts, _text(LEFT, 60, "no data")]
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    across = Axis([x for x, _ in points], log=panel.log_x, start=LEFT, end=right)
    up = Axis([y for _, y in points], log=panel.log_y, start=bottom, end=TOP)
    for value in up.marks():
        y = up.at(value)
        parts.append(_line([(LEFT, y), (right, y)], "#dddddd", 1))
        parts.append(_text(LEFT - 6, y + 4, short(value), anchor="end"))
    for value in across.marks():
        x = across.at(value)
        parts.append(_line([(x, bottom), (x, bottom + 4)], "#888888", 1))
        parts.append(_text(x, bottom + 16, short(value), anchor="middle"))
    parts.append(_line([(LEFT, bottom), (right, bottom)], "#888888", 1))
    parts.append(_text((LEFT + right) / 2, HEIGHT - 8, panel.x_label, anchor="middle"))
    turned = f' transform="rotate(-90 14 {(TOP + bottom) / 2})"'
    parts.append(_text(14, (TOP + bottom) / 2, panel.y_label, anchor="middle", more=turned))
    for name, line in lines.items():
        places = [(across.at(x), up.at(y)) for x, y in line]
        parts.append(_line(places, colours[name], 2))
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colours[name]}"/>'
            for x, y in places
        ]
    return parts


def short(value: float) -> str:
    """A number for an axis: 1,500,000 as 1.5M."""
    for size, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{name}"
    return f"{value:.3g}"


def _round_up(value: float) -> float:
    size = DECADE ** math.floor(math.log10(value))
    return next(step * size for step in (1, 2, 4, 5, 8, 10) if step * size >= value * 0.999)


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 11,
    weight: str = "normal",
    anchor: str = "start",
    more: str = "",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}" fill="#222222"{more}>{escape(text)}</text>'
    )


def _line(places: Sequence[tuple[float, float]], colour: str, width: int) -> str:
    along = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline points="{along}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
