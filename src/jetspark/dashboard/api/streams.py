"""Streams: the list, one of them, its subjects and its messages."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from jetspark.client.models.base import to_wire
from jetspark.dashboard.arguments import Query
from jetspark.dashboard.browse import read_backwards, read_forwards
from jetspark.dashboard.deployment import Deployment
from jetspark.dashboard.errors import problem_of
from jetspark.dashboard.values import SHOWN, message_row, printable, read_time, whole
from jetspark.errors import Error, MessageNotFound

# STREAM.INFO lists all subjects of a pattern at once: a stream with more is not asked for them.
SUBJECTS_MAX: Final = 2_000
SUBJECTS_SHOWN: Final = 200
TAIL_S: Final = 0.5
TAIL_ROWS: Final = 50


class Streams:
    """Answers about streams."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment

    async def listed(self, request: Request) -> dict[str, Any]:
        """A page of streams by name; ``q`` is a part of it, ``kind`` one of the kinds."""
        query = Query(request)
        words = query.text("q").lower().split()
        kind = query.text("kind")
        names, whole_list = await self._deployment.stream_names()
        found = [
            name
            for name in names
            if (not kind or kind_of(name) == kind) and all(word in name.lower() for word in words)
        ]
        offset, limit = query.number("offset"), query.limit()
        page = found[offset : offset + limit]
        infos = await self._deployment.rows(
            self._deployment.api("STREAM.INFO", name) for name in page
        )
        rows = [row_of(name, info) for name, info in zip(page, infos, strict=True)]
        return {
            "rows": rows,
            "total": len(found),
            "all": len(names),
            "offset": offset,
            "is_complete": whole_list,
        }

    async def detail(self, request: Request) -> dict[str, Any]:
        """Configuration and state."""
        info = await self._deployment.api("STREAM.INFO", Query(request).name("stream", "stream"))
        info.pop("type", None)
        return {"info": info, "kind": kind_of(info["config"]["name"])}

    async def subjects(self, request: Request) -> dict[str, Any]:
        """The subjects that match a pattern, those with most messages first."""
        query = Query(request)
        name = query.name("stream", "stream")
        info = await self._deployment.api("STREAM.INFO", name)
        count = int(info["state"].get("num_subjects", 0))
        pattern = query.pattern("filter") or ">"
        if count > SUBJECTS_MAX:
            return await self._newest_subjects(name, pattern, count)
        answer = await self._deployment.api("STREAM.INFO", name, {"subjects_filter": pattern})
        found = answer["state"].get("subjects") or {}
        rows = sorted(found.items(), key=lambda item: (-item[1], item[0]))[:SUBJECTS_SHOWN]
        total = int(answer.get("total", len(found)))
        return {
            "rows": [{"subject": printable(name), "messages": count} for name, count in rows],
            "total": max(total, len(found)),
            "is_counted": True,
        }

    async def _newest_subjects(self, name: str, pattern: str, count: int) -> dict[str, Any]:
        """The subjects of the newest messages, without counts."""
        stream = await self._deployment.stream(name)
        found = await read_backwards(
            self._deployment, stream, 0, "" if pattern == ">" else pattern, SUBJECTS_SHOWN
        )
        subjects = dict.fromkeys(printable(each.subject) for each in found.messages)
        rows = [{"subject": each, "messages": None} for each in subjects]
        return {"rows": rows, "total": count, "is_counted": False}

    async def messages(self, request: Request) -> dict[str, Any]:
        """A page of messages: from a sequence or time on, or the last ones before a sequence."""
        query = Query(request)
        pattern, limit = query.pattern("filter"), query.limit()
        stream = await self._deployment.stream(query.name("stream", "stream"))
        state = stream.cached_info.state
        start, at = query.number("from"), query.text("time")
        if at:
            try:
                first = await self._deployment.run(
                    stream.get_msg(start_time=read_time(at), next_by_subject=pattern or ">")
                )
                start = first.seq
            except MessageNotFound:
                return _page([], state, next_seq=0, is_complete=True, examined=0)
        if start:
            found = await read_forwards(self._deployment, stream, start, pattern, limit)
        else:
            found = await read_backwards(
                self._deployment, stream, query.number("before"), pattern, limit
            )
        return _page(
            [message_row(each) for each in found.messages],
            state,
            next_seq=found.next,
            is_complete=found.is_complete,
            examined=found.examined,
        )

    async def message(self, request: Request) -> dict[str, Any]:
        """One message."""
        query = Query(request)
        stream = await self._deployment.stream(query.name("stream", "stream"))
        seq = whole(request.path_params["seq"], "seq")
        found = await self._deployment.run(stream.get_msg(seq=max(seq, 1)))
        return message_row(found, SHOWN)

    async def raw(self, request: Request) -> Response:
        """The payload of a message, as a download that no browser interprets."""
        query = Query(request)
        stream = await self._deployment.stream(query.name("stream", "stream"))
        seq = whole(request.path_params["seq"], "seq")
        found = await self._deployment.run(stream.get_msg(seq=max(seq, 1)))
        return Response(
            found.data,
            media_type="application/octet-stream",
            headers={"Content-Disposition": f'attachment; filename="{seq}.bin"'},
        )

    async def tail(self, request: Request) -> AsyncGenerator[dict[str, Any], None]:
        """New messages as they are stored, read by sequence: a work queue keeps its messages.

        What arrives faster than a page can show is skipped, which the page says. Each event has
        the position after it, with which a page that lost its connection continues.
        """
        query = Query(request)
        name, pattern = query.name("stream", "stream"), query.pattern("filter")
        stopping: asyncio.Event = request.state.stopping
        # Without a position the first look decides what is new.
        after, created = query.tail_position()
        yield {"tail": True}
        while not stopping.is_set():
            began = time.monotonic()
            try:
                stream = await self._deployment.stream(name)
                info = stream.cached_info
                last, made = info.state.last_seq, info.created.isoformat()
                is_first_look = after < 0
                if is_first_look:
                    after = last
                elif created not in {"", made} or last < after:
                    after = 0  # another stream of the same name: all of it is new
                event: dict[str, Any] = {}
                if last > after:
                    found = await read_backwards(
                        self._deployment, stream, 0, pattern, TAIL_ROWS, after=after
                    )
                    if found.messages:
                        event = {
                            "rows": [message_row(each) for each in reversed(found.messages)],
                            # Of a subject it is not known how many of these were on it.
                            "skipped": max(found.next - after - 1, 0) if not pattern else 0,
                            "is_cut": found.next > 0,
                        }
                after, created = last, made
                if event or is_first_look:
                    yield {**event, "position": f"{after}@{created}"}
            except Error as error:
                problem = problem_of(error)
                yield {"problem": problem.body() if problem else {"error": str(error)}}
                await asyncio.sleep(2)
            await asyncio.sleep(max(TAIL_S - (time.monotonic() - began), 0.1))


