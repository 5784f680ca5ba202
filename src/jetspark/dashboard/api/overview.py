"""The overview, and what every page shows of the connection."""

from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request

from jetspark.dashboard.sampler import Sampler


class Overview:
    """Answers about the deployment as a whole."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    async def overview(self, request: Request) -> dict[str, Any]:
        """The newest sample, and those before it."""
        del request
        return {"sample": await self._sampler.newest(), "history": self._sampler.history()}

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
