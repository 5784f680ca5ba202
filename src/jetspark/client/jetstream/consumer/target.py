"""The address of a consumer, for handles and readers."""

from jetspark.api.consumer import CONSUMER_INFO, ConsumerInfo
from jetspark.client.jetstream.api import ApiClient
from jetspark.client.jetstream.consumer.create import update_consumer
from jetspark.client.models.consumer import ConsumerOptions
from jetspark.client.timeouts import Timeout


class ConsumerTarget:
    """The API subjects of a consumer, and its cached info."""

    def __init__(self, api: ApiClient, info: ConsumerInfo) -> None:
        self._api = api
        self.stream: str = info.stream_name
        self.name: str = info.name
        self.verb: str = f"{self.stream}.{self.name}"  # the end of API subjects
        self.info: ConsumerInfo = info

    @property
    def label(self) -> str:
        """Stream and consumer, for messages."""
        return f"consumer {self.name!r} of stream {self.stream!r}"

    @property
    def next_subject(self) -> bytes:
        """The subject of pull requests."""
        return self._api.subject(f"CONSUMER.MSG.NEXT.{self.verb}")

    async def update(
        self, changes: ConsumerOptions, *, timeout: Timeout | None = None
    ) -> ConsumerInfo:
        """Change the given settings only (``update_consumer``)."""
        self.info = await update_consumer(self._api, self.stream, self.name, changes, timeout)
        return self.info

    async def refresh(self, *, timeout: Timeout | None = None) -> ConsumerInfo:
        """Request the info again; ConsumerNotFound or StreamNotFound if it does not exist."""
        self.info = await self._api.call(
            f"CONSUMER.INFO.{self.verb}", None, CONSUMER_INFO, timeout=timeout
        )
        return self.info
