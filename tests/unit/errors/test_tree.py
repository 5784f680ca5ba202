"""One small tree of exceptions."""

import copy
import inspect
import pickle
from typing import Any

import pytest

from jetspark import errors
from jetspark.errors import (
    ApiError,
    ApiLevelRequired,
    BadRequest,
    BatchIncomplete,
    BatchNotEnabled,
    BatchRejected,
    ConsumerDeleted,
    ConsumerNotFound,
    Error,
    ExpectationFailed,
    JetStreamNotEnabled,
    KeyExists,
    KeyNotFound,
    MessageNotFound,
    MinLastSequence,
    NoResponders,
    NotFound,
    PinIdMismatch,
    PullRefused,
    RequestTimeout,
    StatusReceived,
    StoreFailed,
    StreamFull,
    StreamNotFound,
    TooManyBatches,
    TooManyResults,
    WrongLastSequence,
    api_error,
    status_error,
)
from jetspark.errors.codes import ErrCode


def every_class() -> list[type[Error]]:
    return sorted(
        {
            value
            for value in vars(errors).values()
            if isinstance(value, type) and issubclass(value, Error)
        },
        key=lambda cls: cls.__name__,
    )


def example(cls: type[Error]) -> Error:
    """Make one, with a different value for each argument."""
    if not own_arguments(cls):
        return cls("something went wrong")
    values = [
        index + 400 if annotation == "int" else f"text {index}"
        for index, annotation in enumerate(own_arguments(cls).values())
    ]
    return cls(*values)


def own_arguments(cls: type[Error]) -> dict[str, Any]:
    """Return the annotations of the constructor's arguments; empty if it is Python's."""
    if not inspect.isfunction(cls.__init__):
        return {}
    return {
        name: parameter.annotation for name, parameter in inspect.signature(cls).parameters.items()
    }


@pytest.mark.parametrize("cls", every_class(), ids=lambda cls: cls.__name__)
def test_error_pickles_and_copies(cls: type[Error]) -> None:
    """Spark workers send errors home."""
    error = example(cls)
    error.add_note("seen in partition 3")

    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is cls
        assert (twin.args, twin.__dict__) == (error.args, error.__dict__)
        assert str(twin) == str(error)


@pytest.mark.parametrize("cls", every_class(), ids=lambda cls: cls.__name__)
def test_error_keeps_its_arguments(cls: type[Error]) -> None:
    """``args`` is what pickle passes to the constructor."""
    error = example(cls)
    named = tuple(getattr(error, name) for name in own_arguments(cls))

    assert error.args == (named or ("something went wrong",))


@pytest.mark.parametrize("cls", every_class(), ids=lambda cls: cls.__name__)
def test_error_says_what_happened(cls: type[Error]) -> None:
    text = str(example(cls))

    assert text
    assert "<" not in text


@pytest.mark.parametrize("cls", every_class(), ids=lambda cls: cls.__name__)
def test_names_have_no_suffix(cls: type[Error]) -> None:
    """Only the two roots are called errors."""
    assert cls.__name__.endswith("Error") == (cls in {Error, ApiError})


