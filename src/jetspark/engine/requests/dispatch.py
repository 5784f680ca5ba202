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
) -> bool:
    """Answer one request; ``verb`` is what follows ``$JS.API.`` in its subject.

    False when it was refused or nobody knows it.
    """
    rest = ""
    handler = _WHOLE.get(verb)
    if handler is None:
        for prefix, known in _HANDLERS:
            if verb.startswith(prefix):
                rest = verb[len(prefix) :].decode(errors="replace")
                handler = known if "." not in rest else None
                break
    if handler is None:
        return False
    answer = handler(engine, rest, body, now)
    outbox.reply(reply, answer)
    return b'"error":{' not in answer[:200]
