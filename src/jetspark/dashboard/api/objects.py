"""Object stores: objects by their last change, and downloads."""

from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from jetspark.client.jetstream.objects.info import encode_name
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.client.jetstream.streams import Stream
from jetspark.dashboard.arguments import Query
from jetspark.dashboard.browse import read_backwards
from jetspark.dashboard.deployment import TIMEOUT_S, Deployment
from jetspark.dashboard.errors import BadInput
from jetspark.dashboard.values import SEQUENCE_MAX, iso, printable, read_json
from jetspark.errors import Error
from jetspark.subjects.tokens import is_valid_literal

# What is read ahead of a browser; a slow one holds no more than this.
CHUNKS: Final = 16
CHUNKS_BYTES: Final = 2 * 1024 * 1024


class Objects:
    """Answers about object stores."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment

    async def listed(self, request: Request) -> dict[str, Any]:
        """A page of objects, the last changed first."""
        query = Query(request)
        bucket = query.name("bucket", "object store")
        words = query.text("q").lower().split()
        stream = await self._deployment.stream(f"OBJ_{bucket}")

        def is_wanted(message: StreamMessage) -> bool:
            row = _row(message)
            return not row["deleted"] and all(word in row["name"].lower() for word in words)

        found = await read_backwards(
            self._deployment,
            stream,
            query.number("before"),
            f"$O.{bucket}.M.>",
            query.limit(),
            is_wanted,
        )
        state = stream.cached_info.state
        return {
            "bucket": bucket,
            "rows": [_row(each) for each in found.messages],
            "next": found.next,
            "is_complete": found.is_complete,
            "bytes": state.bytes,
            "sealed": stream.cached_info.config.sealed,
        }

    async def download(self, request: Request) -> Response:
        """The content of an object, chunk by chunk, by direct gets: no consumer is created."""
        query = Query(request)
        bucket, name = query.name("bucket", "object store"), query.text("name")
        stream = await self._deployment.stream(f"OBJ_{bucket}")
        subject = f"$O.{bucket}.M.{encode_name(name)}"
        meta = _row(await self._deployment.run(stream.get_msg(last_by_subject=subject)))
        if meta["deleted"]:
            raise BadInput(f"the object {name!r} was deleted")
        if meta["link"]:
            raise BadInput(f"{name!r} is a link: download {meta['link']!r} instead")
        chunks = f"$O.{bucket}.C.{meta['nuid']}"
        if meta["size"] and not is_valid_literal(chunks.encode()):
            raise BadInput(f"{name!r} has no content: its description is damaged")
        file = quote(name.rpartition("/")[2] or "object", safe="")
        return StreamingResponse(
            self._chunks(stream, chunks, meta["size"]),
            media_type="application/octet-stream",
            headers={
                "Content-Disposition": f"attachment; filename*=UTF-8''{file}",
                "Content-Length": str(meta["size"]),
            },
        )

    async def _chunks(self, stream: Stream, subject: str, size: int) -> AsyncIterator[bytes]:
        """The chunks of an object; if some are missing, the download ends before its length."""
        pages = stream.get_batch(
            next_by_subject=subject, batch=CHUNKS, max_bytes=CHUNKS_BYTES, timeout=TIMEOUT_S
        )
        sent = 0
        while sent < size:
            chunks = await self._deployment.run(pages.next_chunk(CHUNKS))
            if not chunks:
                raise Error(f"the object was deleted, or lacks chunks, after {sent} bytes")
            for chunk in chunks:
                sent += len(chunk.data)
                if sent > size:
                    raise Error(f"the object has more than its {size} bytes")
                yield chunk.data


def _row(message: StreamMessage) -> dict[str, Any]:
    """What a message says of its object; what someone stored instead has no name and size."""
    meta = read_json(message.data, dict[str, object]) or {}
    options = meta.get("options")
    link = options.get("link") if isinstance(options, dict) else None
    target = [link.get("bucket"), link.get("name")] if isinstance(link, dict) else []
    size, chunks = meta.get("size"), meta.get("chunks")
    return {
        "name": _text(meta.get("name")),
        "description": _text(meta.get("description")),
        "size": size if _is_size(size) else 0,
        "chunks": chunks if _is_size(chunks) else 0,
        "nuid": _text(meta.get("nuid")),
        "digest": _text(meta.get("digest")),
        "deleted": bool(meta.get("deleted")),
        "link": "/".join(filter(None, map(_text, target))),
        "time": iso(message.time_ns),
        "seq": message.seq,
    }


def _text(value: object) -> str:
    return printable(value) if isinstance(value, str) else ""


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value <= SEQUENCE_MAX
