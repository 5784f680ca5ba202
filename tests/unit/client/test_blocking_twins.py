"""Everything async has its blocking twin and vice versa (docs/client/blocking.md)."""

import inspect
from types import FunctionType
from typing import Any

import pytest

import jetspark
import jetspark.sync
from jetspark.client.client import connect_with
from jetspark.sync.client import connect_with as blocking_connect_with

# Only for code that runs on the loop: a page at a time, what a store for buckets must have.
# All callbacks of the twin may block, so that it needs no ThreadCallback.
ASYNC_ONLY = {
    "Backend",
    "Opening",
    "Pager",
    "Server",
    "ReplicaServer",
    "ThreadCallback",
    "WatchSource",
}
TWINS = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
}


def classes() -> list[str]:
    """Those that exist twice, as different classes."""
    return [
        name
        for name in jetspark.sync.__all__
        if name not in ASYNC_ONLY and isinstance(getattr(jetspark, name, None), type)
    ]


def members(kind: type) -> dict[str, Any]:
    """Public methods, properties and fields, those of base classes included."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("jetspark"):
            continue
        names = [*vars(base), *getattr(base, "__struct_fields__", ())]
        for name in names:
            if not name.startswith("_") or name in TWINS or name in {"__len__", "__repr__"}:
                found[name] = inspect.getattr_static(base, name, None)
    return found


def waits(kind: type) -> bool:
    """Whether it has something to wait for, so that a blocking program needs another class."""
    return any(
        inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member) or name in TWINS
        for name, member in members(kind).items()
    )


def test_whatever_waits_has_a_twin() -> None:
    found = {name: getattr(jetspark, name) for name in jetspark.__all__}
    waiting = {name for name, each in found.items() if isinstance(each, type) and waits(each)}

    assert waiting - ASYNC_ONLY == set(classes())


@pytest.mark.parametrize("name", classes())
def test_a_twin_has_every_public_member(name: str) -> None:
    original = members(getattr(jetspark, name))
    twin = members(getattr(jetspark.sync, name))

    expected = {TWINS.get(each, each) for each in original}
    twin_names = {each for each in twin if each in set(TWINS.values()) | {"__len__", "__repr__"}}
    twin_names |= {each for each in twin if not each.startswith("_")}
    iteration = {each for each in TWINS.values() if each in vars(getattr(jetspark.sync, name))}

    assert twin_names | iteration == expected


@pytest.mark.parametrize("name", classes())
def test_a_twin_takes_the_same_arguments_and_never_gives_a_coroutine(name: str) -> None:
    original = members(getattr(jetspark, name))
    for method, twin in members(getattr(jetspark.sync, name)).items():
        if not isinstance(twin, FunctionType) or method.startswith("_"):
            continue
        theirs = inspect.signature(original[method]).parameters
        ours = inspect.signature(twin).parameters

        assert list(ours) == list(theirs), method
        for each, parameter in ours.items():
            assert parameter.kind is theirs[each].kind, (method, each)
            assert parameter.default == theirs[each].default, (method, each)
        assert not inspect.iscoroutinefunction(twin), method
        assert not inspect.isasyncgenfunction(twin), method


@pytest.mark.parametrize(
    ("twin", "original"),
    [(jetspark.sync.connect, jetspark.connect), (blocking_connect_with, connect_with)],
)
def test_functions_take_the_same_arguments(twin: Any, original: Any) -> None:
    ours = inspect.signature(twin).parameters
    theirs = inspect.signature(original).parameters

    assert list(ours) == list(theirs)


@pytest.mark.parametrize("name", [*classes(), "Message", "StreamMessage", "Headers"])
def test_a_handle_says_what_it_is_in_a_repl(name: str) -> None:
    for package in (jetspark, jetspark.sync):
        kind = getattr(package, name, jetspark.Message)
        assert kind.__repr__ is not object.__repr__, kind


def test_there_are_twins() -> None:
    assert len(classes()) >= 25
