"""In which order the streams of a store are taken over at a start."""

from __future__ import annotations

from collections.abc import Iterable

from jetspark.engine.restore import is_marked
from jetspark.engine.stream.config import decode_config
from jetspark.store.log import StreamLog


def copies_first(logs: Iterable[StreamLog]) -> list[StreamLog]:
    """Each stream behind those that copy it.

    A stream that keeps what somebody needs must know of its copies before it looks at what its
    consumers need: it would let go of what was not copied yet.
    """
    known = list(logs)
    copied_by: dict[tuple[str, str], list[StreamLog]] = {}
    for log in known:
        document = bytes(log.identity.config)
        if is_marked(document):
            continue
        config = decode_config(document)
        for source in (config.mirror, *config.sources):
            if source is not None and source.external is None:
                copied_by.setdefault((log.identity.account, source.name), []).append(log)
    order: list[StreamLog] = []
    seen: set[int] = set()

    def add(log: StreamLog) -> None:
        if id(log) in seen:
            return
        seen.add(id(log))
        for copy in copied_by.get((log.identity.account, log.identity.name), []):
            add(copy)
        order.append(log)

    for log in known:
        add(log)
    return order
