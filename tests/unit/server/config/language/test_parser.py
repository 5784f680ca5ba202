"""The configuration language: what a text means and where its mistakes are."""

from datetime import UTC, datetime
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.server.config.language.digest import _number, config_digest
from jetspark.server.config.language.parser import NESTING_MAX, parse_file, parse_text
from jetspark.server.config.language.problem import ConfigRefused
from jetspark.server.config.language.tree import Node, Value

MAIN: Final = "etc/main.conf"


def plain(value: Value) -> object:
    """A tree without its places."""
    match value:
        case dict():
            return {key: plain(node.value) for key, node in value.items()}
        case list():
            return [plain(node.value) for node in value]
        case _:
            return value


def parse(text: str, environment: dict[str, str] | None = None) -> dict[str, object]:
    tree = parse_text(text, "a.conf", environment or {}, read_nothing)
    return {key: plain(node.value) for key, node in tree.items()}


def read_nothing(path: str) -> bytes:
    raise FileNotFoundError(2, "No such file or directory", path)


def parse_files(files: dict[str, str], environment: dict[str, str] | None = None) -> object:
    def read(path: str) -> bytes:
        if path not in files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return files[path].encode()

    return plain(parse_file(MAIN, environment or {}, read))


def problem(text: str, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigRefused) as refused:
        parse(text, environment)
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("abc", "abc"),
        ("a:b=c#d", "a:b=c#d"),
        ("'it \\t is'", "it \\t is"),
        ('"a\\tb\\n\\r\\"\\\\"', 'a\tb\n\r"\\'),
        ('"\\x41\\xc3\\xa9"', "A\u00e9"),
        ("a\\tb", "a\tb"),
        ("(\none\n) two\n)\n", "\none\n) two\n"),
        ("", ""),
        ("12", 12),
        ("-12", -12),
        ("8k", 8000),
        ("8kb", 8192),
        ("8Ki", 8192),
        ("8KIB", 8192),
        ("2m", 2_000_000),
        ("2mb", 2 << 20),
        ("3g", 3_000_000_000),
        ("3GiB", 3 << 30),
        ("4t", 4 * 10**12),
        ("4tb", 4 << 40),
        ("5p", 5 * 10**15),
        ("5pib", 5 << 50),
        ("1e", 10**18),
        ("1eb", 1 << 60),
        ("-1k", -1000),
        ("1.5", 1.5),
        ("-0.25", -0.25),
        ("100ms", "100ms"),
        ("2m30s", "2m30s"),
        ("1k5", "1k5"),
        ("1_000", "1_000"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1:4222", "127.0.0.1:4222"),
        ("2020-01-02T03:04:05Z", datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("true", True),
        ("YES", True),
        ("on", True),
        ("False", False),
        ("no", False),
        ("off", False),
        ('"true"', "true"),
        ("[]", []),
        ("[a, 1 ,true]", ["a", 1, True]),
        ("[1]", [1]),
        ("[\n a # one\n b // two\n]", ["a", "b"]),
        ("[[a], {b: c}]", [["a"], {"b": "c"}]),
        ("{}", {}),
        ("{ a: 1, b = 2; c 3\n d\n4 }", {"a": 1, "b": 2, "c": 3, "d": 4}),
        ("{ 'a b': c }", {"a b": "c"}),
        ("$2a$11$abc/def.", "$2a$11$abc/def."),
    ],
)
def test_a_value_is_read_as_nats_server_reads_it(text: str, value: object) -> None:
    found = parse(f"key: {text}")["key"]

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text",
    ["a: 1\nb: 2", "a = 1\nb 2", "a 1, b 2", "a:1;b:2;", '{"a": 1, "b": 2}', "{ a: 1\n b: 2\n",
     "{{ a: 1 }, b: 2}", "# c\na: 1 // d\n'b': 2 # e", "a: 1\nb: 2\n}", "a\n1\nb\n\n2",
     "a: 0\nb: 2\na: 1"],
)  # fmt: skip
def test_settings_may_be_laid_out_in_many_ways(text: str) -> None:
    assert parse(text) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2 3\n", 2, "got '3'"),
        ("a: 1\nb\n", 3, "the key 'b' has no value"),
        ("a:\n1", 1, "got the end of the line"),
        ("\n= 1", 2, "expected a key"),
        ("\n/x: 1", 2, "got '/'"),
        ("a {\n b: 1\n", 3, "the block that starts in line 1 has no '}'"),
        ("a {\n b\n}", 3, "the key 'b' has no value"),
        ("a {\n b:,\n}", 2, "the key 'b' has no value"),
        ("a {\n]", 2, "expected a key or '}'"),
        ("a {\n b: 1 2\n}", 2, "got '2'"),
        ("a [\n1,\n", 3, "the list that starts in line 1 has no ']'"),
        ("a [\n1,,2]", 2, "got ','"),
        ("a [\n/x]", 2, "quote paths"),
        ("a [1}", 1, "got '}'"),
        ("\n\na: 'x\n\n", 3, "no closing '"),
        ('\na: "x\n\n', 2, 'no closing "'),
        ("\n'a: 1\n", 2, "no closing '"),
        ("\na: (\nx\n", 2, "no ')' on a line of its own"),
        ('a: "\\q"', 1, "bad escape '\\q'"),
        ('a: "\\x4z"', 1, "two hexadecimal digits"),
        ('a: "\\xff"', 1, "not UTF-8"),
        ("a: .5", 1, "starts with a digit"),
        ("a: 5.", 1, "expected a digit after '.'"),
        ("a: -x", 1, "expected a digit after '-'"),
        ("a: 12-3", 1, "is a date"),
        ("a: 2020-13-01T00:00:00Z", 1, "is not a valid date"),
        ("a: 1kbb", 1, "unknown suffix"),
        ("a: 9223372036854775808", 1, "out of the range"),
        ("a: 10e", 1, "out of the range"),
        (f"a: {'9' * 400}.5", 1, "out of the range"),
        ("a: \u0663", 1, "expected the digits 0 to 9"),
        ("a: $b\nb: 1", 1, "variable 'b' is unknown"),
        ("include\n", 1, "expected a file name"),
        ("include [a]", 1, "expected a file name"),
        ("include 'a", 1, "no closing '"),
        ("\ninclude b.conf", 2, "cannot include 'b.conf' (b.conf): No such file"),
        (f"a: {'[' * (NESTING_MAX + 1)}", 1, "nested more than"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, line: int, words: str) -> None:
    found = problem(text)

    assert found.startswith(f"a.conf:{line}: ")
    assert words in found