def test_docstring_draws_the_tree() -> None:
    drawn: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        _, branch, rest = line.partition("── ")
        if branch:
            drawn.append((line.index("── ") // 4, rest.split()[0]))
    parents: list[str] = ["Error"]
    edges: set[tuple[str, str]] = set()
    for depth, name in drawn:
        del parents[depth:]
        edges.add((parents[-1], name))
        parents.append(name)
    real = {
        (base.__name__, cls.__name__)
        for cls in every_class()
        for base in cls.__bases__
        if issubclass(base, Error)
    }

    assert real == edges


def test_everything_is_listed() -> None:
    listed = set(errors.__all__)

    assert {cls.__name__ for cls in every_class()} <= listed
    assert sorted(errors.__all__) == sorted(listed)


@pytest.mark.parametrize(
    ("err_code", "cls"),
    [
        (10059, StreamNotFound),
        (10014, ConsumerNotFound),
        (10149, ConsumerNotFound),
        (10037, MessageNotFound),
        (10071, WrongLastSequence),
        (10164, WrongLastSequence),
        (10180, MinLastSequence),
        (10185, ApiLevelRequired),
        (10025, BadRequest),
        (10039, JetStreamNotEnabled),
        (10076, JetStreamNotEnabled),
        (10174, BatchNotEnabled),
        (10205, BatchNotEnabled),
        (10176, BatchIncomplete),
        (10208, BatchIncomplete),
        (10210, TooManyBatches),
        (10211, TooManyBatches),
        (10177, BatchRejected),
        (10052, ApiError),
        (99999, ApiError),
    ],
)
def test_code_of_a_server_becomes_a_class(err_code: int, cls: type[ApiError]) -> None:
    error = api_error(400, err_code, "text")

    assert type(error) is cls
    assert (error.code, error.err_code, error.description) == (400, err_code, "text")


@pytest.mark.parametrize(
    "cls",
    [cls for cls in every_class() if issubclass(cls, ApiError)],
    ids=lambda cls: cls.__name__,
)
def test_class_stands_for_known_codes(cls: type[ApiError]) -> None:
    for err_code in cls.err_codes:
        assert type(api_error(ErrCode(err_code).code, err_code, "text")) is cls


def test_one_code_has_one_class() -> None:
    with pytest.raises(AssertionError, match="10059 belongs to StreamNotFound and Other"):

        class Other(ApiError, err_codes=(10059,)):
            """Would make it uncertain what a caller catches."""


def test_families_are_caught_together() -> None:
    assert isinstance(api_error(404, 10059, ""), NotFound)
    assert isinstance(api_error(400, 10070, ""), ExpectationFailed)
    assert isinstance(api_error(429, 10211, ""), BatchRejected)


@pytest.mark.parametrize(
    ("description", "actual"),
    [
        ("wrong last sequence: 5", 5),
        ("wrong last sequence: 0", 0),
        ("wrong last sequence", None),
        ("wrong last sequence: ", None),
        ("wrong last sequence: -5", None),
        ("wrong last sequence: \u0665", None),
        ("wrong last sequence: 5 or so", None),
    ],
)
def test_wrong_last_sequence_knows_the_right_one(description: str, actual: int | None) -> None:
    """ADR-53, KV Store: the sequence is optional."""
    error = WrongLastSequence(400, 10071, description)

    assert actual == error.actual


def test_full_stream_is_distinguished_from_a_fault() -> None:
    """wire.md, Publishing: 10077 has several texts."""
    assert type(api_error(503, 10077, "maximum bytes exceeded")) is StreamFull
    assert type(api_error(503, 10077, "write failed")) is StoreFailed


@pytest.mark.parametrize(
    ("code", "text", "cls"),
    [
        (404, "Message Not Found", MessageNotFound),
        (404, "No Results", MessageNotFound),
        (408, "Empty Request", BadRequest),
        (408, "Malformed Request", BadRequest),
        (408, "Bad Request", BadRequest),
        (408, "Request Timeout", RequestTimeout),
        (412, "Min Last Sequence", MinLastSequence),
        (412, "Required Api Level", ApiLevelRequired),
        (413, "Too Many Results", TooManyResults),
        (400, "Bad Request - heartbeat value too large", PullRefused),
        (409, "Consumer Deleted", ConsumerDeleted),
        (409, "Exceeded MaxWaiting", PullRefused),
        (423, "Nats-Pin-Id mismatch", PinIdMismatch),
        (503, "", NoResponders),
        (599, "Something New", StatusReceived),
    ],
)
def test_status_becomes_the_class_of_the_same_matter(
    code: int, text: str, cls: type[Error]
) -> None:
    """wire.md, Consumers."""
    assert type(status_error(code, text)) is cls


def test_status_and_json_of_one_matter_are_alike() -> None:
    status = status_error(412, "Min Last Sequence")
    body = api_error(412, 10180, "min last sequence")

    assert isinstance(status, MinLastSequence)
    assert isinstance(body, MinLastSequence)
    assert (status.code, status.err_code) == (body.code, body.err_code)


def test_some_are_also_what_python_calls_them() -> None:
    assert issubclass(RequestTimeout, TimeoutError)
    assert issubclass(KeyNotFound, LookupError)
    assert issubclass(errors.BadSubject, ValueError)


def test_texts_name_what_is_meant() -> None:
    assert str(KeyNotFound("cfg", "a.b")) == "key 'a.b' not found in bucket 'cfg'"
    assert "deleted at revision 7" in str(KeyNotFound("cfg", "a.b", 7))
    assert str(KeyExists("cfg", "a.b", 3)) == "key 'a.b' exists in bucket 'cfg' at revision 3"
    assert str(api_error(404, 10059, "stream not found")) == (
        "stream not found (code 404, err_code 10059)"
    )
