"""The plots of docs/benchmarks.md show the figures of its tables."""

import re
from pathlib import Path

from tools.plots import FOLDER, PAGE, plots, tables


def test_the_plots_are_current() -> None:
    stale = [name for name, text in plots().items() if (FOLDER / name).read_text("utf-8") != text]

    assert not stale, "run tools/plots.py"


def test_every_row_with_a_ratio_is_in_a_plot() -> None:
    rows = [row for found in tables().values() for row in found]

    assert len(rows) > 45
    assert all(abs(ours / theirs - ratio) < 0.02 * ratio + 0.01 for _, theirs, ours, ratio in rows)


def test_every_plot_is_shown_by_a_page() -> None:
    pages = [PAGE, PAGE.parent / "operations" / "capacity.md"]
    shown = {
        Path(link).name
        for page in pages
        for link in re.findall(r"!\[[^\]]+\]\(([^)]+\.svg)\)", page.read_text("utf-8"))
    }

    assert shown == {path.name for path in FOLDER.iterdir()}
