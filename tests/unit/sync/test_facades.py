"""The generated twins: complete, up to date, and the same signatures."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import jetspark
from jetspark import sync

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
    "Lock",
    "Members",
    "Membership",
    "MessageIterator",
    "ObjectReader",
    "ObjectStore",
    "Watcher",
    "OrderedConsumer",
    "PullSubscription",
    "PushSubscription",
    "Stream",
    "StreamReplica",
    "Subscription",
    "Transaction",
]


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


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
    assert public(getattr(sync, name)) == public(getattr(jetspark, name))


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_takes_the_same_arguments(name: str) -> None:
    original, twin = getattr(jetspark, name), getattr(sync, name)
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
    expected = inspect.signature(jetspark.connect).parameters

    assert inspect.signature(sync.connect).parameters == expected


@pytest.mark.parametrize("name", TWINS)
def test_every_public_method_has_a_docstring(name: str) -> None:
    twin = getattr(sync, name)
    silent = [method for method in public(twin) if not inspect.getdoc(getattr(twin, method))]

    assert silent == []


def test_the_twins_have_the_names_of_the_originals() -> None:
    bulk = {"ColumnsAck", "Counted", "count_from", "last_columns", "publish_columns"}
    bulk |= {"publish_together", "publish_where_expected"}

    assert set(sync.__all__) <= {*jetspark.__all__, *bulk}
    assert set(TWINS) <= set(sync.__all__)
