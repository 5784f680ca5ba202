"""A consumer on the server, as handles and readers address it."""

from jetspark.api.consumer import CONSUMER_INFO, ConsumerInfo
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.timeouts import Timeout


class ConsumerTarget:
    """Where a consumer is reached, and what is known about it."""

    def __init__(self, api: ApiClient, info: ConsumerInfo) -> None:
        self._api = api
        self.stream: str = info.stream_name
        self.name: str = info.name
        self.verb: str = f"{self.stream}.{self.name}"  # the end of API subjects
        self.info: ConsumerInfo = info

    @property
    def label(self) -> str:
        """Stream and consumer, for messages to people."""
        return f"consumer {self.name!r} of stream {self.stream!r}"

    @property
    def next_subject(self) -> bytes:
        """Where pull requests go."""
        return self._api.subject(f"CONSUMER.MSG.NEXT.{self.verb}")

    async def refresh(self, *, timeout: Timeout | None = None) -> ConsumerInfo:
        """Ask again; ConsumerNotFound or StreamNotFound when it is gone."""
        self.info = await self._api.call(
            f"CONSUMER.INFO.{self.verb}", None, CONSUMER_INFO, timeout=timeout
        )
        return self.info
