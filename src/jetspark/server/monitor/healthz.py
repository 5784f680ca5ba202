"""``/healthz``, as in nats-server, and ``/readyz``, ours.

``/healthz`` is 200 while clients can connect, JetStream runs and every stream accepts writes.
``/readyz`` is 200 once everything was recovered and until the server starts to shut down; it
reports the progress of recovery.
"""

from http import HTTPStatus
from typing import Final

import msgspec

from jetspark.api.base import ApiStruct
from jetspark.server.monitor.arguments import Arguments
from jetspark.server.monitor.status import AccountStatus, JetStreamStatus, Readiness, ServerStatus
from jetspark.server.pacing import paced
from jetspark.server.quoting import quote
from jetspark.store.log.timeline import AHEAD_MAX_NS
from jetspark.units import format_duration

OK: Final = "ok"
ERROR: Final = "error"
UNAVAILABLE: Final = "unavailable"


class HealthzOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a request."""

    js_enabled_only: bool = False
    js_server_only: bool = False
    account: str = ""
    stream: str = ""
    consumer: str = ""
    details: bool = False


class HealthError(ApiStruct, frozen=True, kw_only=True):
    """One error."""

    type: str
    account: str = ""
    stream: str = ""
    consumer: str = ""
    error: str


class HealthWarnings(ApiStruct, frozen=True, kw_only=True):
    """Problems that do not stop the server; ours."""

    warnings: tuple[str, ...] = ()


class HealthStatus(ApiStruct, frozen=True, kw_only=True):
    """The answer of ``/healthz``: the first error as text, or all of them with details."""

    status: str
    error: str = ""
    errors: tuple[HealthError, ...] = ()
    jetspark: HealthWarnings | None = None


class ReadyStatus(ApiStruct, frozen=True, kw_only=True):
    """The answer of ``/readyz``."""

    status: str
    reason: str = ""
    streams_recovered: int
    streams_total: int


class _Findings:
    """The findings, their status, and the HTTP status of the first one."""

    def __init__(self) -> None:
        self.errors: list[HealthError] = []
        self.warnings: list[str] = []
        self.status = OK
        self.code = HTTPStatus.OK

    def add(self, error: HealthError, status: str, code: HTTPStatus) -> None:
        if not self.errors:
            self.status, self.code = status, code
        self.errors.append(error)

    def warn(self, warning: str) -> None:
        self.warnings.append(warning)


def read_options(arguments: Arguments) -> HealthzOptions:
    """Read the arguments, in nats-server's order. Raises BadArgument."""
    js_enabled = arguments.flag("js-enabled")
    js_enabled_only = arguments.flag("js-enabled-only")
    js_server_only = arguments.flag("js-server-only")
    arguments.flag("js-meta-only")  # validated; a single server has no meta layer
    details = arguments.flag("details")
    return HealthzOptions(
        js_enabled_only=js_enabled or js_enabled_only,
        js_server_only=js_server_only,
        account=arguments.text("account"),
        stream=arguments.text("stream"),
        consumer=arguments.text("consumer"),
        details=details,
    )


async def healthz(view: ServerStatus, options: HealthzOptions) -> tuple[HTTPStatus, HealthStatus]:
    """Build the answer and its HTTP status."""
    findings = await _examine(view, options)
    warned = HealthWarnings(warnings=tuple(findings.warnings)) if findings.warnings else None
    if options.details:
        status = ERROR if findings.errors else OK
        errors = tuple(findings.errors)
        return findings.code, HealthStatus(status=status, errors=errors, jetspark=warned)
    first = findings.errors[0].error if findings.errors else ""
    return findings.code, HealthStatus(status=findings.status, error=first, jetspark=warned)


def readyz(view: ServerStatus) -> tuple[HTTPStatus, ReadyStatus]:
    """Build the answer and its HTTP status."""
    found = view.readiness()
    status = ReadyStatus(
        status=OK if found.ready else UNAVAILABLE,
        reason=found.reason,
        streams_recovered=found.streams_recovered,
        streams_total=found.streams_total,
    )
    return (HTTPStatus.OK if found.ready else HTTPStatus.SERVICE_UNAVAILABLE), status


async def _examine(view: ServerStatus, options: HealthzOptions) -> _Findings:
    findings = _Findings()
    missing = _missing_argument(options)
    if missing:
        error = HealthError(type="BAD_REQUEST", error=missing)
        findings.add(error, ERROR, HTTPStatus.BAD_REQUEST)
        return findings
    readiness = view.readiness()
    if not readiness.accepting:
        error = HealthError(type="CONNECTION", error=_not_accepting(readiness))
        findings.add(error, ERROR, HTTPStatus.INTERNAL_SERVER_ERROR)
        return findings
    jetstream = view.jetstream()
    if jetstream is not None and not options.js_server_only and not options.js_enabled_only:
        await _examine_streams(jetstream, options, findings)
    return findings


def _missing_argument(options: HealthzOptions) -> str:
    if options.stream and not options.account:
        return f"{quote('account')} must not be empty when checking stream health"
    if options.consumer and not options.stream:
        return f"{quote('stream')} must not be empty when checking consumer health"
    return ""


