"""Subject transforms, row by row as nats-server 2.15.1 does them."""

import pickle

import pytest

from jetspark.subjects.transform import SubjectTransform, TransformError, fnv1a_32

# Source, destination, published subject, stored subject: observed on a stream with this
# ``subject_transform`` (wire.md, Publishing). A subject that is stored as it came was not
# transformed.
PARTITIONS = [
    ("in.*.*", "d.{{partition(10,1)}}", "in.a.b", "d.0"),
    ("in.*.*", "d.{{partition(10,1)}}", "in.orders.eu", "d.0"),
    ("in.*.*", "d.{{partition(10,1)}}", "in.x1.y", "d.4"),
    ("in.*.*", "d.{{partition(10,1)}}", "in.user-42.z", "d.9"),
    ("in.*.*", "d.{{partition(10,1)}}", "in.ключ.q", "d.3"),
    ("in.*.*", "d.{{partition(10,1,2)}}.$2", "in.a.b", "d.6.b"),
    ("in.*.*", "d.{{partition(10,1,2)}}.$2", "in.orders.eu", "d.4.eu"),
    ("in.*.*", "d.{{partition(10,1,2)}}.$2", "in.x1.y", "d.5.y"),
    ("in.*.*", "d.{{partition(10,1,2)}}.$2", "in.user-42.z", "d.1.z"),
    ("in.*.*", "d.{{partition(10,1,2)}}.$2", "in.ab.c", "d.1.c"),
    ("in.*.*", "d.{{partition(10,1,2)}}.$2", "in.a.bc", "d.1.bc"),
    ("in.*.*", "d.{{partition(7,2,1)}}", "in.a.b", "d.6"),
    ("in.*.*", "d.{{partition(7,2,1)}}", "in.orders.eu", "d.4"),
    ("in.*.*", "d.{{ Partition( 3 , 2 ) }}", "in.a.b", "d.1"),
    ("in.*.*", "d.{{ Partition( 3 , 2 ) }}", "in.orders.eu", "d.2"),
    ("in.*.*", "d.{{partition(5)}}.$1.$2", "in.a.b", "d.0.a.b"),
    ("in.*.*", "d.{{partition(5)}}.$1.$2", "in.orders.eu", "d.1.orders.eu"),
    ("in.*.*", "d.{{partition(5)}}.$1.$2", "in.x1.y", "d.3.x1.y"),
    ("in.*.*", "d.{{partition(0,1)}}", "in.a.b", "d.0"),
    ("in.*.*", "d.{{partition(-1,1)}}", "in.a.b", "d.3826002220"),
    ("in.*.*", "d.{{partition(-1,1)}}", "in.orders.eu", "d.845059820"),
    ("in.*.*", "d.{{partition(2147483647,1)}}", "in.a.b", "d.1678518573"),
    ("in.*.*", "d.{{partition(2147483647,1)}}", "in.orders.eu", "d.845059820"),
    ("in.a", "d.{{partition(10,1)}}", "in.a", "d.9"),
    ("in.a", "d.{{partition(10)}}", "in.a", "d.9"),
    ("in.*", "p.{{partition(16,1)}}", "in.a", "p.12"),
    ("in.*", "p.{{partition(16,1)}}", "in.b", "p.5"),
    ("in.*", "p.{{partition(16,1)}}", "in.abc", "p.11"),
    ("in.*", "p.{{partition(16,1)}}", "in.orders", "p.12"),
    ("in.*", "p.{{partition(16,1)}}", "in.customer-1", "p.7"),
    ("in.*", "p.{{partition(16,1)}}", "in.customer-2", "p.10"),
    ("in.*", "p.{{partition(16,1)}}", "in.0", "p.15"),
    ("in.*", "p.{{partition(16,1)}}", "in.12345678901234567890", "p.13"),
    ("in.*", "p.{{partition(16,1)}}", "in.ключ", "p.1"),
    (
        "in.*",
        "p.{{partition(16,1)}}",
        "in.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "p.5",
    ),
    ("in.*", "p.{{partition(16,1)}}", "in.foo_bar", "p.13"),
    ("in.*", "p.{{partition(16,1)}}", "in.A", "p.12"),
    ("in.*", "p.{{partition(16,1)}}", "in.Z", "p.13"),
    ("in.*", "p.{{partition(16,1)}}", "in.9f8e7d", "p.14"),
    ("in.*", "p.{{partition(16,1)}}", "in.user@example", "p.8"),
    ("in.*", "p.{{partition(16,1)}}", "in.$KV", "p.10"),
    ("in.*", "p.{{partition(16,1)}}", "in.{}", "p.5"),
    ("in.*", "p.{{partition(16,1)}}", "in.%", "p.0"),
    ("in.*", "p.{{partition(16,1)}}", "in.~", "p.1"),
    ("in.*", "p.{{partition(16,1)}}", "in.emoji-😀", "p.13"),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.a", "p.826002199"),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.b", "p.876335056"),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.abc", "p.440920331"),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.orders", "p.845059820"),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.customer-1", "p.307212823"),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.customer-2", "p.323990442"),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.0", "p.890022063"),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.12345678901234567890", "p.686313437"),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.ключ", "p.512710099"),
    (
        "in.*",
        "p.{{partition(1000000007,1)}}",
        "in.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "p.516603056",
    ),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.foo_bar", "p.32505821"),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.A", "p.289118391"),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.Z", "p.742114104"),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.9f8e7d", "p.875848455"),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.user@example", "p.587658691"),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.$KV", "p.83658259"),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.{}", "p.415952414"),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.%", "p.537692064"),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.~", "p.211887429"),
    ("in.*", "p.{{partition(1000000007,1)}}", "in.emoji-😀", "p.765500573"),
    ("in.*.*.*", "p.{{partition(97,3,1)}}", "in.a.b.c", "p.22"),
    ("in.*.*.*", "p.{{partition(97,3,1)}}", "in.x.y.z", "p.22"),
    ("in.*.*.*", "p.{{partition(97,3,1)}}", "in.eu.orders.42", "p.55"),
    ("in.*.*.*", "p.{{partition(97,3,1)}}", "in.1.2.3", "p.65"),
    ("in.*.*.*", "p.{{partition(97)}}", "in.a.b.c", "p.12"),
    ("in.*.*.*", "p.{{partition(97)}}", "in.x.y.z", "p.86"),
    ("in.*.*.*", "p.{{partition(97)}}", "in.eu.orders.42", "p.74"),
    ("in.*.*.*", "p.{{partition(97)}}", "in.1.2.3", "p.66"),
    ("in.*", "p.{{partition(1,1)}}", "in.a", "p.0"),
    ("in.*", "p.{{partition(10,-1)}}", "in.a", "p.6"),
    ("in.*", "p.{{partition(10,0)}}", "in.a", "p.6"),
]

