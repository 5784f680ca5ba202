"""Every option of the Spark formats is documented, and has a test of the format that has it.

The options are those that the formats accept: a new one fails here until both exist. Whether these
tests notice an option that is ignored is shown by ``tests/campaigns/spark/options.py``.
"""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("pyspark")

from tests.support.spark_formats import FORMATS, PARSERS

import jetspark.spark
from jetspark.spark.kv import options as kv_options
from jetspark.spark.objects import options as object_options
from jetspark.spark.option_reader import Use
from jetspark.spark.stream import option_names

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs/spark.md").read_text()
KAFKA: Final = (ROOT / "docs/spark-from-kafka.md").read_text()

CASES: Final = [
    pytest.param(name, use, option, id=f"{name}-{use}-{option}")
    for name, format_ in FORMATS.items()
    for use, options in format_.uses.items()
    for option in options
]


def section(heading: str) -> str:
    """Return the text below a heading of the page, with that of lower headings."""
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


def names_in(file: Path) -> Iterator[str]:
    """Yield what the tests of a file name: texts, keys, and keyword arguments."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
            yield node.value.replace("_", ".")  # nats_tls: no keyword argument has a dot
        elif isinstance(node, ast.keyword) and node.arg is not None:
            yield node.arg


def named_in(places: tuple[str, ...]) -> set[str]:
    """Return every name that the tests in these files and folders use."""
    files: list[Path] = []
    for place in places:
        path = ROOT / place
        files += [path] if path.is_file() else sorted(path.rglob("test_*.py"))
    files = [file for file in files if file.name not in PARSERS]
    assert files
    return {name for file in files for name in names_in(file)}


TESTED: Final = {name: named_in(format_.tests) for name, format_ in FORMATS.items()}


@pytest.mark.parametrize(("name", "use", "option"), CASES)
def test_every_option_is_documented_and_tested(name: str, use: Use, option: str) -> None:
    documented = "".join(map(section, FORMATS[name].sections))

    assert f"`{option}`" in documented, f"docs/spark.md, {FORMATS[name].sections}: no {option}"
    assert option in TESTED[name], f"{FORMATS[name].tests}: no test of {option} ({use})"


def test_no_format_has_options_that_are_not_listed_here() -> None:
    known = [option_names.OPTIONS, kv_options._OPTIONS, object_options._OPTIONS]
    found = []
    for module in pkgutil.walk_packages(jetspark.spark.__path__, "jetspark.spark."):
        if ".template" in module.name:
            continue
        for value in vars(importlib.import_module(module.name)).values():
            is_table = (
                isinstance(value, Mapping) and value and all(isinstance(key, Use) for key in value)
            )
            if is_table and set(value) != {Use.CALL} and value not in found:
                found.append(value)

    assert len(found) == len(known)
    assert all(table in known for table in found)


@pytest.mark.parametrize("option", FORMATS["jetstream"].uses[Use.READ_STREAM])
def test_the_page_for_users_of_kafka_names_every_option_of_a_stream(option: str) -> None:
    assert f"`{option}`" in KAFKA


@pytest.mark.parametrize("option", [*option_names.KAFKA_OPTIONS, *option_names.KAFKA_SINK_OPTIONS])
def test_the_page_for_users_of_kafka_names_what_is_refused(option: str) -> None:
    # Groups of options share a row: `fetchOffset.*`.
    names = (option, f"{option.partition('.')[0]}.*")
    assert any(f"`{name}" in KAFKA.lower() for name in names)
