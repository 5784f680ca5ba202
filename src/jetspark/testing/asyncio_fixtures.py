"""The fixtures of the plugin for pytest-asyncio, which runs a fixture in a loop of its own scope.

A client belongs to one loop, that of the test, so each of the five scopes has its fixtures.
"""

from collections.abc import AsyncIterator, Callable
from functools import wraps
from typing import Any, Final

import pytest
import pytest_asyncio

from jetspark.testing.plugin import open_client, open_kv, open_objects

_OPENERS: Final = {"client": open_client, "kv": open_kv, "objects": open_objects}


def _copy_of(opener: Callable[..., AsyncIterator[Any]]) -> Callable[..., AsyncIterator[Any]]:
    """Return a function of its own: pytest-asyncio marks functions with their loop scope."""

    @wraps(opener)
    async def copy(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
        async for opened in opener(request):
            yield opened

    return copy


for _scope in ("function", "class", "module", "package", "session"):
    for _name, _opener in _OPENERS.items():
        globals()[f"_jetspark_{_scope}_{_name}"] = pytest_asyncio.fixture(loop_scope=_scope)(
            _copy_of(_opener)
        )
