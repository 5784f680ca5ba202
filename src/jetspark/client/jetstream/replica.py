"""The newest message of every subject of a stream, in memory: ``JetStream.replica``."""

from types import TracebackType
from typing import Self

from jetspark.client.jetstream.direct_get import StreamReader, make_request
from jetspark.client.jetstream.kv.backend import Stored
from jetspark.client.jetstream.local_copy import LocalCopy
from jetspark.client.jetstream.stored import StreamMessage
from jetspark.client.timeouts import Timeout
from jetspark.errors import MessageNotFound
from jetspark.errors.codes import ErrCode


class StreamReplica:
    """The newest message of every subject, in this process, from ``JetStream.replica``.

    ``get_last`` and ``messages`` send no request and never wait; they show the stream as of
    ``seq``. Deletions and purges of messages are not noticed.
    """

    def __init__(self, reader: StreamReader, copy: LocalCopy) -> None:
        self._api = reader.api
        self._reader = reader
        self._copy = copy

    @property
    def seq(self) -> int:
        """The highest sequence received."""
        return self._copy.revision

    @property
    def memory(self) -> int:
        """Approximate memory of the replica in bytes."""
        return self._copy.memory

    def __len__(self) -> int:
        return len(self._copy)

    def get_last(self, subject: str) -> StreamMessage:
        """The newest message of a subject; MessageNotFound if the replica has none."""
        stored = self._copy.find(subject)
        if stored is None:
            raise MessageNotFound(
                404,
                ErrCode.MESSAGE_NOT_FOUND,
                f"the replica of stream {self._reader.stream!r} has no message on {subject!r}",
            )
        return self._message(stored)

    def messages(self) -> list[StreamMessage]:
        """All messages, at one sequence, ordered by sequence."""
        return sorted(map(self._message, self._copy.all()), key=lambda message: message.seq)

    async def get_last_at(
        self, subject: str, min_last_seq: int, *, timeout: Timeout | None = None
    ) -> StreamMessage:
        """The newest message at ``min_last_seq`` or later.

        Waits half of ``timeout`` for the replica to reach it, then asks the server; at once for a
        subject that is not copied.
        """
        seconds = self._api.seconds(timeout) / 2
        if self._copy.covers(subject) and await self._copy.wait_for(min_last_seq, seconds):
            return self.get_last(subject)
        request = make_request(last_by_subject=subject, min_last_seq=min_last_seq)
        return await self._reader.get(request, seconds)

    async def wait_for(self, seq: int, *, timeout: Timeout | None = None) -> bool:
        """Wait until the replica has reached ``seq``; False on timeout."""
        return await self._copy.wait_for(seq, self._api.seconds(timeout))

    async def close(self) -> None:
        """Stop following the stream and free the memory."""
        await self._copy.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _message(self, stored: Stored) -> StreamMessage:
        return StreamMessage(
            stream=self._reader.stream,
            subject=stored.key,
            seq=stored.revision,
            time_ns=stored.time_ns,
            data=stored.data,
            header_block=stored.block,
        )

    def __repr__(self) -> str:
        return f"StreamReplica({self._reader.stream!r}, seq={self.seq})"