# Likewise for the other functions and for what is not a function at all.
OBSERVED = [
    ("in.*.*", "d.$2.$1", "in.a.b", "d.b.a"),
    ("in.*.>", "d.$1.>", "in.a.b.c.d", "d.a.b.c.d"),
    ("in.*.>", "d.$1.>", "in.a.b", "d.a.b"),
    ("in.*.>", "d.$1.>", "in.a", "in.a"),
    ("in.>", "d.>", "in.a.b.c", "d.a.b.c"),
    ("in.*.*", "d.{{wildcard(2)}}.{{Wildcard(1)}}", "in.a.b", "d.b.a"),
    ("in.*.*", "d.$0.$1", "in.a.b", "d.in.a"),
    ("in.*.*", "d.$-1.$1", "in.a.b", "d.in.a"),
    ("in.*.*", "d.$x.$", "in.a.b", "d.$x.$"),
    ("in.*", "d.{{split(1,-)}}", "in.a-b-c", "d.a.b.c"),
    ("in.*", "d.{{split(1,-)}}", "in.-a-b-", "d.a.b"),
    ("in.*", "d.{{split(1,-)}}", "in.a--b", "d.a.b"),
    ("in.*", "d.{{split(1,-)}}", "in.abc", "d.abc"),
    ("in.*", "d.{{split(1,-)}}", "in.a---b", "d.a.b"),
    ("in.*", "d.{{split(1, --)}}", "in.a--b---c", "d.a.b.-c"),
    ("in.*", "d.{{split(1,)}}", "in.abc", "d.a.b.c"),
    ("in.*", "d.{{split(1,)}}", "in.äb", "d.ä.b"),
    ("in.*", "d.{{splitfromleft(1,3)}}", "in.abcdef", "d.abc.def"),
    ("in.*", "d.{{splitfromleft(1,3)}}", "in.abc", "d.abc"),
    ("in.*", "d.{{splitfromleft(1,3)}}", "in.ab", "d.ab"),
    ("in.*", "d.{{SplitFromRight(1,3)}}", "in.abcdefg", "d.abcd.efg"),
    ("in.*", "d.{{SplitFromRight(1,3)}}", "in.abc", "d.abc"),
    ("in.*", "d.{{SplitFromRight(1,3)}}", "in.ab", "d.ab"),
    ("in.*", "d.{{splitfromleft(1,0)}}", "in.abcdef", "d.abcdef"),
    ("in.*", "d.{{splitfromleft(1,-2)}}", "in.abcdef", "d.abcdef"),
    ("in.*", "d.{{slicefromleft(1,3)}}", "in.abcdefgh", "d.abc.def.gh"),
    ("in.*", "d.{{slicefromleft(1,3)}}", "in.abcdef", "d.abc.def"),
    ("in.*", "d.{{slicefromleft(1,3)}}", "in.abc", "d.abc"),
    ("in.*", "d.{{slicefromleft(1,3)}}", "in.ab", "d.ab"),
    ("in.*", "d.{{slicefromleft(1,3)}}", "in.abcd", "d.abc.d"),
    ("in.*", "d.{{SliceFromRight(1,3)}}", "in.abcdefgh", "d.ab.cde.fgh"),
    ("in.*", "d.{{SliceFromRight(1,3)}}", "in.abcdef", "d.abc.def"),
    ("in.*", "d.{{SliceFromRight(1,3)}}", "in.abc", "d.abc"),
    ("in.*", "d.{{SliceFromRight(1,3)}}", "in.ab", "d.ab"),
    ("in.*", "d.{{SliceFromRight(1,3)}}", "in.abcd", "d.a.bcd"),
    ("in.*", "d.{{left(1,3)}}", "in.abcdefgh", "d.abc"),
    ("in.*", "d.{{left(1,3)}}", "in.abc", "d.abc"),
    ("in.*", "d.{{left(1,3)}}", "in.ab", "d.ab"),
    ("in.*", "d.{{right(1,3)}}", "in.abcdefgh", "d.fgh"),
    ("in.*", "d.{{right(1,3)}}", "in.abc", "d.abc"),
    ("in.*", "d.{{right(1,3)}}", "in.ab", "d.ab"),
    ("in.*", "d.{{Left(1,3)}}", "in.abcdefgh", "d.abc"),
    ("in.*", "d.{{random(1)}}", "in.abcdefgh", "d.0"),
    ("in.*", "d.{{wildcard(+1)}}", "in.a", "d.a"),
    ("in.*", "d.{{wildcard( 1 )}}", "in.a", "d.a"),
    ("in.*", "d.x{{wildcard(1)}}", "in.a", "d.x{{wildcard(1)}}"),
    ("in.*", "d.{{}}", "in.a", "d.{{}}"),
    ("in.*.*", "d.$1.$2", "in.a.*", "in.a.*"),
    ("in.*.*", "d.$1.$2", "in.*.b", "in.*.b"),
    ("in.*.*", "d.$1.$2", "in.a.b", "d.a.b"),
    ("in.*", "p.{{sliceFromLeft(1,2)}}.{{SliceFromRight(1,2)}}", "in.abcde", "p.ab.cd.e.a.bc.de"),
    ("", "p.>", "in.abcde", "p.in.abcde"),
    ("in.*.x.>", "p.$1.>", "in.1.x.2.3", "p.1.2.3"),
    ("in.*", "p.{{wildcard(1)}}x", "in.a", "p.{{wildcard(1)}}x"),
    ("in.*", "p.{{ wildcard ( 1 ) }}", "in.a", "p.a"),
    ("in.*", "p.{{wildcard(1) }}.q", "in.a", "p.a.q"),
    ("in.*", "p.{{split(1,$)}}", "in.a$b", "p.a.b"),
    ("in.*", "p.{{split(1,ab)}}", "in.1ab2a3", "p.1.2a3"),
    ("in.*", "p.{{left(1,0)}}.{{right(1,9)}}", "in.abc", "p.abc.abc"),
    ("in.*", "p.{{random(0)}}", "in.abc", "p.0"),
    ("in.*", "p.{{}}x.{{x", "in.abc", "p.{{}}x.{{x"),
    ("in.*", "p.{{wildcard(1)", "in.abc", "p.{{wildcard(1)"),
    ("in.*", "p.$", "in.abc", "p.$"),
    ("in.*", "p.$+1", "in.abc", "p.abc"),
    ("in.*", "p.{{split(1,a.b)}}", "in.abc", "p.{{split(1,a.b)}}"),
]

