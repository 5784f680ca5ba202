"""What every test run begins with: knowing which build it tests; and how coroutines are run."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal

import pytest
from nats.aio.client import Client

import jetspark

# A busy machine takes longer than the half second that nats-py waits for an answer.
REQUEST_TIMEOUT_S = 20.0


def pytest_sessionstart() -> None:
    """Neither build may pass for the other (contracts.md, Compiled and interpreted)."""
    wait_longer_for_answers()
    # Commands that are interrupted by tests inherit it; `nohup make test &` ignores interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    expected = os.environ.get("JETSPARK_EXPECT")
    actual = "compiled" if jetspark.COMPILED else "interpreted"
    if expected and expected != actual:
        pytest.exit(f"expected the {expected} build, this is the {actual} one", returncode=3)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the collector pass over modules and tests: hundreds of thousands of objects that stay.

    Each full collection would visit all of them, for 0.1 s and more of every one.
    """
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str:
    """Say it in every log."""
    return f"jetspark: {'compiled' if jetspark.COMPILED else 'interpreted'}, {jetspark.__file__}"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run ``async def`` tests, each on a loop of its own; what they need they open themselves."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


def wait_longer_for_answers() -> None:
    """Give requests of nats-py that name no timeout of their own enough time."""
    request = Client.request
    defaults = inspect.signature(request).parameters
    assert defaults["timeout"].default == 0.5
    request.__defaults__ = tuple(
        REQUEST_TIMEOUT_S if one is defaults["timeout"].default else one
        for one in request.__defaults__ or ()
    )
