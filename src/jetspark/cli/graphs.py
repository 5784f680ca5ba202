"""`stream graph` and `consumer graph`: what happens, second by second, drawn on the terminal."""

import asyncio
import shutil
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Final, NamedTuple

import click

from jetspark.cli.output import Output, visible
from jetspark.cli.session import Session

_INTERVAL: Final = 1.0
_LEAST_WIDTH, _LEAST_HEIGHT = 40, 16
_MARGIN: Final = 12  # of the numbers at the left
_EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
# Lines that are no bars: for each graph its title and a blank one, and the last line.
_OTHER_LINES: Final = 2
_CLEAR: Final = "\x1b[H\x1b[2J"


class Series(NamedTuple):
    """A value over time; a rate is the growth of a counter per second."""

    title: str
    field: str
    is_rate: bool = False


Sample = Callable[[], Awaitable[dict[str, int]]]
_STREAM: Final = (
    Series("Messages per second", "last_seq", is_rate=True),
    Series("Messages", "messages"),
)
_CONSUMER: Final = (
    Series("Unprocessed messages", "num_pending"),
    Series("Unacknowledged messages", "num_ack_pending"),
    Series("Deliveries per second", "delivered", is_rate=True),
    Series("Acknowledgements per second", "acknowledged", is_rate=True),
)


async def graph_stream(session: Session, *, name: str, count: int) -> None:
    """Draw the activity of a stream."""
    stream = await session.stream(name)

    async def sample() -> dict[str, int]:
        state = (await stream.info()).state
        return {"messages": state.messages, "bytes": state.bytes, "last_seq": state.last_seq}

    await _follow(session.output, f"Stream {name}", _STREAM, sample, count)


async def graph_consumer(session: Session, *, stream: str, name: str, count: int) -> None:
    """Draw the activity of a consumer."""
    consumer = await session.consumer(stream, name)

    async def sample() -> dict[str, int]:
        info = await consumer.info()
        return {
            "num_pending": info.num_pending,
            "num_ack_pending": info.num_ack_pending,
            "delivered": info.delivered.consumer_seq,
            "acknowledged": info.ack_floor.consumer_seq,
        }

    await _follow(session.output, f"Consumer {stream} > {name}", _CONSUMER, sample, count)


async def _follow(
    output: Output, title: str, series: tuple[Series, ...], sample: Sample, count: int
) -> None:
    """Take a sample every second; the first is the base of the rates."""
    if not output.json and output.width is None:
        raise click.ClickException("a graph needs a terminal; --ndjson prints the numbers")
    values: dict[str, deque[float]] = {one.field: deque(maxlen=1_000) for one in series}
    before = await sample()
    clock = asyncio.get_running_loop().time
    taken, at = 0, clock()
    with output.emitting() if output.json else nullcontext(_no_item) as emit:
        while not count or taken < count:
            await asyncio.sleep(_INTERVAL)
            now = await sample()
            passed, at = clock() - at, clock()
            rates = {
                one.field: max(0.0, (now[one.field] - before[one.field]) / passed)
                for one in series
                if one.is_rate
            }
            for one in series:
                values[one.field].append(rates.get(one.field, float(now[one.field])))
            before = now
            taken += 1
            if output.json:
                emit(
                    {**now, **{f"{name}_per_second": round(one, 3) for name, one in rates.items()}}
                )
            else:
                size = shutil.get_terminal_size()
                click.echo(
                    _CLEAR + drawn(title, series, values, size.columns, size.lines), nl=False
                )


def _no_item(_item: object) -> None:
    """Text is drawn, not listed."""


def drawn(
    title: str, series: tuple[Series, ...], values: dict[str, deque[float]], width: int,
    height: int,
) -> str:  # fmt: skip
    """A graph for each series, the newest value at the right."""
    if width < _LEAST_WIDTH or height < _LEAST_HEIGHT:
        return f"{visible(title)}: the terminal is too small for a graph\n"
    lines = [visible(title)]
    rows = (height - 2 - _OTHER_LINES * len(series)) // len(series)
    for one in series:
        shown = list(values[one.field])[-(width - _MARGIN) :]
        most = max(shown, default=0.0)
        lines += ["", f"{one.title}: {shown[-1] if shown else 0:,.0f} (max {most:,.0f})"]
        for row in reversed(range(rows)):
            label = f"{most:,.0f}" if row == rows - 1 else "0" if row == 0 else ""
            bars = "".join(_bar(value, most, row, rows) for value in shown)
            lines.append(f"{label:>{_MARGIN - 2}} │{bars}")
    return "\n".join(lines) + "\n"


def _bar(value: float, most: float, row: int, rows: int) -> str:
    """The part of a bar that is in a row, counted from below."""
    if value <= 0 or most <= 0:
        return " "
    eighths = round(value / most * rows * 8) - row * 8
    if row == 0:
        eighths = max(eighths, 1)  # what is not zero can be seen
    return _EIGHTHS[min(max(eighths, 0), 8)]