# Source, destination and what the server said of them (10155 or 10156), after the words
# "stream transform: " or "stream transform source: ".
BAD_ARGUMENT = "invalid mapping destination: function argument is invalid or in the wrong format"
OUT_OF_RANGE = "invalid mapping destination: wildcard index out of range"
NOT_ENOUGH = "invalid mapping destination: not enough arguments passed to the function"
TOO_MANY = "invalid mapping destination: too many arguments passed to the function"
UNKNOWN = "invalid mapping destination: unknown function"
INVALID = "invalid mapping destination: invalid transform"
REFUSED = [
    ("in.*.*", "d.{{partition(2147483648,1)}}", BAD_ARGUMENT + " in {{partition(2147483648,1)}}"),
    ("in.*.*", "d.$3", OUT_OF_RANGE + " in $3: [3]"),
    ("in.*", "d.{{split(1,a b)}}", BAD_ARGUMENT + " in {{split(1,a b)}}"),
    ("in.*", "d.{{split(1)}}", NOT_ENOUGH + " in {{split(1)}}"),
    ("in.*", "d.{{split(1,-,-)}}", TOO_MANY + " in {{split(1,-,-)}}"),
    ("in.*", "d.{{random(1,2)}}", NOT_ENOUGH + " in {{random(1,2)}}"),
    ("in.*", "d.{{LEFT(1,3)}}", UNKNOWN + " in {{LEFT(1,3)}}"),
    ("in.*", "d.{{WILDCARD(1)}}", UNKNOWN + " in {{WILDCARD(1)}}"),
    ("in.*", "d.{{wildcard()}}", NOT_ENOUGH + " in {{wildcard()}}"),
    ("in.*", "d.{{wildcard(1,1)}}", TOO_MANY + " in {{wildcard(1,1)}}"),
    ("in.*", "d.{{wildcard(x)}}", BAD_ARGUMENT + " in {{wildcard(x)}}"),
    ("in.*", "d.{{wildcard(2)}}", OUT_OF_RANGE + " in {{wildcard(2)}}: [2]"),
    ("in.*", "d.{{partition()}}", BAD_ARGUMENT + " in {{partition()}}"),
    ("in.*", "d.{{foo(1)}}", UNKNOWN + " in {{foo(1)}}"),
    ("in.*", "d.*", "invalid subject"),
    ("in.*", "d.>", "invalid subject"),
    ("in.>", "d", "invalid subject"),
    ("in.*", "d..x", INVALID),
    ("in.*", "d.>.x", INVALID + " in x"),
    ("in.*", "d.a b", INVALID),
    ("in.a", "d.$1", OUT_OF_RANGE + " in $1"),
    ("in.a", "d.{{wildcard(1)}}", OUT_OF_RANGE + " in {{wildcard(1)}}"),
    ("in.a..b", "d", "invalid subject in.a..b"),
    ("in.*", "d.{{splitfromleft(1)}}", NOT_ENOUGH + " in {{splitfromleft(1)}}"),
    ("in.*", "d.{{splitfromleft(1,2,3)}}", TOO_MANY + " in {{splitfromleft(1,2,3)}}"),
    ("in.*", "d.{{splitfromleft(1,x)}}", BAD_ARGUMENT + " in {{splitfromleft(1,x)}}"),
    ("in.*", "d.{{partition(10,3)}}", OUT_OF_RANGE + " in {{partition(10,3)}}: [3]"),
    ("in.*", ">", "invalid subject"),
    ("in.*", "p.{{partition(10, )}}", BAD_ARGUMENT + " in {{partition(10, )}}"),
    ("in.*", "p.{{split(x,-)}}", BAD_ARGUMENT + " in {{split(x,-)}}"),
    ("in.*", "p.{{random(x)}}", BAD_ARGUMENT + " in {{random(x)}}"),
    ("in.*", "p.$ 1", INVALID),
    ("in.*", "p.{{splitfromleft(3,1)}}", OUT_OF_RANGE + " in {{splitfromleft(3,1)}}: [3]"),
]


