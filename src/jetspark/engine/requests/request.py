"""One ``$JS.API`` request on its way through a handler."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from jetspark.api.base import ApiStruct, Response
from jetspark.api.strict import InvalidRequest, decode
from jetspark.engine.advisories import NOBODY, Asker, Audit
from jetspark.engine.engine import Engine
from jetspark.engine.failures import BODY
from jetspark.engine.operations import Postponed
from jetspark.engine.outbox import Outbox
from jetspark.engine.refusal import Refusal
from jetspark.engine.stream.stream import Stream
from jetspark.errors.codes import ErrCode
from jetspark.subjects.tokens import is_literal

_Model = TypeVar("_Model", bound=ApiStruct)

READ_ONLY: Final = "stream is read-only after a disk error"
_BLANKS: Final = b" \t\r\n"


class Arrival(NamedTuple):
    """What the stream of a request had when the request came, which may have had to wait since."""

    stream: Stream | None = None
    last_seq: int = 0


def arrival_at(stream: Stream | None) -> Arrival:
    """A request about a stream came now."""
    return Arrival() if stream is None else Arrival(stream, int(stream.log.staged.seq))


@dataclass(slots=True)
class Request:
    """What a handler is given. ``name`` is the stream the subject names.

    ``consumer`` and ``subject_filter`` are what it names besides, in requests about consumers.
    """

    name: str
    body: bytes
    reply: bytes
    now: int
    outbox: Outbox
    asker: Asker = NOBODY
    # Set when somebody listens to the audit of requests.
    audit: Audit | None = None
    consumer: str = ""
    subject_filter: str = ""
    arrival: Arrival = Arrival()  # noqa: RUF009 - it does not change

    def decoded(self, model: type[_Model]) -> _Model:
        """The body, read strictly (contracts.md, JSON)."""
        try:
            return decode(self.body, model)
        except InvalidRequest as problem:
            raise Refusal(ErrCode.INVALID_JSON, err=problem) from None

    def decoded_object(self, model: type[_Model]) -> _Model:
        """The body, if it is an object or an array at all; other bodies are not looked at.

        That is how the released server reads the requests whose body may be missing.
        """
        if self.body.lstrip(_BLANKS)[:1] in {b"{", b"["}:
            return self.decoded(model)
        return model()

    def is_empty(self) -> bool:
        """Say whether the body is missing or an object without fields."""
        body = self.body.strip(_BLANKS)
        return not self.body or (
            body[:1] == b"{" and body[-1:] == b"}" and not body[1:-1].strip(_BLANKS)
        )

    def later(
        self,
        engine: Engine,
        step: Callable[[], bool],
        kind: Response[Any],
        answer: Callable[[], bytes | None],
    ) -> None:
        """Answer after something that goes in steps; other requests about the stream wait for it.

        ``answer`` is as in ``finish``. What describes a stream describes it as it is then.
        """

        def ended(error: OSError | None, now: int, outbox: Outbox) -> None:
            self.now = now
            self.outbox = outbox
            if error is not None:
                self.outbox.reply(self.reply, kind.error(BODY))
            else:
                self.finish(kind, answer)

        engine.operations.in_steps(self.name, step, ended)

    def need_order(self, engine: Engine, stream: Stream, patterns: Iterable[bytes]) -> None:
        """Wait while the subjects of a stream are put into their order, if that takes turns."""
        index = stream.log.index
        if index.needs_order() and not all(map(is_literal, patterns)):
            raise Postponed(engine.operations.in_steps(self.name, index.order_step, _nothing))

    def finish(self, kind: Response[Any], answer: Callable[[], bytes | None]) -> None:
        """Answer now what could not be answered at once; ``answer`` may raise Refusal.

        It may return None when it holds the answer back until something is durable.
        """
        body: bytes | None
        try:
            body = answer()
        except Refusal as refusal:
            body = kind.error(refusal.body)
        except Exception:
            self.outbox.reply(self.reply, kind.error(BODY))
            raise
        if body is None:
            return
        self.outbox.reply(self.reply, body)
        if self.audit is not None:
            self.audit.answered(body, self.outbox)

    def hold(self, stream: Stream, answer: bytes, kind: Response[Any]) -> None:
        """Answer when what is staged in a stream is durable (contracts.md, Commit)."""
        audit = self.audit
        if audit is None:
            stream.replies.hold_answer((self.reply, answer, kind.error), self.outbox)
            return

        def refused(error: bytes) -> bytes:
            body = kind.error(error)
            audit.answered(body, self.outbox)
            return body

        stream.replies.hold_answer((self.reply, answer, refused), self.outbox)
        audit.hold(answer, stream, self.outbox)

    def last_seq(self, stream: Stream) -> int:
        """The last message that a stream had when the request came."""
        if stream is self.arrival.stream:
            return self.arrival.last_seq
        return int(stream.log.staged.seq)

    def stream(self, engine: Engine) -> Stream:
        """The stream the subject names."""
        stream = engine.streams.get(self.name)
        if stream is None:
            raise Refusal(ErrCode.STREAM_NOT_FOUND)
        return stream


def _nothing(_error: OSError | None, _now: int, _outbox: Outbox) -> None:
    """Requests that waited go on."""