def kind_of(name: str) -> str:
    """What a stream stores, by its name."""
    if name.startswith("KV_"):
        return "kv"
    return "object" if name.startswith("OBJ_") else "stream"


def row_of(name: str, info: Any) -> dict[str, Any]:
    """A stream in a list."""
    if isinstance(info, Error):
        problem = problem_of(info)
        return {"name": name, "problem": problem.text if problem else str(info)}
    config, state = info["config"], info["state"]
    return {
        "name": name,
        "kind": kind_of(name),
        "description": config.get("description", ""),
        "subjects": (config.get("subjects") or [])[:5],
        "subjects_more": max(len(config.get("subjects") or []) - 5, 0),
        "retention": config.get("retention", "limits"),
        "storage": config.get("storage", "file"),
        "replicas": config.get("num_replicas", 1),
        "messages": state.get("messages", 0),
        "bytes": state.get("bytes", 0),
        "first_seq": state.get("first_seq", 0),
        "last_seq": state.get("last_seq", 0),
        "last_time": state.get("last_ts"),
        "num_subjects": state.get("num_subjects", 0),
        "consumers": state.get("consumer_count", 0),
        "max_bytes": config.get("max_bytes", -1),
        "max_msgs": config.get("max_msgs", -1),
        "max_age": config.get("max_age", 0),
        "history": config.get("max_msgs_per_subject", -1),
        "mirror": (info.get("mirror") or {}).get("name", ""),
        "lag": (info.get("mirror") or {}).get("lag"),
        "sources": len(info.get("sources") or []),
        "sealed": bool(config.get("sealed")),
        "lost": (state.get("lost") or {}).get("bytes", 0),
    }


def _page(
    rows: list[dict[str, Any]], state: Any, *, next_seq: int, is_complete: bool, examined: int
) -> dict[str, Any]:
    return {
        "rows": rows,
        "next": next_seq,
        "is_complete": is_complete,
        "examined": examined,
        "first_seq": state.first_seq,
        "last_seq": state.last_seq,
        "messages": state.messages,
    }


def wire(model: Any) -> Any:
    """A model of the client as the JSON of the wire."""
    return msgspec.to_builtins(to_wire(model))
