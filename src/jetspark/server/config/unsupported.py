"""Settings of nats-server that jetspark does not have, and alternatives.

They are refused by name, so that no one believes that a setting works which is ignored
(decisions.md, Server). Keys are paths of canonical names. Planned settings are in ``not_yet.py``.
"""

from typing import Final

_CLUSTERS: Final = (
    "a jetspark server is not clustered; run clustered streams on nats-server, which the client "
    "and the Spark connector use unchanged"
)
_LEAVES: Final = (
    "leaf nodes are nats-server's; mirror or source streams of another server with "
    "'jetspark { remotes }'"
)
_JWT: Final = (
    "operators and account JWTs are not supported; list accounts, and users with passwords, under "
    "'accounts'"
)
_OCSP: Final = "certificates are not checked with OCSP; use short-lived certificates"
_PROXY: Final = "trusted proxies are not supported; connect clients directly"
_SYSLOG: Final = (
    "log to stderr and let the service manager (journald, for one) pass it on, or use 'logfile'"
)
_PROFILE: Final = "there is no Go runtime to profile; use a Python profiler such as py-spy"
_GO: Final = "it tunes internals of nats-server that jetspark does not have"
_ROUTES_ONLY: Final = "it is for routes and leaf nodes, which jetspark does not have"
_STORES: Final = "certificate stores are specific to Windows; use 'cert_file' and 'key_file'"
_TPM: Final = "keys are not kept in a TPM; use 'key' with an environment variable"
_TRACE: Final = "message tracing is not supported; use /connz and the consumer's explain output"
_CALLOUT: Final = "authentication callouts are not supported; list users under 'accounts'"

UNSUPPORTED: Final[dict[str, str]] = {
    "cluster": _CLUSTERS,
    "gateway": _CLUSTERS,
    "leaf": _LEAVES,
    "leafnodes": _LEAVES,
    "mqtt": "MQTT clients are not supported; run nats-server in front and mirror its streams",
    "operator": _JWT,
    "operators": _JWT,
    "root": _JWT,
    "roots": _JWT,
    "root_operator": _JWT,
    "root_operators": _JWT,
    "resolver": _JWT,
    "account_resolver": _JWT,
    "accounts_resolver": _JWT,
    "resolver_tls": _JWT,
    "resolver_preload": _JWT,
    "resolver_pinned_accounts": _JWT,
    "trusted": _JWT,
    "trusted_keys": _JWT,
    "default_sentinel": _JWT,
    "websocket.jwt_cookie": _JWT,
    "ocsp": _OCSP,
    "ocsp_cache": _OCSP,
    "tls.ocsp_peer": _OCSP,
    "websocket.tls.ocsp_peer": _OCSP,
    "proxies": _PROXY,
    "proxy_protocol": "the PROXY header is not supported; connect clients directly",
    "authorization.proxy_required": _PROXY,
    "authorization.users.proxy_required": _PROXY,
    "accounts.*.users.proxy_required": _PROXY,
    "authorization.auth_callout": _CALLOUT,
    "authorization.auth_hook": _CALLOUT,
    "syslog": _SYSLOG,
    "remote_syslog": _SYSLOG,
    "prof_port": _PROFILE,
    "prof_block_rate": _PROFILE,
    "connect_error_reports": _ROUTES_ONLY,
    "reconnect_error_reports": _ROUTES_ONLY,
    "disable_sublist_cache": "the cache of subscriptions is bounded and part of the router",
    "no_sublist_cache": "the cache of subscriptions is bounded and part of the router",
    "no_fast_producer_stall": "fast publishers are always slowed down by reading from them later",
    "feature_flags": "they configure builds of nats-server; see docs/compatibility.md",
    "tls.verify_cert_and_check_known_urls": _ROUTES_ONLY,
    "websocket.tls.verify_cert_and_check_known_urls": _ROUTES_ONLY,
    **{
        f"{block}.{name}": _STORES
        for block in ("tls", "websocket.tls", "jetspark.remotes.*.tls")
        for name in (
            "cert_store",
            "cert_match_by",
            "cert_match",
            "cert_match_skip_invalid",
            "ca_certs_match",
        )
    },
    "jetstream.tpm": _TPM,
    "jetstream.extension_hint": _CLUSTERS,
    "jetstream.unique_tag": _CLUSTERS,
    "jetstream.max_outstanding_catchup": _CLUSTERS,
    "jetstream.meta_compact": _CLUSTERS,
    "jetstream.meta_compact_size": _CLUSTERS,
    "jetstream.meta_compact_sync": _CLUSTERS,
    "jetstream.limits.max_ha_assets": _CLUSTERS,
    "jetstream.request_queue_limit": _GO,
    "jetstream.info_queue_limit": _GO,
    "jetstream.max_concurrent_io": _GO,
    "accounts.*.jetstream.cluster_traffic": _CLUSTERS,
    "accounts.*.limits.max_leafnodes": _ROUTES_ONLY,
    "accounts.*.limits.max_leafs": _ROUTES_ONLY,
    "accounts.*.msg_trace": _TRACE,
    "accounts.*.trace_dest": _TRACE,
    "mappings.cluster": _CLUSTERS,
}

UNSUPPORTED_FLAGS: Final[dict[str, str]] = {
    "routes": _CLUSTERS,
    "cluster": _CLUSTERS,
    "cluster_listen": _CLUSTERS,
    "cluster_name": _CLUSTERS,
    "cluster_advertise": _CLUSTERS,
    "no_advertise": _CLUSTERS,
    "connect_retries": _CLUSTERS,
    "profile": _PROFILE,
    "syslog": _SYSLOG,
    "remote_syslog": _SYSLOG,
}
