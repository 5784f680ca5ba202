"""Prometheus metrics of a continuous run, on a separate port."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from jetspark.spark.pipelines.progress import (
    Event,
    FlowFailed,
    FlowProgress,
    FlowStarted,
    ViewFailed,
    ViewRefreshed,
)

# Name -> (kind, help). All have the label flow; counters start with the run.
METRICS: Final = {
    "jetspark_pipeline_rows_total": ("counter", "Rows read by a flow."),
    "jetspark_pipeline_batches_total": ("counter", "Micro-batches with rows."),
    "jetspark_pipeline_batch_seconds_total": ("counter", "Time spent in micro-batches with rows."),
    "jetspark_pipeline_violations_total": ("counter", "Rows that violate an expectation."),
    "jetspark_pipeline_failures_total": (
        "counter",
        "Errors of a flow or view.",
    ),
    "jetspark_pipeline_view_refreshes_total": ("counter", "Computations of a view."),
    "jetspark_pipeline_up": ("gauge", "1 while the flow runs."),
    "jetspark_pipeline_epoch": ("gauge", "The last micro-batch."),
    "jetspark_pipeline_lag_messages": ("gauge", "Messages waiting in its streams."),
    "jetspark_pipeline_rows_per_second": ("gauge", "Rate of the last micro-batch with rows."),
    "jetspark_pipeline_batch_seconds": ("gauge", "Duration of the last micro-batch with rows."),
}
_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counts events. Events come from one thread, pages are requested by others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[str, float]] = {name: {} for name in METRICS}

    def take(self, event: Event) -> None:
        """Count an event."""
        with self._lock:
            match event:
                case FlowStarted():
                    self._set("up", event.flow, 1)
                    for name in ("rows_total", "batches_total", "batch_seconds_total"):
                        self._add(name, event.flow, 0)
                    self._add("failures_total", event.flow, 0)
                case FlowFailed():
                    self._set("up", event.flow, 0)
                    self._add("failures_total", event.flow, 1)
                case ViewFailed():
                    self._add("failures_total", event.view, 1)
                case ViewRefreshed():
                    self._add("view_refreshes_total", event.view, 1)
                case FlowProgress():
                    self._progress(event)

    def page(self) -> str:
        """Return the page for Prometheus."""
        with self._lock:
            return "\n".join([*self._lines(), ""])

    def _progress(self, event: FlowProgress) -> None:
        self._set("epoch", event.flow, event.epoch)
        if event.lag is not None:
            self._set("lag_messages", event.flow, event.lag)
        if event.rows:
            self._add("rows_total", event.flow, event.rows)
            self._add("batches_total", event.flow, 1)
            self._add("batch_seconds_total", event.flow, event.batch_seconds)
            self._set("rows_per_second", event.flow, event.rows_per_second)
            self._set("batch_seconds", event.flow, event.batch_seconds)
        if any("violating" in counts for counts in event.observed.values()):
            self._add("violations_total", event.flow, event.violations)

    def _lines(self) -> Iterator[str]:
        for name, (kind, meaning) in METRICS.items():
            if not self._values[name]:
                continue
            yield f"# HELP {name} {meaning}"
            yield f"# TYPE {name} {kind}"
            for flow, value in self._values[name].items():
                label = flow.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
                yield f'{name}{{flow="{label}"}} {value:.15g}'

    def _set(self, name: str, flow: str, value: float) -> None:
        self._values[f"jetspark_pipeline_{name}"][flow] = value

    def _add(self, name: str, flow: str, value: float) -> None:
        values = self._values[f"jetspark_pipeline_{name}"]
        values[flow] = values.get(flow, 0) + value


class MetricsServer:
    """Serves ``/metrics`` until it is closed."""

    def __init__(self, metrics: Metrics, port: int) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = self.path.partition("?")[0] == "/metrics"
                body = metrics.page().encode() if found else b"see /metrics\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", _TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Log nothing: requests come every few seconds."""

        self._server = ThreadingHTTPServer(("", port), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
