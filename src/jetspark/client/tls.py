"""TLS by files: options that pickle, where an SSL context does not (Spark workers need that)."""

import ssl

import msgspec


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Where the certificates are, read when a connection is opened.

    ``ca_file`` vouches for the server (empty: the system's certificates), ``certificate_file`` and
    ``key_file`` are the client's own, for servers that verify clients.
    """

    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    key_password: str = ""

    def __repr__(self) -> str:
        # The password stays out of logs.
        return f"TlsFiles(ca_file={self.ca_file!r}, certificate_file={self.certificate_file!r})"


def tls_context(tls: ssl.SSLContext | TlsFiles | bool | None) -> ssl.SSLContext | None:
    """The context behind the ``tls`` argument; OSError when a file cannot be used."""
    if tls is None or tls is False:
        return None
    if isinstance(tls, ssl.SSLContext):
        return tls
    if tls is True:
        return ssl.create_default_context()
    context = ssl.create_default_context(cafile=tls.ca_file or None)
    if tls.certificate_file:
        context.load_cert_chain(
            tls.certificate_file, tls.key_file or None, tls.key_password or None
        )
    return context