def transformed(source: str, destination: str, subject: str) -> str:
    """What is stored: the transformed subject, or the subject itself."""
    transform = SubjectTransform(source.encode(), destination.encode(), lambda _: 0)
    made = transform.apply(subject.encode())
    return subject if made is None else made.decode()


@pytest.mark.parametrize(("source", "destination", "subject", "stored"), PARTITIONS)
def test_partitions_have_the_numbers_of_nats_server(
    source: str, destination: str, subject: str, stored: str
) -> None:
    assert transformed(source, destination, subject) == stored


@pytest.mark.parametrize(("source", "destination", "subject", "stored"), OBSERVED)
def test_transforms_do_what_nats_server_does(
    source: str, destination: str, subject: str, stored: str
) -> None:
    assert transformed(source, destination, subject) == stored


@pytest.mark.parametrize(("source", "destination", "text"), REFUSED)
def test_bad_transforms_are_refused_with_the_text_of_nats_server(
    source: str, destination: str, text: str
) -> None:
    """decisions.md: the released texts."""
    with pytest.raises(TransformError) as caught:
        SubjectTransform(source.encode(), destination.encode(), lambda _: 0)

    assert caught.value.wire_text == text


@pytest.mark.parametrize(
    ("source", "destination", "message"),
    [
        ("a.*", "b.$2", r"token 2 \('\$2'\): wildcard 2 is out of range; source 'a.\*' has 1"),
        ("a", "b.$1", r"token 2 .*source 'a' has no wildcard to take a token from"),
        (
            "a.*",
            "x.y.{{left(1)}}",
            r"token 3 .*expected left\(n, length\), with 2 arguments; got 1",
        ),
        ("a.*", "{{partition(x,1)}}", r"token 1 .*expected partition\(.*'x' is not an integer"),
        ("a.*", "b.{{foo(1)}}", r"token 2 .*unknown function; expected one of wildcard\(n\)"),
        ("a.*", "b..c", r"token 2 \(''\): expected a token that is not empty"),
        ("a.>", "b.>.c", r"token 3 \('c'\): expected nothing after '>'"),
        ("a.*", "b.*", r"token 2 .*expected a placeholder such as \$1 instead of '\*'"),
        ("a.*", "b c.$1", r"token 1 .*expected a token without blanks"),
        ("a.>", "b", r"source 'a.>' and destination must both end in '>', or neither"),
        ("a.*", "b.>", r"must both end in '>', or neither"),
        ("a..b", "c", r"bad transform source 'a..b': expected tokens separated by dots"),
        ("a b", "c", r"bad transform source 'a b'"),
        ("a", "", r"bad transform destination: it is empty"),
    ],
)
def test_an_error_names_the_place_and_what_was_expected(
    source: str, destination: str, message: str
) -> None:
    with pytest.raises(TransformError, match=message):
        SubjectTransform(source.encode(), destination.encode())


