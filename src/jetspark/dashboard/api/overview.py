"""The overview, and what every page shows of the connection."""

from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request

from jetspark.dashboard.deployment import Deployment
from jetspark.dashboard.monitoring import Monitoring
from jetspark.dashboard.problems import Unavailable
from jetspark.dashboard.sampler import Sampler


class Overview:
    """Answers about the deployment as a whole."""

    def __init__(self, deployment: Deployment, monitoring: Monitoring, sampler: Sampler) -> None:
        self._deployment = deployment
        self._monitoring = monitoring
        self._sampler = sampler

    async def overview(self, request: Request) -> dict[str, Any]:
        """The newest sample, those before it, and the health."""
        del request
        sample = await self._sampler.newest()
        health: Any = None
        try:
            health = await self._monitoring.document("healthz")
        except Unavailable:
            health = None
        return {"sample": sample, "history": self._sampler.history(), "health": health}

    async def live(self, request: Request) -> AsyncGenerator[dict[str, Any], None]:
        """Every new sample."""
        stopping = request.state.stopping
        number = 0
        self._sampler.enter()
        try:
            while not stopping.is_set():
                number, sample = await self._sampler.after(number)
                yield sample
        finally:
            self._sampler.leave()
