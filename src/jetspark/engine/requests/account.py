"""``$JS.API.INFO``: usage and limits of the account."""

from jetspark.api.account import ACCOUNT_INFO, AccountInfo, ApiStats
from jetspark.api.enums import Storage
from jetspark.engine.engine import Engine
from jetspark.engine.requests.request import Request
from jetspark.engine.stream.config import API_LEVEL


def info(engine: Engine, _request: Request) -> bytes:
    """Answer ``$JS.API.INFO``; its body is ignored (wire.md, API requests)."""
    usage = engine.usage
    # One pass for all: an account may have ten thousand streams, and this is one turn.
    total = in_memory = consumers = 0
    for stream in engine.streams.values():
        size = int(stream.log.index.bytes)
        total += size
        if stream.log.segments.in_memory:
            in_memory += size
        consumers += len(stream.consumers)
    return ACCOUNT_INFO.ok(
        AccountInfo(
            memory=in_memory,
            storage=total - in_memory,
            reserved_memory=usage.reserved(Storage.MEMORY),
            reserved_storage=usage.reserved(Storage.FILE),
            streams=len(engine.streams),
            consumers=consumers,
            limits=usage.limits,
            api=ApiStats(level=API_LEVEL, total=engine.api.total, errors=engine.api.errors),
        )
    )