def test_a_value_remembers_the_line_of_its_key() -> None:
    tree = parse_text("\na\n\n  [\n x,\n y]\n", "a.conf", {}, read_nothing)
    elements = tree["a"].value

    assert isinstance(elements, list)
    assert [tree["a"].place.line, *(node.place.line for node in elements)] == [2, 5, 6]


def test_variables_are_keys_of_the_blocks_around() -> None:
    text = "x: 1\na { y: 2, b { z: 3, all: [$x, $y, $z] } }\ny: $x"

    assert parse(text) == {
        "x": 1,
        "a": {"y": 2, "b": {"z": 3, "all": [1, 2, 3]}},
        "y": 1,
    }


def test_a_variable_of_a_closed_block_is_not_known() -> None:
    assert "variable 'y' is unknown" in problem("a { y: 2 }\nb: $y")


def test_a_variable_that_was_taken_is_marked() -> None:
    """nats-server: keys that are no settings are allowed when a ``$NAME`` takes them."""
    tree = parse_text("x: 1\ny: 2\nport: $x", "a.conf", {}, read_nothing)

    assert [tree["x"].used, tree["y"].used] == [True, False]


@pytest.mark.parametrize(
    ("text", "value"),
    [("4222", 4222), ("'a b'", "a b"), ("{ b: [1 , 2] }", {"b": [1, 2]}), ("", ""), ("$X", 7)],
)
def test_the_environment_is_read_as_configuration(text: str, value: object) -> None:
    assert parse("a: $NAME", {"NAME": text, "X": "7"}) == {"a": value}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("$NAME", "the environment variable 'NAME' refers to itself"),
        ("$OTHER", "the environment variable 'NAME' refers to itself"),
        ("a b", "the environment variable 'NAME' is not a value of this language"),
        ("$NOBODY", "variable 'NOBODY' is unknown"),
    ],
)
def test_a_bad_environment_is_named_where_it_was_asked_for(text: str, words: str) -> None:
    found = problem("\na: $NAME", {"NAME": text, "OTHER": "$NAME"})

    assert found.startswith("a.conf:2: ")
    assert words in found


