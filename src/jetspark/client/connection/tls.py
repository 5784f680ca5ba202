"""TLS files: options that can be pickled, unlike an SSL context (Spark workers need that)."""

import ssl
from pathlib import Path

import msgspec

from jetspark.client.connection.shown import shown_path
from jetspark.errors import BadCredentials


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of TLS certificates, read when a connection is opened.

    ``ca_file`` verifies the server (empty: the system's certificates), ``certificate_file`` and
    ``key_file`` authenticate the client, for servers that verify clients. An encrypted key needs
    ``key_password``.
    """

    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    key_password: str = ""

    def __repr__(self) -> str:
        # The password stays out of logs, and so does a key in place of a path.
        authority, own = shown_path(self.ca_file), shown_path(self.certificate_file)
        return f"TlsFiles(ca_file={authority}, certificate_file={own})"


def tls_context(tls: ssl.SSLContext | TlsFiles | bool | None) -> ssl.SSLContext | None:
    """The context for the ``tls`` argument; BadCredentials names a file that cannot be used."""
    if tls is None or tls is False:
        return None
    if isinstance(tls, ssl.SSLContext):
        return tls
    if tls is True:
        return ssl.create_default_context()
    return _context_of(tls)


def _context_of(files: TlsFiles) -> ssl.SSLContext:
    _need_readable("ca_file", files.ca_file)
    _need_readable("certificate_file", files.certificate_file)
    _need_readable("key_file", files.key_file)
    if files.key_file and not files.certificate_file:
        raise BadCredentials(
            "TlsFiles: key_file without certificate_file; give the certificate of that key too"
        )
    try:
        context = ssl.create_default_context(cafile=files.ca_file or None)
    except ssl.SSLError as error:
        raise BadCredentials(
            f"TlsFiles: ca_file {files.ca_file!r} contains no PEM certificate ({error})"
        ) from error
    if files.certificate_file:
        try:
            # Always a password: without one OpenSSL would ask for it on the terminal.
            context.load_cert_chain(
                files.certificate_file, files.key_file or None, files.key_password
            )
        except ssl.SSLError as error:
            raise BadCredentials(
                f"TlsFiles: certificate_file {files.certificate_file!r} and key_file "
                f"{files.key_file!r} cannot be used ({error}): expected a certificate and its key "
                "in PEM format, and key_password if the key is encrypted"
            ) from error
    return context


def _need_readable(name: str, path: str) -> None:
    if not path:
        return
    try:
        with Path(path).open("rb"):
            pass
    except (OSError, ValueError) as error:
        # Without the cause: it repeats the path.
        reason = getattr(error, "strerror", None) or error
        raise BadCredentials(
            f"TlsFiles: {name} {shown_path(path)} cannot be read: {reason}"
        ) from None
