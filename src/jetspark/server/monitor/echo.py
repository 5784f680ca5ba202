"""Converts the server's settings for monitoring."""

from typing import Final

from jetspark.server.config.blocks.accounts import GLOBAL_ACCOUNT, Account
from jetspark.server.config.blocks.jetstream import JetStream
from jetspark.server.config.blocks.mappings import SubjectMapping
from jetspark.server.config.blocks.sharing import Export, Import, ResponseType, Shared
from jetspark.server.config.blocks.websocket import Websocket
from jetspark.server.config.settings import Settings, WriteTimeout
from jetspark.server.monitor.account_details import AccountDetails, MappingDestination, Share
from jetspark.server.monitor.settings_echo import (
    JetStreamEcho,
    LimitsEcho,
    ServerEcho,
    WebsocketEcho,
)
from jetspark.units import Nanoseconds, seconds

AUTH_TIMEOUT_DEFAULT: Final = seconds(2)  # wire.md, Limits and timings
TLS_TIMEOUT_DEFAULT: Final = seconds(2)  # wire.md, Limits and timings
_RESPONSES: Final = {
    ResponseType.SINGLETON: "Singleton",
    ResponseType.STREAM: "Streamed",
    ResponseType.CHUNKED: "Chunked",
}


def server_echo(
    settings: Settings,
    *,
    port: int,
    http_port: int,
    https_port: int,
    config_load_ns: int,
    auth_required: bool,
    pending_of_all: int = 0,
    input_of_all: int = 0,
) -> ServerEcho:
    """Return the settings as in `/varz`, with the actual ports."""
    tls = settings.tls
    timeout = settings.authorization.timeout or AUTH_TIMEOUT_DEFAULT
    base = settings.http_base_path
    writing = settings.write_timeout
    return ServerEcho(
        host=settings.host,
        port=port,
        config_load_ns=config_load_ns,
        config_digest=settings.digest,
        auth_required=auth_required,
        tls_required=tls is not None and not settings.allow_non_tls,
        tls_verify=tls is not None and tls.verify,
        max_connections=settings.max_connections,
        max_subscriptions=settings.max_subscriptions,
        ping_interval=settings.ping_interval,
        ping_max=settings.ping_max,
        http_host=settings.http_host,
        http_port=http_port,
        http_base_path="" if base == "/" else base,
        https_port=https_port,
        auth_timeout_s=timeout / seconds(1),
        max_control_line=settings.max_control_line,
        max_payload=settings.max_payload,
        max_pending=settings.max_pending,
        tls_timeout_s=(tls.timeout if tls is not None else TLS_TIMEOUT_DEFAULT) / seconds(1),
        write_deadline=settings.write_deadline,
        write_timeout="" if writing is WriteTimeout.DEFAULT else writing.value,
        system_account="" if settings.no_system_account else settings.system_account,
        tags=settings.server_tags,
        metadata=settings.server_metadata,
        websocket=None if settings.websocket is None else _websocket(settings.websocket),
        limits=settings.jetspark.limits,
        pending_of_all=pending_of_all,
        input_of_all=input_of_all,
    )


def jetstream_echo(
    settings: JetStream, *, store_dir: str, max_memory: int, max_storage: int
) -> JetStreamEcho:
    """Return the settings as in `/jsz`, with the limits on this machine."""
    limits = settings.limits
    return JetStreamEcho(
        max_memory=max_memory,
        max_storage=max_storage,
        store_dir=store_dir,
        durability=settings.durability.value,
        sync_interval=settings.sync_interval,
        domain=settings.domain,
        strict=settings.strict,
        limits=LimitsEcho(
            max_request_batch=limits.max_request_batch,
            max_ack_pending=limits.max_ack_pending,
            duplicate_window=limits.duplicate_window,
        ),
    )


def account_details(settings: Settings, name: str, updated_ns: int) -> AccountDetails:
    """Return the configuration of an account; empty if the settings do not have it."""
    found = next((each for each in settings.accounts if each.name == name), Account(name=name))
    mappings = found.mappings or (settings.mappings if name == GLOBAL_ACCOUNT else ())
    return AccountDetails(
        updated_ns=updated_ns,
        exports=tuple(_export(each) for each in found.exports),
        imports=tuple(_import(each) for each in found.imports),
        mappings=_mappings(mappings),
    )


def _mappings(mappings: tuple[SubjectMapping, ...]) -> dict[str, tuple[MappingDestination, ...]]:
    return {
        mapping.source: tuple(
            MappingDestination(subject=each.subject, weight=each.weight)
            for each in mapping.destinations
        )
        for mapping in mappings
    }


def _export(export: Export) -> Share:
    is_service = export.kind is Shared.SERVICE
    return Share(
        subject=export.subject,
        kind=export.kind.value,
        approved_accounts=export.accounts,
        response_type=_RESPONSES[export.response_type] if is_service else "",
    )


def _import(found: Import) -> Share:
    local = found.to or found.subject
    if found.prefix:
        local = f"{found.prefix}.{found.subject}"
    return Share(
        subject=found.subject,
        kind=found.kind.value,
        account=found.account,
        local_subject=local,
        share=found.share,
    )


def _websocket(settings: Websocket) -> WebsocketEcho:
    timeout = settings.authorization.timeout
    handshake = settings.handshake_timeout
    return WebsocketEcho(
        host=settings.host,
        port=settings.port,
        advertise=settings.advertise,
        no_auth_user=settings.no_auth_user,
        # Shown only if it was set, as in nats-server.
        handshake_timeout=Nanoseconds(0)
        if handshake == Websocket().handshake_timeout
        else handshake,
        auth_timeout=timeout / seconds(1) if timeout else None,
        no_tls=settings.no_tls,
        same_origin=settings.same_origin,
        allowed_origins=settings.allowed_origins,
        compression=settings.compression,
    )