def test_keys_win_over_the_environment() -> None:
    assert parse("NAME: 1\na: $NAME", {"NAME": "2"})["a"] == 1


def test_includes_are_relative_to_the_file_that_names_them() -> None:
    files = {
        MAIN: "include sub/one.conf\na { include 'sub/two.conf', y: 3 }",
        "etc/sub/one.conf": 'include "more.conf"\nx: 1',
        "etc/sub/more.conf": "w: 0",
        "etc/sub/two.conf": "x: 2",
    }

    assert parse_files(files) == {"w": 0, "x": 1, "a": {"x": 2, "y": 3}}


def test_an_absolute_include_is_relative_too() -> None:
    """As nats-server joins paths."""
    assert parse_files({MAIN: "include /one.conf", "etc/one.conf": "x: 1"}) == {"x": 1}


def test_variables_come_out_of_an_include_and_do_not_go_in() -> None:
    assert parse_files({MAIN: "include one.conf\ny: $x", "etc/one.conf": "x: 1"}) == {
        "x": 1,
        "y": 1,
    }
    with pytest.raises(ConfigRefused, match=r"^etc/one.conf:1: variable 'x' is unknown"):
        parse_files({MAIN: "x: 1\ninclude one.conf", "etc/one.conf": "y: $x"})


@pytest.mark.parametrize(
    "files",
    [
        {MAIN: "x: 1\ninclude main.conf"},
        {MAIN: "include one.conf", "etc/one.conf": "\ninclude ./sub/../main.conf"},
    ],
    ids=["itself", "circle"],
)
def test_a_circle_of_includes_is_refused(files: dict[str, str]) -> None:
    """nats-server follows it until its stack is full."""
    with pytest.raises(ConfigRefused, match=r"^etc/\w+\.conf:2: the file includes itself"):
        parse_files(files)


def test_includes_that_never_end_are_refused() -> None:
    """A symbolic link can make a circle that no path shows."""

    def read(path: str) -> bytes:
        return f"include x/{path.count('x')}.conf".encode()

    with pytest.raises(ConfigRefused, match="includes are nested more than"):
        parse_file("a.conf", {}, read)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a: 1\nb: \xff", "bad.conf:2: the file is not UTF-8"),
        (b"\na: \0", "bad.conf:2: the file"),
    ],
)
def test_a_file_that_is_no_text_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ConfigRefused, match=words):
        parse_file("bad.conf", {}, lambda _path: data)


def test_a_deep_but_legal_file_is_read() -> None:
    depth = NESTING_MAX
    assert "a" in parse("a: " + "[" * depth + "]" * depth)


@given(st.text(st.sampled_from("ab1-.:=,;{}[]()#/'\"\\$\n\t kmx"), max_size=40))
def test_any_text_is_read_or_refused_with_a_line(text: str) -> None:
    try:
        tree = parse_text(text, "a.conf", {}, read_nothing)
    except ConfigRefused as error:
        (found,) = error.problems
        assert 1 <= found.line <= text.count("\n") + 1
    else:
        assert all(isinstance(node, Node) for node in tree.values())


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        ("port: 1\n", "5b27b68e52c25859a76c94f378c31d5a499ca677a46b38fb5f58ded229b59650"),
        ("host: a#b", "d0580894b9c821089e4af6660f3710d17ee80021729a00d952d3ab671b3c48f3"),
        ("tls {}", "95df13b78f4693a772a4f71682e038eaa354156e9748518c69c325de14b71b90"),
    ],
)
def test_the_digest_is_nats_servers(text: str, digest: str) -> None:
    """Texts and digests as nats-server 2.15.1 printed them; test_config_verdicts asks it again."""
    assert config_digest(parse_text(text, "a", {}, read_nothing)) == f"sha256:{digest}"


@pytest.mark.parametrize(
    ("number", "shown"),
    [("1.50", "1.5"), ("2.0", "2"), ("0.000001", "0.000001"), ("0.00000012", "1.2e-7"),
     ("123456789012345678901.0", "123456789012345680000"), (f"1{'0' * 21}.0", "1e+21")],
)  # fmt: skip
def test_numbers_of_a_digest_are_written_as_go_does(number: str, shown: str) -> None:
    assert _number(float(number)) == shown
