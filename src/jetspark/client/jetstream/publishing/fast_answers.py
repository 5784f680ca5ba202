"""The server's answers to a fast batch, and their consequences (ADR-50). No I/O.

States: open (neither ``failure`` nor ``ack``), closing (``commit`` was called), ended (``ack``, or
``failure`` with the reason). ``unknown`` is a batch that the server no longer has: its last ack
may still be in flight. ``leaderless`` means that the subject has no responders now: messages sent
meanwhile are lost, and the next leader reports how many it has.
"""

from collections.abc import Callable

from jetspark.api.batch import BatchFlowAck, FlowAck, FlowError, FlowGap, decode_flow
from jetspark.api.message import PubAck
from jetspark.client.jetstream.publishing.fast_dialect import Gap
from jetspark.client.jetstream.publishing.fast_window import FastWindow
from jetspark.client.jetstream.publishing.publisher import refusal
from jetspark.client.message import Message
from jetspark.client.unreadable import UNREADABLE
from jetspark.errors import (
    ApiError,
    BatchIncomplete,
    Error,
    NoResponders,
    NotSupported,
    ProtocolViolation,
    status_error,
)
from jetspark.errors.codes import ErrCode
from jetspark.headers.status import NO_RESPONDERS

GapCallback = Callable[[int, int], None]
RefusalCallback = Callable[[int, ApiError], None]


class FastAnswers:
    """The state of one batch, as reported by the server."""

    def __init__(
        self,
        window: FastWindow,
        gap: Gap,
        *,
        can_ping: bool,
        on_gap: GapCallback | None,
        on_refused: RefusalCallback | None,
        report: Callable[[Exception], None],
    ) -> None:
        self._window = window
        self._gap: Gap = gap
        self._can_ping = can_ping
        self._on_gap = on_gap
        self._on_refused = on_refused
        self._report = report
        self.ack: PubAck | None = None
        self.failure: Error | None = None
        self.unknown: Error | None = None
        self.closing: bool = False
        self.leaderless: bool = False
        # Whether the server has reported where the batch ended.
        self.exact: bool = False
        # First and last message that an interruption may have lost, until the server reports.
        self._doubt: tuple[int, int] | None = None

    @property
    def quiet(self) -> bool:
        """Whether no answer requires handling before more is sent."""
        return not (self.failure or self.unknown or self.leaderless or self.closing)

    def close(self) -> None:
        """Note that nothing more is sent."""
        self.closing = True

    def try_leader(self) -> None:
        """Note that the server is asked again whether the subject has responders."""
        self.leaderless = False

    def take(self, message: Message, subject: str) -> None:
        """Process one answer; ``subject`` is that of the messages."""
        if self.ack is not None:
            return  # the batch has ended: further answers concern messages after its end
        if not message.data:
            self._take_status(message.status, subject)
            return
        try:
            answer = decode_flow(message.data)
        except UNREADABLE as error:
            self.fail(ProtocolViolation(f"invalid answer to the fast batch: {error}"))
            return
        match answer:
            case FlowAck():
                if message.subject.endswith(".4.$FI"):
                    self._doubt = None
                self._window.on_ack(answer.seq, answer.msgs)
            case BatchFlowAck():
                if answer.last_seq:
                    self._lost(answer.last_seq + 1, answer.seq)
                self._window.on_ack(answer.seq, answer.messages, answer.bytes)
            case FlowGap():
                self._lost(answer.last_seq, answer.seq)
            case FlowError():
                self._refused(answer, subject)
            case PubAck():
                self._take_pub_ack(answer, subject)

    def on_cut(self) -> None:
        """The connection broke: messages and answers in flight may be lost.

        A gap is reported once: if that report was lost in the next interruption, everything that
        may be missing is reported.
        """
        if self._doubt is not None:
            self._lost(self._doubt[0], self._doubt[1] + 1)
        self._doubt = (self._window.acked + 1, self._window.sent)

    def fail(self, error: Error) -> None:
        """End the batch; the first reason is kept."""
        if self.failure is None:
            self.failure = error

    def check(self) -> None:
        """Raise the error that ended the batch, if any."""
        if self.failure is not None:
            raise self.failure

    def final(self) -> PubAck | None:
        """The answer to the commit, once it has arrived."""
        return self.ack

    def incomplete(self, why: str) -> BatchIncomplete:
        """The error of a batch that was interrupted before its last ack."""
        return BatchIncomplete(
            400,
            ErrCode.ATOMIC_INCOMPLETE,
            f"{why}: at least {self._window.acked} of {self._window.sent} messages are stored; "
            "send the rest again, with message ids",
        )

    def _take_status(self, code: int, subject: str) -> None:
        if code != NO_RESPONDERS:
            self.fail(status_error(code, ""))
        elif self._window.sent == 1:
            self.fail(NoResponders(subject))
        elif self._can_ping:
            self.leaderless = True
        elif self._gap == "fail":
            self.fail(self.incomplete(f"no responders on {subject!r} any more"))

    def _take_pub_ack(self, ack: PubAck, subject: str) -> None:
        if ack.error is not None:
            error = refusal(ack.error, subject, ack.stream)
            if ack.error.err_code == ErrCode.FAST_ID_UNKNOWN and self._window.sent > 1:
                error.add_note(
                    "the server ended or no longer knows the batch: at least "
                    f"{self._window.acked} of {self._window.sent} messages are stored"
                )
                self.unknown = error
            else:
                self.fail(error)
        elif not ack.batch:
            self.fail(
                NotSupported(
                    f"stream {ack.stream!r} is on a server that does not support fast batches of "
                    f"this dialect: it stored the first message as sequence {ack.seq}"
                )
            )
        elif self.closing and (self._gap == "ok" or ack.count == self._window.sent):
            self.exact = True
            self.ack = ack
        else:
            self.exact = True
            self._window.on_ack(ack.count, 0)
            self.fail(
                BatchIncomplete(
                    400,
                    ErrCode.ATOMIC_INCOMPLETE,
                    f"the server ended the batch after {ack.count} of {self._window.sent} "
                    f"messages (last sequence {ack.seq}): one was lost; send those after "
                    f"the first {ack.count} again, in a new batch",
                )
            )

    def _lost(self, expected: int, got: int) -> None:
        if self._gap == "ok" and self._on_gap is not None:
            try:
                self._on_gap(expected, got)
            except Exception as error:  # noqa: BLE001 - a user's callback may raise anything
                self._report(error)

    def _refused(self, answer: FlowError, subject: str) -> None:
        error = refusal(answer.error, subject)
        if self._gap == "fail":
            error.add_note(f"message {answer.seq} of the batch was refused")
            self.fail(error)
        elif self._on_refused is not None:
            try:
                self._on_refused(answer.seq, error)
            except Exception as failure:  # noqa: BLE001 - a user's callback may raise anything
                self._report(failure)
        else:
            self._report(error)
