"""Tests of programs that use jetspark or any NATS client, on a real server: see docs/testing.md.

With pytest, request the fixtures ``jetspark_server``, ``jetspark_client``, ``kv_bucket`` and
``object_bucket``; with unittest, derive from `ServerTestCase` or `AsyncServerTestCase`. Everything
is loaded on first use: pytest imports this package wherever it is installed.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jetspark.testing.cases import AsyncServerTestCase, ServerTestCase
    from jetspark.testing.process import ServerFailed
    from jetspark.testing.published import PublishedMessage
    from jetspark.testing.servers import Server, SyncServer
    from jetspark.testing.unsupported import Unsupported

__all__ = [
    "AsyncServerTestCase",
    "PublishedMessage",
    "Server",
    "ServerFailed",
    "ServerTestCase",
    "SyncServer",
    "Unsupported",
]

_HOME = {
    "AsyncServerTestCase": "cases",
    "PublishedMessage": "published",
    "Server": "servers",
    "ServerFailed": "process",
    "ServerTestCase": "cases",
    "SyncServer": "servers",
    "Unsupported": "unsupported",
}

# Type checkers know the names from above, and so detect misspelled ones.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import the module of a public name when the name is first used (PEP 562)."""
        if name not in _HOME:
            raise AttributeError(f"module 'jetspark.testing' has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"jetspark.testing.{_HOME[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
