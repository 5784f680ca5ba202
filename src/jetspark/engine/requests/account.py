"""``$JS.API.INFO``: what the account has and may have."""

from jetspark.api.account import ACCOUNT_INFO, AccountInfo, ApiStats
from jetspark.engine.engine import Engine
from jetspark.engine.requests.request import Request
from jetspark.engine.stream.config import API_LEVEL


def info(engine: Engine, _request: Request) -> bytes:
    """Answer ``$JS.API.INFO``; its body is ignored (wire-facts.md 4)."""
    streams = engine.streams.values()
    return ACCOUNT_INFO.ok(
        AccountInfo(
            storage=sum(int(stream.log.index.bytes) for stream in streams),
            reserved_storage=sum(max(stream.config.max_bytes, 0) for stream in streams),
            streams=len(streams),
            api=ApiStats(level=API_LEVEL, total=engine.api_total, errors=engine.api_errors),
        )
    )
