"""Consumers: of a stream, one of them, and why it does not deliver a message."""

from typing import Any

from starlette.requests import Request

from jetspark.dashboard.arguments import Query
from jetspark.dashboard.backlog import Backlog
from jetspark.dashboard.deployment import Deployment
from jetspark.dashboard.values import message_row
from jetspark.errors import ConsumerNotFound, Error, MessageNotFound


class Consumers:
    """Answers about consumers."""

    def __init__(self, deployment: Deployment, backlog: Backlog) -> None:
        self._deployment = deployment
        self._backlog = backlog

    async def listed(self, request: Request) -> dict[str, Any]:
        """A page of the consumers of a stream, in the order of the server."""
        query = Query(request)
        stream = query.name("stream", "stream")
        words = query.text("q").lower().split()
        offset, limit = query.number("offset"), query.limit()
        names: list[str] = []
        while True:
            page = await self._deployment.api("CONSUMER.NAMES", stream, {"offset": len(names)})
            some = page.get("consumers") or []
            names += some
            if not some or len(names) >= int(page.get("total", 0)):
                break
        found = sorted(name for name in names if all(word in name.lower() for word in words))
        infos = await self._deployment.rows(
            self._deployment.api("CONSUMER.INFO", f"{stream}.{name}")
            for name in found[offset : offset + limit]
        )
        unread = [
            (name, info)
            for name, info in zip(found[offset:], infos, strict=False)
            # One that was deleted meanwhile is no problem.
            if isinstance(info, Error) and not isinstance(info, ConsumerNotFound)
        ]
        return {
            "rows": [info for info in infos if not isinstance(info, Error)],
            "total": len(found),
            "all": len(names),
            "offset": offset,
            "unread": len(unread),
            "unread_why": [f"{name}: {error}" for name, error in unread[:1]],
        }

    async def detail(self, request: Request) -> dict[str, Any]:
        """One consumer, with the state of its stream."""
        query = Query(request)
        stream, name = query.name("stream", "stream"), query.name("consumer", "consumer")
        info = await self._deployment.api("CONSUMER.INFO", f"{stream}.{name}")
        of = await self._deployment.api("STREAM.INFO", stream)
        info.pop("type", None)
        return {
            "info": info,
            "stream": {
                "messages": of["state"].get("messages", 0),
                "first_seq": of["state"].get("first_seq", 0),
                "last_seq": of["state"].get("last_seq", 0),
                "retention": of["config"].get("retention", "limits"),
            },
        }

    async def explain(self, request: Request) -> dict[str, Any]:
        """Why a message (``seq`` 0: the next one) is not delivered."""
        query = Query(request)
        stream, name = query.name("stream", "stream"), query.name("consumer", "consumer")
        seq = query.number("seq")
        consumer = await self._deployment.run(self._deployment.jetstream.consumer(stream, name))
        found = await self._deployment.run(consumer.explain(seq))
        message = None
        if seq:
            of = await self._deployment.stream(stream)
            try:
                message = message_row(await self._deployment.run(of.get_msg(seq=seq)))
            except MessageNotFound:
                message = None
        return {"reason": found.reason.value, "text": found.text, "seq": seq, "message": message}

    async def lags(self, request: Request) -> dict[str, Any]:
        """The consumers, mirrors and sources with the largest lags, of all streams."""
        del request
        return await self._backlog.read(0.7)
