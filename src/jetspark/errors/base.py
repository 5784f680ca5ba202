"""The base classes, and the mapping from error codes to classes.

Every class passes all its constructor arguments to ``Exception``, which keeps them in ``args``.
Pickle and copy use these, so errors can be sent between processes (Spark workers send them to the
driver) without code of their own.
"""

from __future__ import annotations

from typing import ClassVar, Final

__all__ = ["ApiError", "Error", "api_error"]


class Error(Exception):
    """Base class of all exceptions that jetspark raises deliberately.

    ``transient`` says whether the same call may succeed shortly, with nothing changed: a server
    restarts, a cluster elects a leader, the server is overloaded.
    """

    transient: ClassVar[bool] = False


class ApiError(Error):
    """The server refused a request.

    ``code`` is like an HTTP status, ``err_code`` identifies the error (``errors.codes.ErrCode``
    lists the known ones), ``description`` is the server's text, ``about`` the stream or consumer
    of the request, ``detail`` additional information from the client. Codes that callers would not
    handle differently have no class of their own.
    """

    err_codes: ClassVar[tuple[int, ...]] = ()

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(code, err_code, description)
        self.code: Final = code
        self.err_code: Final = err_code
        self.description: Final = description
        self.about = ""
        self.detail = ""

    def __init_subclass__(cls, *, err_codes: tuple[int, ...] = (), **kwargs: object) -> None:
        """Register the class for ``err_codes``; no code belongs to two classes."""
        super().__init_subclass__(**kwargs)
        cls.err_codes = err_codes
        for err_code in err_codes:
            other = _REGISTRY.setdefault(err_code, cls)
            assert other is cls, f"{err_code} belongs to {other.__name__} and {cls.__name__}"

    @classmethod
    def _of_description(cls, description: str) -> type[ApiError]:  # noqa: ARG003 - most have one
        """Return the class for a code with several meanings, which its text distinguishes."""
        return cls

    def __str__(self) -> str:
        about = f"{self.about}: " if self.about else ""
        detail = f": {self.detail}" if self.detail else ""
        return f"{about}{self.description}{detail} (code {self.code}, err_code {self.err_code})"


_REGISTRY: Final[dict[int, type[ApiError]]] = {}


def api_error(code: int, err_code: int, description: str, about: str = "") -> ApiError:
    """Create the exception for a server's error body: the class of its code, or `ApiError`."""
    kind = _REGISTRY.get(err_code, ApiError)
    error = kind._of_description(description)(code, err_code, description)  # noqa: SLF001 - own class
    error.about = about
    return error
