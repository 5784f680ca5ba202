"""The patterns of pathGlobFilter."""

import pytest

pytest.importorskip("pyspark")

from jetspark.spark.objects.glob import glob_pattern
from jetspark.spark.objects.options import parse_object_options
from jetspark.spark.option_reader import InvalidOptions, Use

NAMES = ("a.png", "b.jpg", "dir/c.png", "d.txt", "e,f", "{x}", "[y]", "-", "]", "new\nline")


@pytest.mark.parametrize(
    ("glob", "matching"),
    [
        ("*", NAMES),
        ("*.png", ("a.png", "dir/c.png")),
        ("*.{png,jpg}", ("a.png", "b.jpg", "dir/c.png")),
        ("{dir/{a,c},d}.*", ("dir/c.png", "d.txt")),
        ("?.png", ("a.png",)),
        ("[ab].*", ("a.png", "b.jpg")),
        ("[a-c].*", ("a.png", "b.jpg")),
        ("[^a-c].*", ("d.txt",)),
        ("[!a-c].*", ("d.txt",)),
        ("e,f", ("e,f",)),
        (r"\{x\}", ("{x}",)),
        (r"\[*", ("[y]",)),
        ("[]-]", ("-", "]")),
        (r"[\]]", ("]",)),
        ("a+png", ()),
    ],
)
def test_a_pattern_selects_names_as_in_spark_s_file_sources(
    glob: str, matching: tuple[str, ...]
) -> None:
    found = glob_pattern(glob)

    assert tuple(name for name in NAMES if found.fullmatch(name)) == matching


@pytest.mark.parametrize(
    ("glob", "problem"),
    [
        ("*.{png,jpg", r"pathGlobFilter '\*\.{png,jpg' has a '{' without '}'"),
        ("[a-", r"has a '\[' without '\]'"),
        ("[]", r"has a '\[' without '\]'"),
        ("a\\", "ends with a backslash"),
        ("[z-a]", "has an invalid set: bad character range"),
        ("", "is empty"),
    ],
)
def test_a_malformed_pattern_is_refused(glob: str, problem: str) -> None:
    options = {"servers": "nats://h", "bucket": "B", "pathGlobFilter": glob}

    with pytest.raises(InvalidOptions, match=problem):
        parse_object_options(options, Use.READ)
