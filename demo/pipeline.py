"""The second part of the demo: events go through Spark, whose driver is killed meanwhile."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.progress import Progress

from demo.driver import Driver
from demo.events import messages
from jetspark import sync
from jetspark.spark.pipelines.project import load_project
from jetspark.spark.pipelines.resources import ensure_resources
from jetspark.spark.pipelines.template import write_files

FLOWS: Final = ("events", "keep_totals", "publish_alerts")
CHUNK: Final = 5_000
# Maximum rate per second, so that Spark works while events arrive.
PACE: Final = 33_000
# Killed when this share has been cleaned.
KILL_AT: Final = 0.4
# Events are waiting and Spark does nothing for this long: something is wrong.
STALL_S: Final = 120.0
SAMPLE_S: Final = 0.5


@dataclass
class Story:
    """What happened, for the table, the plot and the files."""

    begun: float = field(default_factory=time.monotonic)
    published: int = 0
    publish_seconds: float = 0.0
    rows: dict[str, int] = field(default_factory=dict)
    """Rows that each flow read, including those read again after the kill."""
    idle: dict[str, str] = field(default_factory=dict)
    """When each flow last found nothing, by Spark's clock; absent while it works."""
    done: str = ""
    """When the first flow first found nothing after its last rows."""
    epochs: dict[str, int] = field(default_factory=dict)
    next_seq: int = 1
    batch_seconds: list[float] = field(default_factory=list)
    samples: list[tuple[float, int, int]] = field(default_factory=list)
    """(seconds, published, cleaned): what the plot shows."""
    killed_at: float = 0.0
    back_at: float = 0.0
    caught_up_at: float = 0.0
    revision: int = 0
    """Of the bucket, while the driver was dead."""
    totals_then: dict[str, bytes] = field(default_factory=dict)

    @property
    def max_lag(self) -> int:
        """The maximum of events in the stream that were not yet in the table."""
        return max((came - done for _, came, done in self.samples), default=0)

    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.begun

    def take(self, event: dict[str, Any]) -> None:
        """Record an event of the pipeline. Called by the thread that reads its output."""
        if event.get("event") != "progress":
            return
        flow = event["flow"]
        if event["rows"]:
            self.rows[flow] = self.rows.get(flow, 0) + event["rows"]
            self.epochs[flow] = event["epoch"]
            self.idle.pop(flow, None)
            if flow == "events":
                self.batch_seconds.append(event["batch_seconds"])
                self.done = ""
        else:
            self.idle[flow] = event["time"]
            if flow == "events" and not self.done:
                self.done = event["time"]
        self.next_seq = max(self.next_seq, event["next"].get("EVENTS", 1))


def run_pipeline(url: str, output: Path, events: int, progress: Progress) -> Story:
    """Publish ``events`` while a pipeline processes them, is killed and restarted."""
    root = output / "pipeline"
    project = load_project(write_files("demo", "project", root, "demo"))
    story = Story()
    errors = output / "driver.log"
    with sync.connect(url, name="jetspark demo") as client:
        js = client.jetstream()
        ensure_resources(js, project)
        starting = progress.add_task("Start Spark and the pipeline", total=len(FLOWS))
        with Driver(root, url, errors, events, story.take) as driver:
            driver.await_flows(
                len(FLOWS), lambda started: progress.update(starting, completed=started)
            )
            bars = _Bars(progress, events)
            story.begun = time.monotonic()
            publisher = threading.Thread(target=_publish, args=(url, story, events), daemon=True)
            publisher.start()
            _follow(story, driver, bars, until=lambda: _worth_killing(story, events))
            driver.kill()
        story.killed_at = story.now()
        _note_totals(js, story)
        progress.console.print(
            f"SIGKILL: the Spark driver is dead, with {story.next_seq - 1:,} events committed; "
            "restarting it"
        )
        with Driver(root, url, errors, events, story.take) as driver:
            _follow(story, driver, bars, until=lambda: len(driver.flows) == len(FLOWS))
            story.back_at = story.now()
            _follow(story, driver, bars, until=lambda: _caught_up(story, events))
            story.caught_up_at = story.now()
            publisher.join()
            driver.stop()
        bars.show(story)
    return story


class _Bars:
    """Progress bars, and a line now and then without a terminal."""

    def __init__(self, progress: Progress, events: int) -> None:
        self._progress = progress
        self._events = events
        self._published = progress.add_task("Publish events (fast ingest)", total=events)
        self._cleaned = progress.add_task("Clean them into Parquet (Spark)", total=events)
        self._tenth = 0

    def show(self, story: Story) -> None:
        """Move the bars."""
        cleaned = min(story.next_seq - 1, self._events)
        self._progress.update(self._published, completed=story.published)
        self._progress.update(self._cleaned, completed=cleaned)
        tenth = cleaned * 10 // self._events
        if tenth > self._tenth and not self._progress.console.is_terminal:
            self._tenth = tenth
            self._progress.console.print(
                f"{story.now():6.1f} s  published {story.published:>9,}  cleaned {cleaned:>9,}"
            )


def _follow(story: Story, driver: Driver, bars: _Bars, *, until: Callable[[], bool]) -> None:
    """Show the progress until a condition holds; raises if the pipeline makes no progress."""
    last, since = (-1, -1), time.monotonic()
    sampled = 0.0
    while not until():
        if driver.ended:
            raise driver.failure()
        now = (story.next_seq, len(driver.flows))
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > STALL_S:
            raise driver.failure()
        if story.now() - sampled >= SAMPLE_S:
            sampled = story.now()
            story.samples.append((sampled, story.published, story.next_seq - 1))
        bars.show(story)
        time.sleep(0.1)
    story.samples.append((story.now(), story.published, story.next_seq - 1))


def _worth_killing(story: Story, events: int) -> bool:
    """Whether the driver is in the middle of its work, and the bucket has some totals."""
    return story.next_seq - 1 >= events * KILL_AT and story.rows.get("keep_totals", 0) > 0


def _caught_up(story: Story, events: int) -> bool:
    """Whether everything was read, and the later flows have found nothing new since."""
    if story.published < events or story.next_seq <= events:
        return False
    # The last rows of the first flow are read by the others when they check after that.
    return bool(story.done) and all(story.idle.get(flow, "") > story.done for flow in FLOWS[1:])


def _publish(url: str, story: Story, events: int) -> None:
    """Publish at a steady pace. Runs in a thread, with its own connection."""
    begun = time.monotonic()
    with sync.connect(url, name="jetspark demo publisher") as client:
        js = client.jetstream()
        for first in range(0, events, CHUNK):
            subjects, payloads = messages(first, min(first + CHUNK, events))
            with js.fast_publisher() as publisher:
                publisher.extend(subjects, payloads)
            story.published = min(first + CHUNK, events)
            due = begun + story.published / PACE
            time.sleep(max(0.0, due - time.monotonic()))
    story.publish_seconds = time.monotonic() - begun


def _note_totals(js: sync.JetStream, story: Story) -> None:
    """Record the current bucket, to read it again at this revision at the end."""
    bucket = js.key_value("TOTALS")
    story.revision = bucket.status().stream_info.state.last_seq
    story.totals_then = {key: bucket.get(key).value for key in sorted(bucket.keys())}
