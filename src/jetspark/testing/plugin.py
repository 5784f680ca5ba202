"""The pytest plugin: fixtures for tests with anyio, with pytest-asyncio, and without a loop.

It is imported wherever jetspark is installed together with pytest, so it imports nothing of
jetspark until a test requests a fixture.
"""

import inspect
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from jetspark.client.client import Client
    from jetspark.client.jetstream.kv.bucket import KeyValue
    from jetspark.client.jetstream.objects.store import ObjectStore
    from jetspark.sync.client import Client as SyncClient
    from jetspark.sync.key_value import KeyValue as SyncKeyValue
    from jetspark.sync.objects import ObjectStore as SyncObjectStore
    from jetspark.testing.servers import Server, SyncServer

SERVERS: Final = ("jetspark", "nats-server")
BUCKET: Final = "test"
ASYNCIO_FIXTURES: Final = "jetspark-asyncio"
# What a fixture that opens something is to open it with.
WANTED: Final = pytest.StashKey[tuple[Any, ...]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that chooses the server."""
    parser.getgroup("jetspark").addoption(
        "--jetspark-server",
        choices=SERVERS,
        default=None,
        help="the server of the fixture jetspark_server: jetspark (the default), or nats-server "
        "from PATH, where tests that it cannot run (virtual time, a full disk) are skipped",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Add fixtures for pytest-asyncio if it is used."""
    chosen = config.getoption("--jetspark-server")
    if chosen:
        from jetspark.testing.kit import choose_server

        choose_server(chosen)
    if config.pluginmanager.hasplugin("asyncio"):
        try:
            from jetspark.testing import asyncio_fixtures
        except (ImportError, TypeError):
            return  # too old: only a test that needs it fails, and says so
        config.pluginmanager.register(asyncio_fixtures, ASYNCIO_FIXTURES)


def pytest_unconfigure() -> None:
    """End the server, if a test has started it."""
    import sys

    kit = sys.modules.get("jetspark.testing.kit")
    if kit is not None:
        kit.close_kit()


def is_coroutine(request: pytest.FixtureRequest) -> bool:
    """Return whether the test is a coroutine function."""
    function = getattr(request.node, "obj", None) or is_coroutine
    # @given of Hypothesis makes a plain function of a coroutine function, which plugins await.
    function = getattr(getattr(function, "hypothesis", None), "inner_test", function)
    return inspect.iscoroutinefunction(inspect.unwrap(function))


def style_of(request: pytest.FixtureRequest) -> str:
    """Return what runs the test: "sync", "anyio", or the loop scope of pytest-asyncio."""
    if not is_coroutine(request):
        return "sync"
    item = request.node
    marker = item.get_closest_marker("asyncio")
    plugins = request.config.pluginmanager
    is_anyio = "anyio_backend" in request.fixturenames
    if marker is not None and plugins.hasplugin("asyncio"):
        if is_anyio:
            # anyio runs the test, pytest-asyncio its fixtures: on two loops.
            pytest.fail(
                f"{item.name} is a test of anyio and of pytest-asyncio, whose asyncio_mode=auto "
                "takes every coroutine: set asyncio_mode=strict, or do not use anyio's marker",
                pytrace=False,
            )
        if not plugins.hasplugin(ASYNCIO_FIXTURES):
            pytest.fail("jetspark needs pytest-asyncio 0.24 or later: upgrade it", pytrace=False)
        scope: str = marker.kwargs.get("loop_scope") or marker.kwargs.get("scope") or ""
        return scope or _default_loop_scope(request.config) or "function"
    if is_anyio:
        backend = request.getfixturevalue("anyio_backend")
        if (backend if isinstance(backend, str) else backend[0]) != "asyncio":
            pytest.skip("jetspark runs on asyncio: set the fixture anyio_backend to 'asyncio'")
        return "anyio"
    pytest.fail(
        f"{item.name} is a coroutine function, and neither anyio nor pytest-asyncio runs it: mark "
        "it with @pytest.mark.anyio or @pytest.mark.asyncio, or request only jetspark_server and "
        "connect with `async with jetspark_server.connect() as client`",
        pytrace=False,
    )


def _default_loop_scope(config: pytest.Config) -> str:
    try:
        scope: str = config.getini("asyncio_default_test_loop_scope")
    except ValueError:
        return ""  # it is new in pytest-asyncio 0.26
    return scope


def _open(request: pytest.FixtureRequest, name: str, *wanted: Any) -> Any:
    """Return a fixture in the form that runs where the test runs; ``wanted`` is for it."""
    request.node.stash[WANTED] = wanted
    return request.getfixturevalue(f"_jetspark_{style_of(request)}_{name}")


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the options of a bucket: the parameter of an indirect parametrization."""
    options = getattr(request, "param", {})
    if not isinstance(options, dict):
        pytest.fail(
            f"{request.fixturename} was parametrized with {options!r}: expected a dict of "
            'options, such as {"ttl": 60}',
            pytrace=False,
        )
    return options


@pytest.fixture
def jetspark_server(request: pytest.FixtureRequest) -> "Iterator[Server | SyncServer]":
    """A server with an account for this test: `Server` if it is a coroutine, else `SyncServer`."""
    from jetspark.testing.servers import SyncServer

    with SyncServer() as server:
        yield server.to_async() if is_coroutine(request) else server


@pytest.fixture
def jetspark_client(
    request: pytest.FixtureRequest, jetspark_server: "Server | SyncServer"
) -> "Client | SyncClient":
    """A client of `jetspark_server`; `jetspark.sync.Client` if the test is no coroutine."""
    opened: Client | SyncClient = _open(request, "client", jetspark_server)
    return opened


@pytest.fixture
def kv_bucket(
    request: pytest.FixtureRequest, jetspark_client: "Client | SyncClient"
) -> "KeyValue | SyncKeyValue":
    """An empty key-value bucket; ``parametrize(..., indirect=True)`` gives it options."""
    opened: KeyValue | SyncKeyValue = _open(request, "kv", jetspark_client, _options(request))
    return opened


@pytest.fixture
def object_bucket(
    request: pytest.FixtureRequest, jetspark_client: "Client | SyncClient"
) -> "ObjectStore | SyncObjectStore":
    """An empty object store; ``parametrize(..., indirect=True)`` gives it options."""
    opened: ObjectStore | SyncObjectStore
    opened = _open(request, "objects", jetspark_client, _options(request))
    return opened


# What opens them. Their arguments are in the stash of the test: they are requested by name only.


@pytest.fixture
def _jetspark_sync_client(request: pytest.FixtureRequest) -> "Iterator[SyncClient]":
    (server,) = request.node.stash[WANTED]
    with server.connect() as client:
        yield client


@pytest.fixture
def _jetspark_sync_kv(request: pytest.FixtureRequest) -> "Iterator[SyncKeyValue]":
    client, options = request.node.stash[WANTED]
    with client.jetstream().create_key_value(BUCKET, **options) as bucket:
        yield bucket


@pytest.fixture
def _jetspark_sync_objects(request: pytest.FixtureRequest) -> "SyncObjectStore":
    client, options = request.node.stash[WANTED]
    store: SyncObjectStore = client.jetstream().create_object_store(BUCKET, **options)
    return store


async def open_client(request: pytest.FixtureRequest) -> "AsyncIterator[Client]":
    """Connect a client in the loop of the test."""
    (server,) = request.node.stash[WANTED]
    async with server.connect() as client:
        yield client


async def open_kv(request: pytest.FixtureRequest) -> "AsyncIterator[KeyValue]":
    """Create a bucket in the loop of the test."""
    client, options = request.node.stash[WANTED]
    async with client.jetstream().create_key_value(BUCKET, **options) as bucket:
        yield bucket


async def open_objects(request: pytest.FixtureRequest) -> "AsyncIterator[ObjectStore]":
    """Create an object store in the loop of the test."""
    client, options = request.node.stash[WANTED]
    yield await client.jetstream().create_object_store(BUCKET, **options)


_jetspark_anyio_client = pytest.fixture(open_client)
_jetspark_anyio_kv = pytest.fixture(open_kv)
_jetspark_anyio_objects = pytest.fixture(open_objects)
