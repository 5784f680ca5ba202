"""Requests that change something: they need the option for it, a token and a page's secret.

A browser adds stored credentials to requests of any page, so they prove nothing about who asks.
A change therefore needs the header `X-Jetspark-Secret`, which only a page of this origin can have
read, must be JSON, and must come from this origin.
"""

import base64
import binascii
import hmac
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from starlette.requests import Request

from jetspark.client.jetstream.kv.bucket import KeyValue
from jetspark.dashboard.deployment import Deployment, checked_name
from jetspark.dashboard.errors import BadInput, Forbidden
from jetspark.dashboard.own_pages import read_body
from jetspark.dashboard.values import SEQUENCE_MAX, whole
from jetspark.headers.headers import Headers
from jetspark.subjects.tokens import key_problem

SECRET_HEADER: Final = "X-Jetspark-Secret"  # noqa: S105 - its name
BODY_MAX: Final = 1024 * 1024 + 64 * 1024


class Body:
    """The JSON body of a change; a field of another type is a BadInput."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def text(self, name: str, default: str | None = None) -> str:
        """A string; required without a default."""
        found = self._fields.get(name, default)
        if not isinstance(found, str):
            raise BadInput(f"{name}: expected a text")
        return found

    def number(self, name: str, default: int | None = None) -> int:
        """A number that is not negative; a large one comes as a text, with all of its digits."""
        found = self._fields.get(name, default)
        if isinstance(found, str):
            return whole(found, name)
        if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= SEQUENCE_MAX:
            raise BadInput(f"{name}: expected a number that is not negative")
        return found

    def data(self) -> bytes:
        """The payload: ``data`` is text, ``data64`` is base64."""
        if "data64" in self._fields:
            try:
                return base64.b64decode(self.text("data64"), validate=True)
            except binascii.Error as error:
                raise BadInput(f"data64: {error}") from error
        return self.text("data", "").encode()

    def headers(self) -> Headers:
        """Pairs of name and value."""
        found = self._fields.get("headers", [])
        if not isinstance(found, list) or not all(
            isinstance(pair, list) and len(pair) == 2 and all(isinstance(x, str) for x in pair)
            for pair in found
        ):
            raise BadInput("headers: expected a list of pairs of name and value")
        return Headers([(name, value) for name, value in found])


class Writes:
    """The changes that the pages offer."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self.secret: Final = secrets.token_urlsafe(32)

    async def body(self, request: Request) -> Body:
        """Check where a change comes from, and read it; raises Forbidden or BadInput."""
        given = request.headers.get(SECRET_HEADER, "")
        if not hmac.compare_digest(given.encode(), self.secret.encode()):
            raise Forbidden(f"a change needs the header {SECRET_HEADER}: reload the page")
        return Body(await read_body(request, BODY_MAX))

    async def publish(self, request: Request) -> dict[str, Any]:
        """Publish a message; with ``stored`` it waits for the acknowledgement of a stream."""
        body = await self.body(request)
        subject, data, headers = body.text("subject"), body.data(), body.headers()
        if body.text("mode", "stored") == "stored":
            ack = await self._deployment.run(
                self._deployment.jetstream.publish(subject, data, headers=headers)
            )
            return {"stream": ack.stream, "seq": ack.seq, "duplicate": bool(ack.duplicate)}
        client = self._deployment.client
        client.publish(subject, data, headers=headers)
        await client.flush(timeout=4)
        return {"stream": "", "seq": 0, "duplicate": False}

    async def put(self, request: Request) -> dict[str, Any]:
        """Store a value; only if the key still has the revision that the page showed."""
        body = await self.body(request)
        bucket = await self._bucket(body)
        key, revision = _key(body), body.number("revision")
        stored = (
            await self._deployment.run(bucket.update(key, body.data(), revision))
            if revision
            else await self._deployment.run(bucket.create(key, body.data()))
        )
        return {"revision": stored}

    async def delete_key(self, request: Request) -> dict[str, Any]:
        """Delete a key; its history remains."""
        body = await self.body(request)
        bucket = await self._bucket(body)
        await self._deployment.run(bucket.delete(_key(body), last=body.number("revision")))
        return {}

    async def delete_message(self, request: Request) -> dict[str, Any]:
        """Delete one message of a stream."""
        body = await self.body(request)
        stream = await self._deployment.stream(body.text("stream"))
        await self._deployment.run(stream.delete_msg(body.number("seq")))
        return {}

    async def purge(self, request: Request) -> dict[str, Any]:
        """Remove the messages of a stream, of a subject, or before a sequence.

        The name is typed twice.
        """
        body = await self.body(request)
        name = body.text("stream")
        if body.text("confirm") != name:
            raise BadInput("type the name of the stream to confirm")
        stream = await self._deployment.stream(name)
        purged = await self._deployment.run(
            stream.purge(subject=body.text("subject", ""), seq=body.number("before", 0))
        )
        return {"purged": purged}

    async def pause(self, request: Request) -> dict[str, Any]:
        """Pause a consumer for some seconds; 0 resumes it."""
        body = await self.body(request)
        consumer = await self._deployment.run(
            self._deployment.jetstream.consumer(
                checked_name(body.text("stream"), "stream"),
                checked_name(body.text("consumer"), "consumer"),
            )
        )
        seconds = body.number("seconds")
        if seconds:
            until = datetime.now(UTC) + timedelta(seconds=min(seconds, 10 * 365 * 86400))
            await self._deployment.run(consumer.pause(until))
        else:
            await self._deployment.run(consumer.resume())
        return {"paused": bool(seconds)}

    async def _bucket(self, body: Body) -> KeyValue:
        name = checked_name(body.text("bucket"), "bucket")
        return await self._deployment.run(self._deployment.jetstream.key_value(name))


def _key(body: Body) -> str:
    """A key without wildcards: a pattern would delete others, too."""
    key = body.text("key")
    problem = key_problem(key)
    if problem:
        raise BadInput(f"{key!r} is no key: {problem}")
    return key
