"""The answer of `add`: servers accept the configuration of an existing stream like a new one."""

import time
from typing import Final

from jetspark.client.models.consumer import ConsumerInfo
from jetspark.client.models.stream import StreamInfo

# Seconds by which the clocks of two servers of a cluster may differ: one of them says when
# something was created, another one what time it is now.
_SKEW: Final = 1.0


class Creation:
    """Distinguishes what a request created from what existed before it.

    Servers do not say it; what is older than the request existed.
    """

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def sentence(self, what: str, info: StreamInfo | ConsumerInfo) -> str:
        """What has happened to ``what``, whose state after the request is ``info``."""
        if self._existed(info):
            return f"{what} already exists, with this configuration"
        return f"{what} was created"

    def _existed(self, info: StreamInfo | ConsumerInfo) -> bool:
        if info.time is None:
            return False
        several = info.cluster is not None and bool(info.cluster.name)
        age = (info.time - info.created).total_seconds()
        return age > time.monotonic() - self._begun + (_SKEW if several else 0.0)
