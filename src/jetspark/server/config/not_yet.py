"""Settings that are parsed and checked, and not supported yet.

A configuration with one of them is refused with the sentence next to it: nothing is parsed and
then ignored. When the server supports a setting, its row is removed here; the tests iterate over
the table, so nothing else has to change. Keys are paths of canonical names, and a flag has the
path of its setting.
"""

from typing import Final

_ROTATION: Final = (
    "this version does not rotate its log; move the file away and send SIGUSR1, which starts a "
    "new one (logrotate can do both)"
)
_STREAMS: Final = "this version has no such limit on streams; leave it out"
_OURS: Final = "this version has the default built in; leave it out"

NOT_YET: Final[dict[str, str]] = {
    "write_timeout": "this version always closes clients at write_deadline; leave it out",
    "allow_non_tls": "this version serves plain clients or TLS clients, not both on one port",
    "tls.verify_and_map": "this version does not map certificates to users; use verify",
    "tls.insecure": "this block is for clients; put it into the tls block of a remote",
    "tls.connection_rate_limit": "this version does not limit the rate of handshakes",
    "tls.pinned_certs": "this version trusts the certificates of ca_file; leave it out",
    "tls.curve_preferences": "this version leaves the choice of curves to OpenSSL; leave it out",
    "accounts.*.nkey": "this version does not support nkeys yet; use users with passwords",
    "accounts.*.mappings": "this version does not rewrite subjects",
    "accounts.*.exports": "accounts of this version share nothing yet",
    "accounts.*.imports": "accounts of this version share nothing yet",
    "websocket": "this version serves TCP clients only",
    "mappings": "this version does not rewrite subjects; use a subject transform of the stream",
    "jetstream.domain": "this version has no domains; use the plain $JS.API subjects",
    "jetstream.strict": "this version is always strict with requests; leave it out",
    "jetstream.key": "this version does not encrypt; keep the store on an encrypted disk",
    "jetstream.prev_key": "this version does not encrypt; keep the store on an encrypted disk",
    "jetstream.cipher": "this version does not encrypt; keep the store on an encrypted disk",
    "jetstream.max_buffered_size": _STREAMS,
    "jetstream.max_buffered_msgs": _STREAMS,
    "default_js_domain": "this version has no domains; use the plain $JS.API subjects",
    "jetspark.memory.read_buffer": _OURS,
    "jetspark.memory.cache": _OURS,
    "jetspark.memory.duplicates": _OURS,
    "jetspark.memory.index": _OURS,
    "trace_headers": "this version traces headers and payloads together; use 'trace'",
    "logfile_size_limit": _ROTATION,
    "logfile_max_num": _ROTATION,
    "ports_file_dir": "this version writes its port to the log only",
    "system_account": (
        "this version serves no $SYS requests; leave it out, and use the monitoring port"
    ),
    "server_tags": "this version shows no tags; leave it out",
    "server_metadata": "this version shows no metadata; leave it out",
}
