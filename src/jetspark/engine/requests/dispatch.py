"""``$JS.API`` subjects to handlers. A verb nobody knows gets silence, as in released servers."""

from collections.abc import Callable
from typing import Final

from jetspark.engine.engine import Engine
from jetspark.engine.outbox import Outbox
from jetspark.engine.requests import account, streams

# A handler returns the finished reply. `rest` is what follows the verb in the subject.
Handler = Callable[[Engine, str, bytes, int], bytes]

_HANDLERS: Final[tuple[tuple[bytes, Handler], ...]] = (
    (b"STREAM.CREATE.", streams.create),
    (b"STREAM.INFO.", streams.info),
    (b"STREAM.DELETE.", streams.delete),
)
_WHOLE: Final[dict[bytes, Handler]] = {
    b"INFO": account.info,
    b"STREAM.NAMES": streams.names,
    b"STREAM.LIST": streams.listing,
}


def handle(
    engine: Engine, verb: bytes, body: bytes, reply: bytes, now: int, outbox: Outbox
) -> None:
    """Answer one request; ``verb`` is what follows ``$JS.API.`` in its subject."""
    whole = _WHOLE.get(verb)
    if whole is not None:
        outbox.reply(reply, whole(engine, "", body, now))
        return
    for prefix, handler in _HANDLERS:
        if verb.startswith(prefix):
            rest = verb[len(prefix) :].decode(errors="replace")
            if "." not in rest:
                outbox.reply(reply, handler(engine, rest, body, now))
            return
