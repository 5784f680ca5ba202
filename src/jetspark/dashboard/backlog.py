"""The backlog: which consumers have the most messages left, by a walk over all of them.

No request answers that. While a page is open that needs it, one walk at a time lists the streams,
and the consumers of those that have some, one request after the other, with pauses: at most
`REQUESTS_PER_S` a second, and a page that took long is followed by a pause several times as long.
It keeps the rows with the largest lags only, so that any number of consumers fits.
"""

import asyncio
import heapq
import time
from typing import Any, Final

from jetspark.dashboard.deployment import Deployment
from jetspark.errors import Error, StreamNotFound

REQUESTS_PER_S: Final = 100
# How much longer than a request the pause after it is: others have the server to themselves then.
PAUSE_FACTOR: Final = 4
# A walk over few streams is repeated after this, one over many after ten times its duration.
REPEAT_S: Final = 2.0
# How long walks are repeated after the last page asked for them.
WANTED_S: Final = 15.0
ROWS_MAX: Final = 500


class Backlog:
    """The walk and its result. ``run`` it once, ask with ``read``."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._asked = asyncio.Event()
        self._wanted_until = 0.0
        self._result: dict[str, Any] | None = None
        self._progress = (0, 0)
        self._ready = asyncio.Event()
        self._problem = ""

    async def run(self) -> None:
        """Walk whenever a page has asked, until it is cancelled."""
        while True:
            await self._asked.wait()
            if time.monotonic() > self._wanted_until:
                self._asked.clear()
                continue
            began = time.monotonic()
            pause = REPEAT_S
            try:
                self._result = await self._walk()
                self._problem = ""
                pause = max(REPEAT_S, 10 * (time.monotonic() - began - 1))
            except Error as error:
                self._problem = str(error)
            self._ready.set()
            await asyncio.sleep(pause)

    async def read(self, wait_s: float) -> dict[str, Any]:
        """The newest result; waits a little for the first one, else reports the progress."""
        self._wanted_until = time.monotonic() + WANTED_S
        self._asked.set()
        if self._result is None:
            try:
                async with asyncio.timeout(wait_s):
                    await self._ready.wait()
            except TimeoutError:
                pass
        done, total = self._progress
        result = self._result or {"rows": [], "streams": 0, "consumers": 0, "time": None}
        return {
            **result,
            "is_complete": self._result is not None,
            "problem": self._problem,
            "done": done,
            "total": total,
        }

    async def _walk(self) -> dict[str, Any]:
        began = time.time()
        top: list[tuple[int, int, dict[str, Any]]] = []
        streams = consumers = 0
        unread: list[str] = []
        offset = 0
        while True:
            page = await self._ask("STREAM.LIST", "", offset)
            infos = page.get("streams") or []
            total = int(page.get("total", 0))
            offset += len(infos)
            for info in infos:
                streams += 1
                for row in _copies(info):
                    _keep(top, row)
                if info["state"].get("consumer_count"):
                    try:
                        consumers += await self._consumers(info, top)
                    except StreamNotFound:
                        pass  # deleted meanwhile
                    except Error as error:
                        unread.append(f"{info['config']['name']}: {error}")
                self._progress = (streams, total)
            if not infos or offset >= total:
                break
        rows = sorted((row for _, _, row in top), key=_most_first)
        return {
            "rows": rows,
            "streams": streams,
            "consumers": consumers,
            "time": began,
            "unread": len(unread),
            "unread_why": unread[:1],
        }

    async def _consumers(self, info: Any, top: list[tuple[int, int, dict[str, Any]]]) -> int:
        stream, offset = info["config"]["name"], 0
        while True:
            page = await self._ask("CONSUMER.LIST", stream, offset)
            found = page.get("consumers") or []
            offset += len(found)
            for each in found:
                _keep(top, _consumer(info, each))
            if not found or offset >= int(page.get("total", 0)):
                return offset

    async def _ask(self, verb: str, asset: str, offset: int) -> Any:
        began = time.monotonic()
        page = await self._deployment.api(verb, asset, {"offset": offset})
        took = time.monotonic() - began
        await asyncio.sleep(max(PAUSE_FACTOR * took, 1 / REQUESTS_PER_S))
        return page


def _most_first(row: dict[str, Any]) -> tuple[int, int, str]:
    return -int(row["lag"]), -int(row.get("ack_pending", 0)), str(row["name"])


def _keep(top: list[tuple[int, int, dict[str, Any]]], row: dict[str, Any]) -> None:
    """Keep a row if it is among those with the largest lags."""
    item = (int(row["lag"]) + int(row.get("ack_pending", 0)), id(row), row)
    if len(top) < ROWS_MAX:
        heapq.heappush(top, item)
    else:
        heapq.heappushpop(top, item)


def _consumer(info: Any, consumer: Any) -> dict[str, Any]:
    config = consumer.get("config") or {}
    push = bool(config.get("deliver_subject"))
    return {
        "kind": "consumer",
        "stream": info["config"]["name"],
        "name": consumer["name"],
        "lag": consumer.get("num_pending", 0),
        "ack_pending": consumer.get("num_ack_pending", 0),
        "max_ack_pending": config.get("max_ack_pending", 0),
        "redelivered": consumer.get("num_redelivered", 0),
        "waiting": consumer.get("num_waiting", 0),
        "push": push,
        "bound": bool(consumer.get("push_bound")),
        "paused": bool(consumer.get("paused")),
        "last_active": (consumer.get("delivered") or {}).get("last_active"),
    }


def _copies(info: Any) -> list[dict[str, Any]]:
    """The mirror and the sources of a stream."""
    name = info["config"]["name"]
    found = [("mirror", info["mirror"])] if info.get("mirror") else []
    found += [("source", each) for each in info.get("sources") or []]
    return [
        {
            "kind": kind,
            "stream": name,
            "name": each.get("name", ""),
            "lag": each.get("lag", 0),
            "active_ns": each.get("active", -1),
            "problem": (each.get("error") or {}).get("description", ""),
        }
        for kind, each in found
    ]
