"""The server: connections, its store, batches in flight, replicas and remotes."""

from typing import Any, Final

from starlette.requests import Request

from jetspark.dashboard.arguments import Query
from jetspark.dashboard.deployment import Deployment
from jetspark.dashboard.errors import BadInput
from jetspark.dashboard.monitoring import Monitoring

_SORTS: Final = (
    "cid", "start", "subs", "pending", "msgs_to", "msgs_from", "bytes_to", "bytes_from", "last",
    "idle", "uptime", "rtt",
)  # fmt: skip


class Servers:
    """Answers about the server."""

    def __init__(self, deployment: Deployment, monitoring: Monitoring) -> None:
        self._deployment = deployment
        self._monitoring = monitoring

    async def connections(self, request: Request) -> dict[str, Any]:
        """A page of connections, open or closed."""
        query = Query(request)
        sort, state = query.text("sort", "cid"), query.text("state", "open")
        if sort not in _SORTS:
            raise BadInput(f"sort={sort!r}: expected one of {', '.join(_SORTS)}")
        if state not in {"open", "closed"}:
            raise BadInput(f"state={state!r}: expected open or closed")
        options: dict[str, object] = {
            "sort": "cid" if state == "closed" and sort in {"idle", "uptime", "rtt"} else sort,
            "state": state,
            "auth": 1,
            "offset": query.number("offset"),
            "limit": query.limit(),
        }
        found = await self._monitoring.document("connz", options)
        varz = await self._monitoring.document("varz")
        return {
            "rows": found.get("connections") or [],
            "total": found.get("total", 0),
            "offset": found.get("offset", 0),
            "slow_consumers": varz.get("slow_consumers", 0),
            "slow_consumer_stats": varz.get("slow_consumer_stats") or {},
            "stale_connections": varz.get("stale_connections", 0),
            "max_connections": varz.get("max_connections", 0),
            "max_pending": varz.get("max_pending", 0),
        }

    async def store(self, request: Request) -> dict[str, Any]:
        """The disk: sync latencies, segments, damage; a page of streams."""
        query = Query(request)
        options: dict[str, object] = {"offset": query.number("offset"), "limit": query.limit()}
        found: dict[str, Any] = await self._monitoring.document("storez", options)
        return found

    async def batches(self, request: Request) -> dict[str, Any]:
        """Batches that were started and neither committed nor abandoned."""
        del request
        found = await self._monitoring.document("storez", {"summary": 1, "batches": 1})
        return {"rows": found.get("batches") or [], "total": found.get("open_batches", 0)}

    async def copies(self, request: Request) -> dict[str, Any]:
        """The leader of a replica with its streams, and the remotes."""
        del request
        varz = await self._monitoring.document("varz")
        return {"jetspark": varz.get("jetspark") or {}, "cluster": varz.get("cluster") or {}}
