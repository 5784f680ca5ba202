"""Key-value buckets: keys, one key's revisions, and the bucket as it was at a time.

Keys are listed by their last change, the newest first: a page costs the same in a bucket of ten
keys and of a million. A search for a part of a key reads keys in that order within a budget of
time, and says how far it got.
"""

from datetime import datetime
from typing import Any, Final

from starlette.requests import Request

from jetspark.client.jetstream.kv.entry import Operation, read_operation
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.client.jetstream.streams import Stream
from jetspark.dashboard.arguments import KEY_MAX, Query
from jetspark.dashboard.browse import PAGE_BYTES, read_backwards
from jetspark.dashboard.deployment import TIMEOUT_S, Deployment
from jetspark.dashboard.errors import BadInput
from jetspark.dashboard.values import SHOWN, iso, message_row, read_time
from jetspark.errors import MessageNotFound
from jetspark.subjects.tokens import key_filter_problem, key_problem

# A bucket keeps at most 64 revisions of a key; a stream that was made otherwise may have more.
REVISIONS_MAX: Final = 256


class Buckets:
    """Answers about buckets."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment

    async def keys(self, request: Request) -> dict[str, Any]:
        """A page of keys, the last changed first, now or at a time."""
        query = Query(request)
        bucket, stream, prefix = await self._open(query)
        limit, before = query.limit(), query.number("before")
        as_of = min(query.number("as_of"), stream.cached_info.state.last_seq + 1)
        at = query.text("time")
        if at and not before:
            before = as_of = await self._first_after(stream, at)
        text = query.text("q").strip()
        has_wildcards = any(token in {"*", ">"} for token in text.split("."))
        if has_wildcards and key_filter_problem(text):
            raise BadInput(f"{text!r} is no pattern of keys: {key_filter_problem(text)}")
        pattern = prefix + text if has_wildcards else ""
        part = text.lower() if text and not has_wildcards else ""
        deleted = query.text("deleted") == "1"

        def is_wanted(message: StreamMessage) -> bool:
            if not deleted and operation(message) is not Operation.PUT:
                return False
            return part in message.subject.removeprefix(prefix).lower()

        # With one revision per key most messages are wanted: the range need not be a search's.
        wanted = is_wanted if part or not deleted else None
        found = await read_backwards(self._deployment, stream, before, pattern, limit, wanted)
        messages = await self._newest_only(stream, found.messages, as_of)
        state = stream.cached_info.state
        return {
            "bucket": bucket,
            "rows": [_row(each, prefix) for each in messages],
            "next": found.next,
            "as_of": as_of,
            "is_complete": found.is_complete,
            "examined": found.examined,
            "keys": state.num_subjects,
            "last_seq": state.last_seq,
            "history": stream.cached_info.config.max_msgs_per_subject,
        }

    async def entry(self, request: Request) -> dict[str, Any]:
        """All stored revisions of a key, the newest first; ``time`` marks what was valid then."""
        query = Query(request)
        bucket, stream, prefix = await self._open(query)
        key = self._key(query)
        revisions = await self._revisions(stream, prefix, key)
        answer: dict[str, Any] = {
            "bucket": bucket,
            "key": key,
            "revisions": [row for row, _ in revisions],
            "history": stream.cached_info.config.max_msgs_per_subject,
            "created": stream.cached_info.created.isoformat(),
        }
        at = query.text("time")
        if at:
            when = read_time(at)
            valid = [each for each, stored in revisions if stored <= when]
            answer["time"] = when.isoformat()
            answer["at"] = valid[0]["revision"] if valid else 0
            answer["overwritten"] = (
                not valid
                and bool(revisions)
                and revisions[-1][0]["revision"] > 1
                and when >= stream.cached_info.created
            )
        return answer

    async def _revisions(
        self, stream: Stream, prefix: str, key: str
    ) -> list[tuple[dict[str, Any], datetime]]:
        """The rows of a key's revisions with their times, the newest first."""
        pages = stream.get_batch(
            next_by_subject=prefix + key,
            limit=REVISIONS_MAX,
            batch=REVISIONS_MAX,
            max_bytes=PAGE_BYTES,
            timeout=TIMEOUT_S,
        )
        found: list[tuple[dict[str, Any], datetime]] = []
        async with self._deployment.pages:
            while chunk := await self._deployment.run(pages.next_chunk(REVISIONS_MAX)):
                # Not kept as messages: they may be large.
                found += [(_row(each, prefix, SHOWN // 4), each.time) for each in chunk]
        return found[::-1]

    async def _open(self, query: Query) -> tuple[str, Stream, str]:
        """The bucket, its stream, and what its subjects have before the key."""
        bucket = query.name("bucket", "bucket")
        stream = await self._deployment.stream(f"KV_{bucket}")
        config = stream.cached_info.config
        origin = config.mirror.name.removeprefix("KV_") if config.mirror is not None else bucket
        return bucket, stream, f"$KV.{origin}."

    def _key(self, query: Query) -> str:
        key = query.text("key", most=KEY_MAX)
        problem = key_problem(key)
        if problem:
            raise BadInput(f"{key!r} is no key: {problem}")
        return key

    async def _first_after(self, stream: Stream, at: str) -> int:
        """The sequence before which everything was stored at or before a time."""
        last = stream.cached_info.state.last_seq
        try:
            found = await self._deployment.run(
                stream.get_msg(start_time=read_time(at), next_by_subject=">")
            )
        except MessageNotFound:
            return last + 1
        return found.seq

    async def _newest_only(
        self, stream: Stream, messages: list[StreamMessage], as_of: int
    ) -> list[StreamMessage]:
        """Without messages that are not the last of their key, now or before a sequence."""
        if not messages or (stream.cached_info.config.max_msgs_per_subject == 1 and not as_of):
            return messages
        subjects = list(dict.fromkeys(each.subject for each in messages))
        pages = stream.get_last_many(subjects, up_to_seq=max(as_of - 1, 0), timeout=TIMEOUT_S)
        last: set[int] = set()
        while chunk := await self._deployment.run(pages.next_chunk(1000)):
            last.update(each.seq for each in chunk)
        return [each for each in messages if each.seq in last]


def operation(message: StreamMessage) -> Operation:
    """What a message did to its key."""
    return read_operation(message.header_block)[0]


def _row(message: StreamMessage, prefix: str, shown: int = 256) -> dict[str, Any]:
    row = message_row(message, shown)
    row["key"] = row.pop("subject").removeprefix(prefix)
    row["revision"] = row.pop("seq")
    row["operation"] = operation(message).value
    row["time"] = iso(message.time_ns)
    return row