def test_an_error_travels_between_processes() -> None:
    """Errors pickle."""
    error = TransformError("what went wrong", "how the server says it")
    copied = pickle.loads(pickle.dumps(error))

    assert (str(copied), copied.wire_text) == ("what went wrong", "how the server says it")


@pytest.mark.parametrize(
    ("subject", "stored"), [("in.--a", "d.a"), ("in.a--", "d.a"), ("in.--", "in.--")]
)
def test_no_transform_makes_an_empty_token(subject: str, stored: str) -> None:
    """nats-server stores ``d..a`` and ``d.`` here, which no one can subscribe to."""
    assert transformed("in.*", "d.{{split(1,-)}}", subject) == stored


@pytest.mark.parametrize("subject", ["a", "a..b", "in", "in.a.b", "out.a", "in.*", "in.>"])
def test_a_subject_that_does_not_match_is_left_alone(subject: str) -> None:
    assert SubjectTransform(b"in.*", b"d.$1").apply(subject.encode()) is None


def test_everything_to_everything_changes_nothing() -> None:
    assert SubjectTransform(b">", b">").apply(b"a..b") == b"a..b"


def test_random_uses_the_source_it_was_given() -> None:
    asked: list[int] = []

    def below(count: int) -> int:
        asked.append(count)
        return count - 1

    transform = SubjectTransform(b"in.*", b"d.{{random(10)}}.{{random(-3)}}", below)

    assert transform.apply(b"in.x") == b"d.9.2"
    assert asked == [10, 3]


def test_random_without_a_source_is_refused() -> None:
    with pytest.raises(TransformError, match=r"random\(\) is not available here"):
        SubjectTransform(b"in.*", b"d.{{random(10)}}")


def test_bytes_that_are_not_utf8_pass_through() -> None:
    transform = SubjectTransform(b"in.*.*", b"\xff.$2.{{split(1,)}}")

    assert transform.apply(b"in.\xfea.\xfd") == b"\xff.\xfd.\xfe.a"


@pytest.mark.parametrize(
    ("data", "value"),
    [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)],
)
def test_the_hash_is_fnv1a(data: bytes, value: int) -> None:
    """Published test vectors of the function."""
    assert fnv1a_32(data) == value
