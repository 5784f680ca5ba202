"""One JSON request to ``$JS.API``: encode, send, decode, raise errors."""

from typing import Final, TypeVar

from jetspark.api.base import ApiErrorBody, ApiStruct, Response, encode_request
from jetspark.client.arguments import text, whole
from jetspark.client.core import ClientCore
from jetspark.client.frames import encode_subject
from jetspark.client.jetstream.high_water import HighWater
from jetspark.client.options import PUBLISH_RETRIES
from jetspark.client.timeouts import Timeout, call_seconds
from jetspark.client.unreadable import UNREADABLE
from jetspark.errors import (
    ApiError,
    BadSubject,
    JetStreamNotEnabled,
    ProtocolViolation,
    api_error,
)
from jetspark.errors.codes import ErrCode
from jetspark.headers.status import NO_RESPONDERS
from jetspark.ids import Nuid, new_inbox
from jetspark.subjects.tokens import is_valid_literal

DEFAULT_PREFIX: Final = "$JS.API"
PUBLISH_RETRY_WAIT: Final = 0.25  # seconds
BATCH_SUBJECTS_MAX: Final = 10_000  # subjects whose stream is known to accept batches

S = TypeVar("S", bound=ApiStruct)


def api_prefix(domain: str, prefix: str) -> str:
    """The subject prefix of the API; ``domain`` and ``prefix`` are mutually exclusive."""
    text(domain, "domain")
    text(prefix, "prefix")
    if domain and prefix:
        raise ValueError(
            "domain and prefix were both given: use one; domain means the prefix $JS.<domain>.API"
        )
    if domain:
        prefix = f"$JS.{domain}.API"
    prefix = prefix.rstrip(".") or DEFAULT_PREFIX
    if not is_valid_literal(encode_subject(prefix)):
        raise BadSubject(prefix, "expected a subject without wildcards, such as $JS.API")
    return prefix


class ApiClient:
    """Sends requests to the JetStream API of one account or domain."""

    def __init__(
        self,
        core: ClientCore,
        prefix: str,
        timeout: float,
        publish_retries: int = PUBLISH_RETRIES,
        high_water: HighWater | None = None,
    ) -> None:
        whole(publish_retries, "publish_retries")
        self.core = core
        self.prefix: Final = prefix
        self.timeout: Final = timeout
        # How often a publish without responders is repeated.
        self.publish_retries: Final = publish_retries
        self.nuid: Final = Nuid()
        # The sequences that the handle wrote, if it was created with read_after_write (ADR-53).
        self.high_water: Final = high_water or HighWater(enabled=False)
        # Subjects of atomic batches that were committed: their streams accept such batches.
        self._batch_subjects: Final[set[bytes]] = set()

    def new_inbox(self) -> str:
        """A unique subject."""
        return new_inbox(self.nuid, self.core.options.inbox_prefix)

    def accepts_batches(self, subject: bytes) -> bool:
        """Whether an atomic batch that began with this subject was committed."""
        return subject in self._batch_subjects

    def note_batch(self, subject: bytes) -> None:
        """Note that an atomic batch that began with this subject was committed."""
        if len(self._batch_subjects) < BATCH_SUBJECTS_MAX:
            self._batch_subjects.add(subject)

    @property
    def is_routed(self) -> bool:
        """Whether messages of consumers may come through a server other than ours."""
        return bool(self.core.server_info.cluster) or self.prefix != DEFAULT_PREFIX

    def seconds(self, timeout: Timeout | None) -> float:
        """The timeout of a call: its own, or this handle's default."""
        return call_seconds(timeout, self.timeout)

    def subject(self, verb: str) -> bytes:
        """The subject of an API verb such as ``STREAM.INFO.ORDERS``."""
        return f"{self.prefix}.{verb}".encode()

    async def call(
        self,
        verb: str,
        request: ApiStruct | None,
        response: Response[S],
        *,
        timeout: Timeout | None = None,
    ) -> S:
        """Send a request and return the decoded answer; raises an error body as its exception."""
        body = b"" if request is None else encode_request(request)
        subject = self.subject(verb)
        reply = await self.core.ask(subject, b"", body, self.seconds(timeout))
        if reply.status == NO_RESPONDERS:
            raise JetStreamNotEnabled(
                NO_RESPONDERS,
                ErrCode.NOT_ENABLED_FOR_ACCOUNT,
                f"no responders on {subject.decode()!r}: JetStream is off on this server or for "
                "this account (nats-server: -js), or domain/prefix is wrong",
            )
        try:
            return read_answer(subject, response, reply.data)
        except ApiError as error:
            error.about = asset_of(verb)
            raise


def asset_of(verb: str) -> str:
    """The stream or consumer that a verb such as ``CONSUMER.INFO.ORDERS.w`` refers to."""
    kind, *words = verb.split(".")
    if kind == "STREAM" and words[:1] == ["MSG"]:
        words = words[1:]
    if kind == "STREAM" and len(words) > 1:
        return f"stream {words[1]!r}"
    if kind == "CONSUMER" and len(words) > 2:
        return f"consumer {words[2]!r} of stream {words[1]!r}"
    return f"stream {words[1]!r}" if kind == "CONSUMER" and len(words) > 1 else ""


def read_answer(subject: bytes, response: Response[S], data: bytes) -> S:
    """Decode an answer received on ``subject``; raises an error body."""
    try:
        answer = response.decode(data)
    except UNREADABLE as error:
        raise ProtocolViolation(
            f"the answer on {subject.decode()!r} cannot be decoded: {error}"
        ) from error
    if isinstance(answer, ApiErrorBody):
        raise api_error(answer.code, answer.err_code, answer.description)
    return answer
