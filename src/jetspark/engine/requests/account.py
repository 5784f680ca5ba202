"""``$JS.API.INFO``: what the account has and may have."""

from jetspark.api.account import ACCOUNT_INFO, AccountInfo, ApiStats
from jetspark.api.enums import Storage
from jetspark.engine.engine import Engine
from jetspark.engine.requests.request import Request
from jetspark.engine.stream.config import API_LEVEL


def info(engine: Engine, _request: Request) -> bytes:
    """Answer ``$JS.API.INFO``; its body is ignored (wire.md, API requests)."""
    usage = engine.usage
    return ACCOUNT_INFO.ok(
        AccountInfo(
            memory=_stored(engine, Storage.MEMORY),
            storage=_stored(engine, Storage.FILE),
            reserved_memory=usage.reserved(Storage.MEMORY),
            reserved_storage=usage.reserved(Storage.FILE),
            streams=len(engine.streams),
            consumers=sum(len(stream.consumers) for stream in engine.streams.values()),
            limits=usage.limits,
            api=ApiStats(level=API_LEVEL, total=engine.api.total, errors=engine.api.errors),
        )
    )


def _stored(engine: Engine, storage: Storage) -> int:
    """What is durable in the streams of one kind."""
    return sum(
        int(stream.log.index.bytes)
        for stream in engine.streams.values()
        if stream.config.storage == storage
    )
