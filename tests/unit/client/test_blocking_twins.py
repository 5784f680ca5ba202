"""Everything async has its blocking twin and vice versa (issue 7; docs/client/blocking.md)."""

import inspect
from types import FunctionType
from typing import Any

import pytest

import jetspark.client
import jetspark.sync

# Only for code that runs on the loop: a page at a time, what a store for buckets must have, and
# callbacks that block, which all callbacks of the twin may do.
ASYNC_ONLY = {"Backend", "Pager", "Stored", "ThreadCallback", "WatchPlan", "WatchSource"}
BLOCKING_ONLY = {"Server"}  # its async original is jetspark.Server
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
        if name not in BLOCKING_ONLY
        and isinstance(getattr(jetspark.client, name), type)
        and getattr(jetspark.client, name) is not getattr(jetspark.sync, name)
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


def test_both_have_the_same_names() -> None:
    asynchronous = set(jetspark.client.__all__) - ASYNC_ONLY
    blocking = set(jetspark.sync.__all__) - BLOCKING_ONLY

    assert asynchronous == blocking


@pytest.mark.parametrize("name", classes())
def test_a_twin_has_every_public_member(name: str) -> None:
    original = members(getattr(jetspark.client, name))
    twin = members(getattr(jetspark.sync, name))

    expected = {TWINS.get(each, each) for each in original}
    twin_names = {each for each in twin if each in set(TWINS.values()) | {"__len__", "__repr__"}}
    twin_names |= {each for each in twin if not each.startswith("_")}
    iteration = {each for each in TWINS.values() if each in vars(getattr(jetspark.sync, name))}

    assert twin_names | iteration == expected


@pytest.mark.parametrize("name", classes())
def test_a_twin_takes_the_same_arguments_and_never_gives_a_coroutine(name: str) -> None:
    original = members(getattr(jetspark.client, name))
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


@pytest.mark.parametrize("name", ["connect", "connect_with"])
def test_functions_take_the_same_arguments(name: str) -> None:
    ours = inspect.signature(getattr(jetspark.sync, name)).parameters
    theirs = inspect.signature(getattr(jetspark.client, name)).parameters

    assert list(ours) == list(theirs)


def test_there_are_twins() -> None:
    assert len(classes()) >= 25
