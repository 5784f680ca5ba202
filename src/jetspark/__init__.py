"""Durable streams, key-value buckets and object stores in Python, and Spark pipelines over them.

Everything is loaded on first use: ``import jetspark`` costs nothing that a script does not need.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jetspark import client, errors, spark, sync
    from jetspark.client.client import Client, connect
    from jetspark.embedded import Server
    from jetspark.version import COMPILED
    from jetspark.version import VERSION as __version__  # noqa: N811 - PEP 396's name

__all__ = [
    "COMPILED",
    "Client",
    "Server",
    "__version__",
    "client",
    "connect",
    "errors",
    "spark",
    "sync",
]

_HOME = {
    "COMPILED": ("jetspark.version", "COMPILED"),
    "Client": ("jetspark.client.client", "Client"),
    "Server": ("jetspark.embedded", "Server"),
    "__version__": ("jetspark.version", "VERSION"),
    "connect": ("jetspark.client.client", "connect"),
}
# Packages whose names programs use: `import jetspark` is enough for `jetspark.errors.KeyNotFound`.
_PACKAGES = {"client", "errors", "spark", "sync"}


# Type checkers know the names from above, so that they tell a misspelt one.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import the module a public name lives in when the name is first used (PEP 562)."""
        from importlib import import_module

        if name in _PACKAGES:
            return import_module(f"jetspark.{name}")
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module 'jetspark' has no attribute {name!r}")
        value = getattr(import_module(home[0]), home[1])
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
