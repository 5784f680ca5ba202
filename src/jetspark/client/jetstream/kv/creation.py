"""Creating a key that has no value: ``KeyValue.create`` (ADR-8, "Storing Values"; ADR-53)."""

import asyncio

from jetspark.client.jetstream.kv.backend import Backend, SecondsToLive
from jetspark.client.jetstream.kv.entry import Operation
from jetspark.client.timeouts import Timeout
from jetspark.errors import KeyExists, WrongLastSequence


async def create_key(
    backend: Backend,
    key: str,
    stored: tuple[str, bytes],
    ttl: SecondsToLive,
    timeout: Timeout | None,
) -> int:
    """Write the ``stored`` form of a key and value; KeyExists if it has a value."""
    loop = asyncio.get_running_loop()
    left = backend.seconds(timeout)
    deadline = loop.time() + left
    expected = 0
    stored_key, data = stored
    while True:
        try:
            return await backend.put(stored_key, data, Operation.PUT, expected, ttl, left)
        except WrongLastSequence as error:
            # ADR-53: read at least up to the revision of the server that refused. Not decoded: the
            # current value does not matter, and may be of another codec.
            found = await backend.get(
                stored_key,
                revision=0,
                min_last_revision=error.actual or 0,
                timeout=max(deadline - loop.time(), 0.0),
            )
        if found is not None and found.operation is Operation.PUT:
            raise KeyExists(backend.bucket, key, found.revision)
        # Deleted meanwhile: retry, unless other clients keep being faster.
        left = deadline - loop.time()
        if left <= 0:
            raise KeyExists(backend.bucket, key)
        expected = 0 if found is None else found.revision
