"""The order in which the streams of a store are adopted at a start."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from jetspark.engine.engine import Engine
from jetspark.engine.restore import is_marked
from jetspark.engine.stream.config import decode_config
from jetspark.errors.location import where
from jetspark.store.log.stream_log import StreamLog
from jetspark.store.store import FileStore


def adoption_problems(store: FileStore, log: StreamLog, now: int) -> list[str]:
    """Adopt a stream as a server does at a start; return what could not be served, and why.

    The log cannot be used for anything else afterwards.
    """
    if is_marked(bytes(log.identity.config)):
        return []
    engine = Engine(store, account=log.identity.account, random_id=lambda: 0)
    try:
        engine.adopt(log, now)
    except Exception as error:  # noqa: BLE001 - whatever it is, a server would meet it
        return [f"the stream cannot be served: {where(error)}"]
    return [
        f"consumer {name} cannot be served: {why}"
        for name, why in engine.consumers.take_unadopted()
    ]


def copies_first(logs: Iterable[StreamLog]) -> list[StreamLog]:
    """Return the logs so that each stream follows those that copy it.

    A stream with interest or work-queue retention must know its copies before it checks what its
    consumers need: otherwise it would remove messages that were not copied yet.
    """
    known = list(logs)
    copied_by: dict[tuple[str, str], list[StreamLog]] = {}
    for log in known:
        document = bytes(log.identity.config)
        if is_marked(document):
            continue
        try:
            config = decode_config(document)
        except msgspec.MsgspecError:
            continue  # adopting it reports that
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