def _not_accepting(readiness: Readiness) -> str:
    return f"server is not ready for connections: {readiness.reason or 'not listening'}"


async def _examine_streams(
    jetstream: JetStreamStatus, options: HealthzOptions, findings: _Findings
) -> None:
    accounts = {account.name: account for account in jetstream.accounts()}
    known = {*accounts, *(lost.account for lost in jetstream.lost_streams())}
    if options.account and options.account not in known:
        error = HealthError(
            type="ACCOUNT",
            account=options.account,
            error=f"JetStream account {quote(options.account)} not found",
        )
        findings.add(error, UNAVAILABLE, HTTPStatus.NOT_FOUND)
        return
    _report_lost(jetstream, options, findings)
    if not options.account:
        for entry in jetstream.foreign_entries():
            findings.warn(
                f"{entry} in the store's folder does not belong to a jetspark store: move it away"
            )
        for note in jetstream.journal_notes():
            findings.warn(f"the journal: {note}")
    for gone in jetstream.lost_consumers():
        if options.account in {"", gone.account} and options.stream in {"", gone.stream}:
            error = HealthError(
                type="CONSUMER",
                account=gone.account,
                stream=gone.stream,
                consumer=gone.consumer,
                error=f"JetStream consumer '{gone.account} > {gone.stream} > {gone.consumer}' "
                "could not be recovered",
            )
            findings.add(error, UNAVAILABLE, HTTPStatus.SERVICE_UNAVAILABLE)
    for account in accounts.values():
        if options.account in {"", account.name}:
            await _examine_account(account, options, findings)
    if options.stream:
        _look_up(accounts.get(options.account), jetstream, options, findings)


def _report_lost(jetstream: JetStreamStatus, options: HealthzOptions, findings: _Findings) -> None:
    for lost in jetstream.lost_streams():
        if options.account in {"", lost.account} and options.stream in {"", lost.stream}:
            text = (
                f"JetStream stream '{lost.account} > {lost.stream}' could not be recovered: "
                f"{lost.reason}"
            )
            error = HealthError(
                type="STREAM", account=lost.account, stream=lost.stream, error=text
            )
            findings.add(error, UNAVAILABLE, HTTPStatus.SERVICE_UNAVAILABLE)


async def _examine_account(
    account: AccountStatus, options: HealthzOptions, findings: _Findings
) -> None:
    async for stream in paced(account.streams()):
        name, problem = stream.config.name, stream.write_error
        store = stream.store()
        if (store.lost_bytes or store.lost_messages) and options.stream in {"", name}:
            findings.warn(
                f"stream '{account.name} > {name}': {store.lost_bytes} bytes are damaged, "
                f"{store.lost_messages} messages are lost; see state.lost and /storez"
            )
        if store.uncounted_places and options.stream in {"", name}:
            findings.warn(
                f"stream '{account.name} > {name}': files, or parts of them, are missing; it is "
                "unknown whether messages are lost there, and how many; see the log and "
                "`jetspark doctor`"
            )
        if store.ahead_ns > AHEAD_MAX_NS and options.stream in {"", name}:
            findings.warn(
                f"stream '{account.name} > {name}': its times are "
                f"{format_duration(store.ahead_ns // 10**9 * 10**9)} ahead of the system clock; "
                "if the clock is right, stop the server and run `jetspark doctor clock`"
            )
        if problem and options.stream in {"", name}:
            text = f"JetStream stream '{account.name} > {name}' write error: {problem}"
            error = HealthError(type="STREAM", account=account.name, stream=name, error=text)
            findings.add(error, UNAVAILABLE, HTTPStatus.SERVICE_UNAVAILABLE)
        if stream.read_error and options.stream in {"", name}:
            text = f"JetStream stream '{account.name} > {name}' read error: {stream.read_error}"
            error = HealthError(type="STREAM", account=account.name, stream=name, error=text)
            findings.add(error, UNAVAILABLE, HTTPStatus.SERVICE_UNAVAILABLE)


def _look_up(
    account: AccountStatus | None,
    jetstream: JetStreamStatus,
    options: HealthzOptions,
    findings: _Findings,
) -> None:
    """Check that the requested stream, and consumer, exist."""
    where = f"on account {quote(options.account)}"
    streams = {} if account is None else {each.config.name: each for each in account.streams()}
    lost = {(each.account, each.stream) for each in jetstream.lost_streams()}
    stream = streams.get(options.stream)
    if stream is None:
        if (options.account, options.stream) in lost:
            return
        error = HealthError(
            type="STREAM",
            account=options.account,
            stream=options.stream,
            error=f"JetStream stream {quote(options.stream)} not found {where}",
        )
        findings.add(error, UNAVAILABLE, HTTPStatus.NOT_FOUND)
        return
    names = {info.name for info in stream.consumers(0)} if options.consumer else set()
    if options.consumer and options.consumer not in names:
        text = (
            f"JetStream consumer {quote(options.consumer)} not found "
            f"for stream {quote(options.stream)} {where}"
        )
        error = HealthError(
            type="CONSUMER",
            account=options.account,
            stream=options.stream,
            consumer=options.consumer,
            error=text,
        )
        findings.add(error, UNAVAILABLE, HTTPStatus.NOT_FOUND)
