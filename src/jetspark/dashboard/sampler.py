"""Samples of the deployment over time: one poller, shared by all viewers.

It keeps the last samples, so that a page that is opened later has plots. While a page is open it
samples every two seconds, else every ten. Viewers get the newest sample: one that reads slowly
skips some and holds nothing back.
"""

import asyncio
import time
from collections import deque
from typing import Any, Final

from jetspark.dashboard.deployment import Deployment
from jetspark.dashboard.errors import Problem, Unavailable, problem_of
from jetspark.dashboard.monitoring import Monitoring
from jetspark.errors import Error

WATCHED_S: Final = 2.0
UNWATCHED_S: Final = 10.0
UNCONNECTED_S: Final = 1.0
# Half an hour while a page is open, up to two and a half hours while none is.
KEPT: Final = 900
_VARZ: Final = (
    "in_msgs", "out_msgs", "in_bytes", "out_bytes", "connections", "total_connections",
    "subscriptions", "slow_consumers", "mem", "cpu", "uptime", "max_payload", "leafnodes",
)  # fmt: skip
# Counters, of which the difference to the sample before is shown per second.
COUNTERS: Final = ("in_msgs", "out_msgs", "in_bytes", "out_bytes", "api_total", "commits")


class Sampler:
    """The poller and its samples. ``run`` it once; ``watch`` from as many pages as there are."""

    def __init__(self, deployment: Deployment, monitoring: Monitoring) -> None:
        self._deployment = deployment
        self._monitoring = monitoring
        self._samples: deque[dict[str, Any]] = deque(maxlen=KEPT)
        self._last: dict[str, Any] = {}
        self._before: tuple[float, dict[str, Any]] | None = None
        self._viewers = 0
        self._wanted = asyncio.Event()
        self._fresh = asyncio.Condition()
        self._number = 0

    async def run(self) -> None:
        """Sample until it is cancelled."""
        while True:
            began = time.monotonic()
            sample = await self._sample()
            async with self._fresh:
                self._last = sample
                self._number += 1
                if sample["connected"]:
                    self._samples.append(_plotted(sample))
                self._fresh.notify_all()
            self._wanted.clear()
            pause = WATCHED_S if self._viewers else UNWATCHED_S
            pause = pause if sample["connected"] else UNCONNECTED_S
            try:
                # A page that is opened meanwhile wants to see something at once.
                async with asyncio.timeout(max(pause - (time.monotonic() - began), 0.2)):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    def history(self) -> list[dict[str, Any]]:
        """The samples for plots, oldest first."""
        return list(self._samples)

    async def newest(self) -> dict[str, Any]:
        """The newest sample, from the last two seconds."""
        async with self._fresh:
            number = self._number
            if not self._last or time.time() - self._last["time"] > WATCHED_S:
                self._wanted.set()
                await self._fresh.wait_for(lambda: self._number > number)
            return self._last

    async def after(self, number: int) -> tuple[int, dict[str, Any]]:
        """The newest sample once there is one after ``number``, and its own number."""
        async with self._fresh:
            await self._fresh.wait_for(lambda: self._number > number)
            return self._number, self._last

    def enter(self) -> None:
        """Count a viewer; the first one gets a sample at once."""
        self._viewers += 1
        if self._viewers == 1:
            self._wanted.set()

    def leave(self) -> None:
        """Count a viewer less."""
        self._viewers -= 1

    async def _sample(self) -> dict[str, Any]:
        state = self._deployment.state()
        sample: dict[str, Any] = {"time": time.time(), **state, "missing": {}}
        if not state["connected"]:
            self._before = None
            return sample
        await self._add_account(sample)
        await self._add_server(sample)
        self._add_rates(sample)
        return sample

    async def _add_account(self, sample: dict[str, Any]) -> None:
        try:
            info = await self._deployment.api("INFO")
        except Error as error:
            sample["missing"]["jetstream"] = _body(error)
            return
        limits = info.get("limits") or {}
        sample["jetstream"] = {
            "memory": info.get("memory", 0),
            "storage": info.get("storage", 0),
            "streams": info.get("streams", 0),
            "consumers": info.get("consumers", 0),
            "max_memory": limits.get("max_memory", -1),
            "max_storage": limits.get("max_storage", -1),
            "max_streams": limits.get("max_streams", -1),
            "max_consumers": limits.get("max_consumers", -1),
        }
        api = info.get("api") or {}
        sample["api_total"], sample["api_errors"] = api.get("total", 0), api.get("errors", 0)

    async def _add_server(self, sample: dict[str, Any]) -> None:
        try:
            varz = await self._monitoring.document("varz")
        except Unavailable as error:
            sample["missing"]["monitoring"] = {"error": error.text, "hint": error.hint}
            return
        for name in _VARZ:
            sample[name] = varz.get(name, 0)
        try:
            sample["health"] = await self._monitoring.document("healthz")
        except Unavailable as error:
            sample["missing"]["health"] = {"error": error.text, "hint": error.hint}
        config = (varz.get("jetstream") or {}).get("config") or {}
        sample["server_limits"] = {
            "max_memory": config.get("max_memory", -1),
            "max_storage": config.get("max_storage", -1),
        }
        try:
            store = await self._monitoring.document("storez", {"summary": 1})
        except Unavailable as error:
            sample["missing"]["store"] = {"error": error.text, "hint": error.hint}
            return
        commits = store.get("commits") or {}
        sample["commits"] = commits.get("groups", 0)
        sample["commit_p50_ns"] = commits.get("duration_p50_ns")
        sample["commit_p99_ns"] = commits.get("duration_p99_ns")

    def _add_rates(self, sample: dict[str, Any]) -> None:
        now = time.monotonic()
        before, self._before = self._before, (now, sample)
        rates: dict[str, float] = {}
        if before is not None and before[1].get("server_id") == sample.get("server_id"):
            passed = max(now - before[0], 1e-3)
            for name in COUNTERS:
                if name in sample and name in before[1]:
                    rates[name] = round(max(sample[name] - before[1][name], 0) / passed, 2)
        sample["rates"] = rates


def _plotted(sample: dict[str, Any]) -> dict[str, Any]:
    """The part of a sample that plots need."""
    stored = sample.get("jetstream") or {}
    return {
        "time": sample["time"],
        **{f"{name}_rate": value for name, value in sample.get("rates", {}).items()},
        **{
            name: sample[name]
            for name in ("connections", "mem", "cpu", "commit_p99_ns")
            # Before the first commit there is no latency.
            if sample.get(name)
        },
        **({"storage": stored["storage"], "memory": stored["memory"]} if stored else {}),
    }


def _body(error: Error) -> dict[str, object]:
    found = problem_of(error) or Problem(500, str(error))
    return {"error": found.text, "hint": found.hint}
