"""The plot of the demo: events published, events cleaned by Spark, and the lag."""

from pathlib import Path
from typing import TYPE_CHECKING

from demo.pipeline import Story

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PUBLISHED, _CLEANED, _DEAD = "#3b6ea8", "#d9822b", "#b03a2e"


def save_plot(story: Story, path: Path) -> None:
    """Draw the plot as PNG."""
    import matplotlib as mpl

    mpl.use("Agg")  # no window, even with a display
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter

    seconds = [sample[0] for sample in story.samples]
    published = [sample[1] for sample in story.samples]
    cleaned = [sample[2] for sample in story.samples]
    behind = [max(0, came - done) for came, done in zip(published, cleaned, strict=True)]
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(9, 6), dpi=120, sharex=True, height_ratios=(3, 2), layout="constrained"
    )
    above.plot(seconds, published, color=_PUBLISHED, label="published (fast ingest)")
    above.step(seconds, cleaned, color=_CLEANED, where="post", label="cleaned by Spark")
    above.set_title("jetspark demo: the Spark driver is killed, and nothing is lost")
    above.set_ylabel("events")
    below.fill_between(seconds, behind, color=_CLEANED, alpha=0.35, linewidth=0)
    below.plot(seconds, behind, color=_CLEANED, linewidth=1)
    below.set_ylabel("lag (events)")
    below.set_xlabel("seconds")
    for axes in (above, below):
        _mark_death(axes, story)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    below.set_xlim(0, max(seconds))
    above.legend(loc="lower right", frameon=False)
    figure.savefig(path)
    plt.close(figure)


def _mark_death(axes: "Axes", story: Story) -> None:
    axes.axvspan(
        story.killed_at, story.back_at, color=_DEAD, alpha=0.12, linewidth=0, label="no driver"
    )
    axes.axvline(story.killed_at, color=_DEAD, linewidth=1, linestyle="--")
