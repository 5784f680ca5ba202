"""The pytest plugin: cheap where no test uses it, clear where it is used wrongly."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.user_project import environment, pytest_in


def test_importing_it_imports_nothing_but_pytest() -> None:
    program = (
        "import sys, pytest; before = set(sys.modules); import jetspark.testing.plugin; "
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "['jetspark', 'jetspark.testing', 'jetspark.testing.plugin']\n"


def test_a_run_without_its_fixtures_loads_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n"
        "def test_nothing():\n"
        "    assert [name for name in sys.modules if name.startswith('jetspark')] == "
        "['jetspark', 'jetspark.testing', 'jetspark.testing.plugin']\n"
        "    assert 'pytest_jetspark' not in sys.modules\n"
    )

    done = pytest_in(tmp_path, "-p", "no:asyncio")

    assert (done.code, done.count("passed")) == (0, 1), done.output


def test_a_coroutine_that_no_plugin_runs_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("async def test_it(jetspark_client): pass\n")

    done = pytest_in(tmp_path, "-p", "no:asyncio")

    assert done.code == 1
    assert "neither anyio nor pytest-asyncio runs it: mark it with @pytest.mark.anyio" in (
        done.output
    )


def test_what_would_pass_without_having_run_fails(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "from jetspark.testing import AsyncServerTestCase, ServerTestCase\n"
        "@pytest.mark.asyncio\n"
        "async def test_it(jetspark_server): jetspark_server.published('never')\n"
        "class Plain(ServerTestCase):\n"
        "    async def test_coroutine(self): assert False\n"
        "class Async(AsyncServerTestCase):\n"
        "    async def test_forgotten(self): self.server.published('never')\n"
    )

    done = pytest_in(tmp_path)

    assert done.code == 1
    assert done.output.count("the test did not await published() of its server") >= 2, done.output
    assert "test_coroutine is a coroutine function" in done.output
    assert "derive the class from AsyncServerTestCase" in done.output


def test_a_coroutine_with_hypothesis_gets_the_fixtures_of_a_coroutine(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "from hypothesis import HealthCheck, given, settings, strategies\n"
        "examples = settings(\n"
        "    max_examples=3, deadline=None, suppress_health_check=list(HealthCheck)\n"
        ")\n"
        "@pytest.fixture\n"
        "def anyio_backend(): return 'asyncio'\n"
        "async def check(bucket, value):\n"
        "    await bucket.put('a', value)\n"
        "    assert (await bucket.get('a')).value == value\n"
        "@pytest.mark.asyncio\n@examples\n@given(value=strategies.binary())\n"
        "async def test_asyncio(kv_bucket, value): await check(kv_bucket, value)\n"
        "@pytest.mark.anyio\n@examples\n@given(value=strategies.binary())\n"
        "async def test_anyio(kv_bucket, value): await check(kv_bucket, value)\n"
        "@examples\n@given(value=strategies.binary())\n"
        "def test_plain(kv_bucket, value): kv_bucket.put('a', value)\n"
    )

    done = pytest_in(tmp_path, "-o", "asyncio_default_fixture_loop_scope=function")

    assert (done.code, done.count("passed")) == (0, 3), done.output


def test_a_test_of_two_plugins_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.anyio\nasync def test_it(jetspark_client): pass\n"
    )

    done = pytest_in(tmp_path, "-o", "asyncio_mode=auto")

    assert done.code == 1
    assert "set asyncio_mode=strict, or do not use anyio's marker" in done.output


def test_options_of_a_bucket_that_are_no_options_are_named(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('kv_bucket', [60], indirect=True)\n"
        "def test_it(kv_bucket): pass\n"
    )

    done = pytest_in(tmp_path, "-p", "no:asyncio")

    assert "kv_bucket was parametrized with 60: expected a dict of options" in done.output


def test_an_unknown_server_is_refused(tmp_path: Path) -> None:
    done = pytest_in(tmp_path, "--jetspark-server=redis")

    assert done.code == 4
    assert "invalid choice: 'redis'" in done.output


def test_trio_is_skipped_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.fixture\n"
        "def anyio_backend(): return 'trio'\n"
        "@pytest.mark.anyio\n"
        "async def test_it(jetspark_client): pass\n"
    )

    done = pytest_in(tmp_path, "-p", "no:asyncio", "-rs")

    assert done.count("skipped") == 1, done.output
    assert "jetspark runs on asyncio" in done.output


def test_the_modes_of_pytest_asyncio(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.fixture\n"
        "async def stream(jetspark_client):\n"
        "    return await jetspark_client.jetstream().create_stream('S', subjects=['s'])\n"
        "async def test_auto(stream, kv_bucket, jetspark_server):\n"
        "    await kv_bucket.put('a', b'1')\n"
        "    await jetspark_server.published('$KV.test.a', count=1)\n"
        "def test_sync(kv_bucket):\n"
        "    kv_bucket.put('a', b'1')\n"
    )
    for scope in ("function", "session"):
        done = pytest_in(
            tmp_path, "-W", "error", "-o", "asyncio_mode=auto",
            "-o", f"asyncio_default_fixture_loop_scope={scope}",
            "-o", f"asyncio_default_test_loop_scope={scope}",
        )  # fmt: skip

        assert (done.code, done.count("passed")) == (0, 2), done.output


def test_the_server_of_a_wider_scope_is_used_from_every_loop(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "from jetspark.testing import SyncServer\n"
        "@pytest.fixture(scope='session')\n"
        "def shared():\n"
        "    with SyncServer() as server:\n"
        "        yield server\n"
        "@pytest.mark.asyncio(loop_scope='session')\n"
        "async def test_one(shared, jetspark_client):\n"
        "    async with shared.to_async().connect() as client:\n"
        "        await client.jetstream().create_stream('S', subjects=['s'])\n"
        "    assert [n async for n in jetspark_client.jetstream().stream_names()] == []\n"
        "@pytest.mark.asyncio\n"
        "async def test_two(shared, jetspark_server):\n"
        "    await jetspark_server.crash()\n"
        "    async with shared.to_async().connect() as client:\n"
        "        assert [n async for n in client.jetstream().stream_names()] == ['S']\n"
        "def test_three(shared, jetspark_client):\n"
        "    with shared.connect() as client:\n"
        "        assert list(client.jetstream().stream_names()) == ['S']\n"
    )

    done = pytest_in(
        tmp_path, "-W", "error", "-o", "asyncio_default_fixture_loop_scope=function",
    )  # fmt: skip

    assert (done.code, done.count("passed")) == (0, 3), done.output


def test_the_base_install_is_enough(tmp_path: Path) -> None:
    hidden = ("starlette", "uvicorn", "bcrypt", "cryptography", "click", "yaml", "rich", "pyspark")
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "sitecustomize.py").write_text(
        f"import sys\nfor name in {hidden}:\n    sys.modules[name] = None\n"
    )
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_it(jetspark_server, kv_bucket, object_bucket):\n"
        "    assert sys.modules['starlette'] is None\n"
        "    kv_bucket.put('a', b'1', ttl=60)\n"
        "    jetspark_server.advance(minutes=1)\n"
        "    jetspark_server.restart()\n"
        "    assert list(kv_bucket.keys()) == []\n"
    )
    path = os.pathsep.join([str(blocked), environment().get("PYTHONPATH", str(blocked))])

    done = pytest_in(tmp_path, "-p", "no:asyncio", PYTHONPATH=path)

    assert (done.code, done.count("passed")) == (0, 1), done.output
