"""One ``$JS.API`` request in a handler."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from jetspark.api.base import ApiStruct, Response
from jetspark.api.stream import StreamConfig
from jetspark.api.strict import AT_ONCE_MAX, InvalidRequest, decode, decoding
from jetspark.engine.advisories import INTERNAL, Audit, Requester
from jetspark.engine.engine import Engine
from jetspark.engine.failures import BODY
from jetspark.engine.operations import Postponed
from jetspark.engine.outbox import Outbox
from jetspark.engine.refusal import Refusal
from jetspark.engine.stream.replies import Body, said
from jetspark.engine.stream.stream import Stream
from jetspark.engine.wanted_subjects import AT_ONCE_MAX as SUBJECTS_AT_ONCE_MAX
from jetspark.engine.wanted_subjects import Claim
from jetspark.errors.codes import ErrCode
from jetspark.steps import Steps
from jetspark.subjects.tokens import is_literal

_T = TypeVar("_T")
_Model = TypeVar("_Model", bound=ApiStruct)

READ_ONLY: Final = "stream is read-only after a disk error"
_BLANKS: Final = b" \t\r\n"
_CLAIM: Final = "claim"


class Arrival(NamedTuple):
    """The state of its stream when a request arrived; it may have had to wait since."""

    stream: Stream | None = None
    last_seq: int = 0


def arrival_at(stream: Stream | None) -> Arrival:
    """Record the arrival of a request about a stream."""
    return Arrival() if stream is None else Arrival(stream, int(stream.log.staged.seq))


@dataclass(slots=True)
class Prepared:
    """The progress of a request that takes several turns: it is handled again after each part.

    ``steps`` has the results, by name; ``claims`` says that other streams wait for it, ``is_long``
    that other requests with a long body do.
    """

    steps: dict[str, Steps[Any]] = field(default_factory=dict)
    claims: bool = False
    is_long: bool = False


@dataclass(slots=True)
class Request:
    """The input of a handler. ``name`` is the stream in the subject.

    ``consumer`` and ``subject_filter`` are the other names in subjects about consumers.
    """

    name: str
    body: bytes
    reply: bytes
    now: int
    outbox: Outbox
    requester: Requester = INTERNAL
    # Set if there is interest in the audit of requests.
    audit: Audit | None = None
    consumer: str = ""
    subject_filter: str = ""
    arrival: Arrival = Arrival()  # noqa: RUF009 - it does not change
    prepared: Prepared = field(default_factory=Prepared)

    def decoded(self, model: type[_Model]) -> _Model:
        """Return the body, decoded strictly (contracts.md, JSON); such requests are never long."""
        try:
            return decode(self.body, model, size_max=AT_ONCE_MAX)
        except InvalidRequest as problem:
            raise Refusal(ErrCode.INVALID_JSON, err=problem) from None

    def decoded_in_turns(self, engine: Engine, model: type[_Model]) -> _Model:
        """Return the body, decoded strictly; a long one in several turns, after earlier ones.

        Raises Postponed until it is decoded.
        """
        try:
            if len(self.body) <= AT_ONCE_MAX:
                return decode(self.body, model)
            if not self.prepared.is_long:
                engine.operations.long_requests.check()
                engine.operations.long_requests.take()
                self.prepared.is_long = True
            return self.in_turns(engine, "body", partial(decoding, self.body, model))
        except InvalidRequest as problem:
            raise Refusal(ErrCode.INVALID_JSON, err=problem) from None

    def in_turns(
        self, engine: Engine, what: str, work: Callable[[], Generator[None, None, _T]]
    ) -> _T:
        """Return or raise the result of some work; raises Postponed while it takes turns.

        The request is handled again when it is done, and finds the result by its name ``what``.
        """
        done = self.prepared.steps.get(what)
        if done is None:
            done = self.prepared.steps[what] = Steps(work())
            if not done.step():
                raise Postponed(engine.operations.in_steps(self.name, done.step))
        try:
            result: _T = done.result()
        except Postponed:
            del self.prepared.steps[what]  # it starts again when that operation has ended
            raise
        return result

    def keep_order(self, engine: Engine) -> None:
        """Wait for earlier requests that take several turns, and make later ones wait for this.

        For requests about the subjects of streams; raises Postponed.
        """
        if not self.prepared.claims:
            engine.operations.claims.check()
            if len(self.body) > AT_ONCE_MAX:
                self._begin_claim(engine)

    def _begin_claim(self, engine: Engine) -> None:
        engine.operations.claims.take()
        self.prepared.claims = True

    def claimed(self, engine: Engine, config: StreamConfig) -> Claim | None:
        """Ensure that no other stream has or gets the subjects of a configuration.

        Raises Refusal or Postponed. Very many of them are claimed, for the taker of the claim
        (``take_claim``); a few need no claim if they are stored at once or announced.
        """
        if len(config.subjects) <= SUBJECTS_AT_ONCE_MAX:
            engine.check_free(config)
            return None
        if not self.prepared.claims:
            self._begin_claim(engine)
        claim: Claim = self.in_turns(engine, _CLAIM, partial(engine.claiming, config))
        return claim

    def take_claim(self) -> None:
        """Take the claim: it is given to a stream, or its taker abandons it."""
        if self.prepared.steps.pop(_CLAIM, None) is not None:
            self.prepared.claims = False

    def end(self, engine: Engine) -> None:
        """End the request: others may have what it claimed and did not get."""
        steps = self.prepared.steps
        # An error in the results refers to the request by its traceback: no cycle may remain.
        self.prepared.steps = {}
        if self.prepared.is_long:
            self.prepared.is_long = False
            engine.operations.long_requests.leave()
        if not self.prepared.claims:
            return
        self.prepared.claims = False
        held = steps.get(_CLAIM)
        if held is None:
            engine.abandon(None)
        elif not held.succeeded():
            held.cancel()
            engine.abandon(None)
        elif held.result().stream is None:
            engine.abandon(held.result())
        # Otherwise the stream has its subjects, and a later step failed.

    def decoded_object(self, model: type[_Model], engine: Engine | None = None) -> _Model:
        """Return the body, if it is an object or an array at all; other bodies are ignored.

        With ``engine`` a long one is decoded in several turns.

        That is how the released server reads requests with an optional body.
        """
        if self.body.lstrip(_BLANKS)[:1] in {b"{", b"["}:
            return self.decoded(model) if engine is None else self.decoded_in_turns(engine, model)
        return model()

    def is_empty(self) -> bool:
        """Return whether the body is missing or an empty object."""
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
        """Answer after an operation in steps; other requests about the stream wait for it.

        ``answer`` is as in ``finish``. A description of a stream is as of then.
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
        """Wait while the order of a stream's subjects is built, if that takes several turns."""
        index = stream.log.index
        if index.needs_order() and not all(map(is_literal, patterns)):
            raise Postponed(engine.operations.in_steps(self.name, index.order_step))

    def need_staged(self, engine: Engine, stream: Stream) -> None:
        """Wait while very many staged messages of a stream are read, in several turns."""
        if stream.log.staged.must_gather():
            raise Postponed(engine.operations.in_steps(self.name, stream.log.gather_some))

    def finish(self, kind: Response[Any], answer: Callable[[], bytes | None]) -> None:
        """Answer a request that could not be answered at once; ``answer`` may raise Refusal.

        It may return None if it holds the answer until something is durable.
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

    def hold(self, stream: Stream, answer: Body, kind: Response[Any]) -> None:
        """Answer when what is staged in a stream is durable (contracts.md, Commit).

        An answer that describes the stream is made then.
        """
        audit = self.audit
        if audit is None:
            stream.replies.hold_answer((self.reply, answer, kind.error), self.outbox)
            return

        def refused(error: bytes) -> bytes:
            body = kind.error(error)
            audit.answered(body, self.outbox)
            return body

        def answered() -> bytes:
            body = said(answer)
            audit.answered(body, self.outbox)
            return body

        stream.replies.hold_answer((self.reply, answered, refused), self.outbox)

    def last_seq(self, stream: Stream) -> int:
        """Return the last message that a stream had when the request arrived."""
        if stream is self.arrival.stream:
            return self.arrival.last_seq
        return int(stream.log.staged.seq)

    def stream(self, engine: Engine) -> Stream:
        """Return the stream in the subject."""
        stream = engine.streams.get(self.name)
        if stream is None:
            raise Refusal(ErrCode.STREAM_NOT_FOUND)
        return stream
