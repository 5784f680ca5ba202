"""Missing packages: their extra was not installed.

``pip install jetspark`` is a client. Everything else is in extras (`docs/dependencies.md`), and
this module is the one place that says which: code imports a package of an extra where it needs it,
in ``with extra(...)``, or asks ``check_extra`` before it starts what would need it later.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from jetspark.errors.base import Error

__all__ = ["WEBSOCKET", "MissingExtra", "check_extra", "extra"]

WEBSOCKET: Final = ("websocket", "ws:// and wss:// need")

# Import names that differ from the names on PyPI.
_PACKAGES: Final = {
    "google": "googleapis-common-protos",
    "google.protobuf": "protobuf",
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "yaml": "PyYAML",
}


class MissingExtra(Error, ImportError):
    """Something needs a package that is not installed; the text has the command that installs it.

    ``needs`` says what needs it, ``package`` is its name on PyPI (or names, separated by commas),
    ``extra`` the extra of jetspark that brings it.
    """

    def __init__(self, needs: str, package: str, extra: str) -> None:
        super().__init__(needs, package, extra)
        self.needs: Final = needs
        self.package: Final = package
        self.extra: Final = extra

    def __str__(self) -> str:
        what = "packages" if "," in self.package else "package"
        return f'{self.needs} the {what} {self.package}: pip install "jetspark[{self.extra}]"'


@contextmanager
def extra(name: str, needs: str) -> Iterator[None]:
    """Imports of packages that the extra ``name`` brings; ``needs`` begins the error's text.

    ``with extra("nkeys", "nkeys need"): import cryptography`` raises `MissingExtra` with the text
    ``nkeys need the package cryptography: pip install "jetspark[nkeys]"``. A package that one of
    the extra's own packages needs counts as well; a package that is damaged does not.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = error.name or ""
        if module.partition(".")[0] in {"", "jetspark"}:
            raise
        raise MissingExtra(needs, _package(module), name) from error


def check_extra(name: str, needs: str, *modules: str) -> None:
    """Raise `MissingExtra` if one of ``modules`` is not installed; nothing is imported."""
    missing = [module for module in modules if not _is_installed(module)]
    if missing:
        raise MissingExtra(needs, ", ".join(map(_package, missing)), name)


def _package(module: str) -> str:
    top = module.partition(".")[0]
    return _PACKAGES.get(module) or _PACKAGES.get(top, top)


def _is_installed(module: str) -> bool:
    try:
        found = find_spec(module)
    except (ImportError, ValueError):
        return False
    # A folder of that name in the user's project is a namespace to Python, and has no origin.
    return found is not None and found.origin is not None
