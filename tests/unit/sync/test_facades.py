"""The generated twins: complete, up to date, and the same signatures."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from jetspark import client, sync

ROOT = Path(__file__).resolve().parents[3]
TWINS = [
    "AckFuture",
    "AtomicBatch",
    "Client",
    "Consumer",
    "Consumption",
    "Election",
    "FastPublisher",
    "JetStream",
    "JetStreamMessage",
    "KeyValue",
    "KeyValueReplica",
    "KeyWatcher",
    "Lock",
    "Members",
    "Membership",
    "MessageIterator",
    "ObjectReader",
    "ObjectStore",
    "ObjectWatcher",
    "OrderedConsumer",
    "PullSubscription",
    "PushSubscription",
    "Stream",
    "StreamReplica",
    "Subscription",
    "Transaction",
]
# Public for other parts of the client only (tools/gen_sync.py, SKIP).
INTERNAL = {
    "Subscription": {
        "sink",
        "end",
        "next_chunk",
        "callback",
        "callback_task",
        "is_draining",
        "deliveries_left",
    },
    "AckFuture": {"on_reply", "renew", "fail", "failed_unseen"},
    "Consumption": {"finish", "is_calling_here"},
    "Consumer": {"label", "next_subject", "check_exists"},
    "AtomicBatch": {"add_block"},
    "KeyValue": {"seconds", "check_writable"},
    "KeyWatcher": {"next_chunk", "call"},
    "ObjectReader": {"next_chunk"},
    "ObjectStore": {"buckets", "reader_of"},
    "ObjectWatcher": {"next_chunk", "call"},
    "Stream": {"reader"},
    "MessageIterator": {"next_chunk"},
    "PushSubscription": {"next_chunk"},
}


def public(kind: type) -> set[str]:
    parts = [kind, *(base for base in kind.__bases__ if base.__name__.endswith("Calls"))]
    return {name for part in parts for name in vars(part) if not name.startswith("_")}


def test_the_generated_modules_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "gen_sync.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_has_every_public_name(name: str) -> None:
    expected = public(getattr(client, name)) - INTERNAL.get(name, set())

    assert public(getattr(sync, name)) == expected


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_takes_the_same_arguments(name: str) -> None:
    original, twin = getattr(client, name), getattr(sync, name)
    for method in public(twin):
        if isinstance(inspect.getattr_static(twin, method), property):
            continue
        expected = inspect.signature(getattr(original, method)).parameters
        actual = inspect.signature(getattr(twin, method)).parameters

        assert list(actual) == list(expected)
        for parameter in expected:
            assert actual[parameter].default == expected[parameter].default
            assert actual[parameter].kind == expected[parameter].kind


def test_connect_takes_the_same_arguments() -> None:
    expected = inspect.signature(client.connect).parameters

    assert inspect.signature(sync.connect).parameters == expected


@pytest.mark.parametrize("name", TWINS)
def test_every_public_method_has_a_docstring(name: str) -> None:
    twin = getattr(sync, name)
    silent = [method for method in public(twin) if not inspect.getdoc(getattr(twin, method))]

    assert silent == []


def test_both_packages_export_what_users_need() -> None:
    # A backend of buckets is written for asyncio; its entries and plans belong to it.
    backend = {"Backend", "Stored", "WatchPlan", "WatchSource"}
    # Every callback of the twin has a thread of its own.
    assert set(client.__all__) - set(sync.__all__) == {"Pager", "ThreadCallback", *backend}
    assert set(sync.__all__) <= set(client.__all__) | {"Server"}
