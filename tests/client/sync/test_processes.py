"""Blocking clients and the life of a process: forks, exits, Ctrl-C."""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.servers import ServerProcess

from jetspark import Message, sync
from jetspark.errors import ConnectionClosed
from jetspark.sync import portal


@pytest.fixture
def url(servers: Callable[[str], ServerProcess]) -> str:
    """One server is enough: all of this happens on our side."""
    return servers("nats-server").url


@pytest.fixture
def nc(url: str) -> Iterator[sync.Client]:
    with sync.connect(url) as client:
        yield client


def in_child(work: Callable[[], str]) -> str:
    """What ``work`` returns in a forked child; it must not end up in pytest."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        text = "nothing"
        try:
            text = work()
        except BaseException as error:  # noqa: BLE001 - the parent wants to see it
            text = f"{type(error).__name__}: {error}"
        finally:
            os.write(writing, text.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return told


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_refused_because_the_connection_is_the_parents(
    nc: sync.Client, name: str
) -> None:
    subscription = nc.subscribe(name)
    nc.flush()
    calls: dict[str, Callable[[], Any]] = {
        "publish": lambda: nc.publish(name, b"child"),
        "flush": nc.flush,
        "next": lambda: subscription.next(timeout=1),
    }

    def work() -> str:
        refused = []
        for label, call in calls.items():
            with contextlib.suppress(ConnectionClosed):
                call()
                continue
            refused.append(label)
        return " ".join(refused)

    assert in_child(work) == "publish flush next"
    nc.publish(name, b"parent")
    assert subscription.next().data == b"parent"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_may_leave_the_with_block_and_connect_again(url: str) -> None:
    with sync.connect(url) as outer:

        def work() -> str:
            outer.__exit__(None, None, None)
            with sync.connect(url) as own:
                own.flush()
            return "fine"

        assert in_child(work) == "fine"
        outer.flush()


def test_a_process_that_closes_nothing_ends_at_once_and_silently(url: str, name: str) -> None:
    """Whatever its threads are waiting for; what was published before is not lost."""
    script = f"""
        import threading
        from jetspark import sync

        class Owner:
            def __init__(self):
                self.nc = sync.connect({url!r})
            def __del__(self):
                self.nc.close()

        nc = sync.connect({url!r})
        reading = nc.subscribe("{name}.a")
        threading.Thread(target=lambda: list(reading), daemon=True).start()
        busy = threading.Event()

        def work(message):
            busy.set()
            nc.request("{name}.silence", timeout=60)

        nc.subscribe("{name}.silence")
        nc.subscribe("{name}.work", callback=work)
        nc.subscribe("{name}.many", callback=lambda message: message.respond(b"x"))
        replies = nc.request_many("{name}.many", timeout=60)
        next(replies)
        looking = sync.connect("127.0.0.1:1", retry_on_failed_connect=True)
        nc.publish("{name}.work")
        busy.wait(5)
        owner = Owner()
        nc.publish("{name}.last", b"words")
    """
    with sync.connect(url) as watching:
        last = watching.subscribe(f"{name}.last")
        watching.flush()
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert time.monotonic() - started < 20
        assert last.next().data == b"words"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt, also where the tests run as a background job.

    A shell starts those with SIGINT ignored, and Python then leaves it so.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(call: Callable[[], object]) -> None:
    """Call it, with a Ctrl-C shortly: on a busy machine perhaps before it has started."""
    threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGINT]).start()
    call()


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_the_call_and_the_client_lives(nc: sync.Client, name: str) -> None:
    subscription = nc.subscribe(name)
    nc.flush()
    for call in (
        lambda: nc.request(name, timeout=30),
        lambda: [subscription.next(timeout=30) for _ in range(2)],
        lambda: list(subscription),
    ):
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            interrupted(call)

        assert time.monotonic() - started < 10
        assert nc.stats.requests_pending == 0
    nc.publish(name, b"after")

    assert subscription.next().data == b"after"


def test_ctrl_c_loses_no_message_of_an_iteration(
    nc: sync.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes when the chunk is here, and before the loop of the user has seen it."""
    subscription = nc.subscribe(name)
    for n in range(3):
        nc.publish(name, b"%d" % n)
    nc.flush()
    wait = portal._Call.wait

    def interrupted(call: "portal._Call[Any]") -> None:
        wait(call)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(portal._Call, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(subscription)

    assert [next(subscription).data for _ in range(3)] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("kind", ["client", "jetstream", "subscription"])
def test_a_connection_does_not_pickle_and_says_what_does(
    nc: sync.Client, name: str, kind: str
) -> None:
    ways: dict[str, Callable[[], Any]] = {
        "client": lambda: nc,
        "jetstream": nc.jetstream,
        "subscription": lambda: nc.subscribe(name),
    }
    handle = ways[kind]()
    with pytest.raises(TypeError, match=r"pickle client_options\(\.\.\.\)"):
        pickle.dumps(handle)
    with pytest.raises(TypeError, match=r"pickle client_options\(\.\.\.\)"):
        pickle.dumps(handle._inner)


@pytest.mark.parametrize("kind", ["unsubscribe", "drain", "drain client", "close"])
def test_a_callback_may_end_what_calls_it(url: str, name: str, kind: str) -> None:
    """It runs on a thread that the loop waits for: no one may wait for it in turn."""
    received: list[bytes] = []
    errors: list[Exception] = []
    closed = threading.Event()
    ended = threading.Event()
    with sync.connect(
        url, error_callback=errors.append, closed_callback=lambda _: closed.set()
    ) as nc:

        def callback(message: Message) -> None:
            received.append(message.data)
            if message.data == b"1":
                ways[kind]()
            if message.data == b"3":
                ended.set()

        subscription = nc.subscribe(name, callback=callback)
        ways: dict[str, Callable[[], None]] = {
            "unsubscribe": subscription.unsubscribe,
            "drain": subscription.drain,
            "drain client": nc.drain,
            "close": nc.close,
        }
        started = time.monotonic()
        for n in range(4):
            nc.publish(name, b"%d" % n)
        nc.flush() if kind in {"unsubscribe", "drain"} else closed.wait(5)
        if kind == "unsubscribe":
            subscription.drain()
        else:
            assert ended.wait(5)

    assert time.monotonic() - started < 1.5
    assert received == [b"0", b"1", b"2", b"3"][: 2 if kind == "unsubscribe" else 4]
    assert errors == []


def test_a_coroutine_function_is_no_blocking_callback(nc: sync.Client, name: str) -> None:
    async def wrong(_message: Message) -> None:
        """No one would await it."""

    with pytest.raises(TypeError, match="pass a plain function"):
        nc.subscribe(name, callback=wrong)
