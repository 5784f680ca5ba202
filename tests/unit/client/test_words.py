"""One idea, one word: public names follow the table in CONTRIBUTING.md."""

import inspect
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, get_args

import jetspark
import jetspark.sync
from jetspark.client.models.base import Model

# What a store for buckets must have, and threads: not for those who use the client.
NOT_FOR_USERS = {"Backend", "Pager", "ReplicaServer", "Server", "ThreadCallback", "WatchSource"}
ENDINGS = {"stop", "leave", "end", "shutdown", "terminate", "aclose"}
RETIRED = {"payload", "payloads", "max_msgs", "created_ns", "mtime", "readonly", "next_msg"}


def members() -> Iterator[tuple[str, str, Any]]:
    for package in (jetspark, jetspark.sync):
        for name in package.__all__:
            kind = getattr(package, name)
            if not isinstance(kind, type) or name in NOT_FOR_USERS or issubclass(kind, Model):
                continue
            for member in dir(kind):
                if not member.startswith("_"):
                    yield (
                        f"{package.__name__}.{name}",
                        member,
                        inspect.getattr_static(kind, member),
                    )


def test_what_is_opened_ends_with_close_and_one_thing_is_taken_with_next() -> None:
    wrong = [f"{kind}.{name}" for kind, name, _ in members() if name in ENDINGS]

    assert wrong == []


def test_arguments_and_attributes_have_the_words_of_the_table() -> None:
    wrong = []
    for kind, name, member in members():
        if name in RETIRED:
            wrong.append(f"{kind}.{name}")
        if inspect.isfunction(member):
            arguments = inspect.signature(member).parameters.keys() & RETIRED
            wrong += [f"{kind}.{name}({each}=)" for each in arguments]

    assert wrong == []


def test_durations_of_the_client_are_no_nanoseconds() -> None:
    unit = re.compile(r"_(ns|ms|us|nanos|millis)$")
    wrong = [
        f"{kind}.{name}({each}=)"
        for kind, name, member in members()
        if inspect.isfunction(member)
        for each in inspect.signature(member).parameters
        if unit.search(each) and each != "time_ns"
    ]

    assert wrong == []


def test_how_long_is_seconds_or_a_timedelta_to_type_checkers() -> None:
    """Every float is a time, but for shares of something."""
    shares = {"threshold"}
    wrong = [
        f"{kind}.{name}({each}=)"
        for kind, name, member in members()
        if inspect.isfunction(member)
        for each, argument in inspect.signature(member).parameters.items()
        if float in (argument.annotation, *get_args(argument.annotation))
        and timedelta not in get_args(argument.annotation)
        and each not in shares
    ]

    assert wrong == []
