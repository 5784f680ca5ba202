"""Pipeline projects: what is wrong is a line, before Spark starts."""

from pathlib import Path

import pytest

pytest.importorskip("yaml")

from jetspark.spark.pipelines.project import (
    PipelineRefused,
    Project,
    find_project,
    load_project,
    load_resources,
)
from jetspark.spark.pipelines.template import write_project
from jetspark.units import minutes, seconds

SPEC = """
name: shop
storage: file:///data/shop
libraries:
  - glob:
      include: transformations/**
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations/a.sql").write_text("SELECT 1")
    (tmp_path / "spark-pipeline.yml").write_text(SPEC)
    return tmp_path


def load(root: Path, spec: str | None = None) -> Project:
    if spec is not None:
        (root / "spark-pipeline.yml").write_text(spec)
    return load_project(find_project(root))


def test_a_new_project_is_valid_and_knows_its_place(tmp_path: Path) -> None:
    root = write_project("shop", tmp_path)

    project = load_project(find_project(root))

    assert project.name == "shop"
    assert project.storage == root / "storage"
    assert [path.name for path in project.sources()] == ["orders.py", "revenue.sql"]
    assert [stream.name for stream in project.resources.streams] == ["ORDERS", "ALERTS"]
    assert project.resources.streams[1].duplicate_window == minutes(2)
    assert [bucket.history for bucket in project.resources.buckets] == [10, 1]
    assert project.resources.ledger == "LEDGER"
    assert (root / ".gitignore").exists()


def test_a_project_is_never_overwritten(tmp_path: Path) -> None:
    root = write_project("shop", tmp_path)
    (root / "jetspark.yml").write_text("mine")

    with pytest.raises(PipelineRefused, match="already exists"):
        write_project("shop", tmp_path)

    assert (root / "jetspark.yml").read_text() == "mine"


@pytest.mark.parametrize("name", ["", "a/b", "../a", "-x", "a b", "a" * 65, "ä"])
def test_a_name_that_is_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PipelineRefused, match="is not a valid project name"):
        write_project(name, tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_a_project_is_found_from_below_and_by_its_spec(root: Path) -> None:
    assert find_project(root / "transformations") == root / "spark-pipeline.yml"
    assert find_project(root / "spark-pipeline.yml") == root / "spark-pipeline.yml"


def test_that_there_is_no_project_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(PipelineRefused, match="jetspark pipeline init NAME"):
        find_project(tmp_path)
    with pytest.raises(PipelineRefused, match="does not exist"):
        find_project(tmp_path / "missing")


def test_two_specs_are_one_too_many(root: Path) -> None:
    (root / "spark-pipeline.yaml").write_text(SPEC)

    with pytest.raises(PipelineRefused, match="remove one"):
        find_project(root)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("", "expected a mapping"),
        ("- a", "expected a mapping"),
        ("name: [", "not valid YAML"),
        ("storage: file:///x", "'name' is missing"),
        ("name: a", "'storage' is missing"),
        ("name: a\nstorage: storage", "absolute URI"),
        ("name: a\nstorage: s3://x/y", "absolute URI"),
        (SPEC + "colour: red", "unknown field 'colour'"),
        (SPEC + "name: shop2", "duplicate key 'name'"),
        ("name: a\n\tstorage: b", "not valid YAML.*line 2"),
        ("name: \x00", "not valid YAML"),
        (SPEC + "database: a\nschema: b", "give one of them"),
        (SPEC + "catalog: 1", "'catalog' is not a string"),
        (SPEC + "configuration: {spark.a: 1}", "quote it"),
        (SPEC + "configuration: []", "'configuration' is not a mapping"),
        ("name: a\nstorage: file:///x", "matches no file"),
        ("name: a\nstorage: file:///x\nlibraries: [a]", "is not a list such as"),
        (
            "name: a\nstorage: file:///x\nlibraries: [{glob: {include: 'a/**/*.py'}}]",
            "neither a file nor a folder",
        ),
    ],
)
def test_a_mistake_in_the_spec_is_named(root: Path, spec: str, said: str) -> None:
    with pytest.raises(PipelineRefused, match=said) as refused:
        load(root, spec)

    assert str(refused.value).startswith("spark-pipeline.yml: ")
    assert "\n" not in str(refused.value)


def test_a_file_that_is_neither_python_nor_sql_is_named(root: Path) -> None:
    (root / "transformations/notes.txt").write_text("")

    with pytest.raises(PipelineRefused, match=r"notes\.txt, which is neither"):
        load(root)


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        ("tables: {}", "unknown field 'tables'"),
        ("streams: [ORDERS]", "'streams' is not a mapping"),
        ("streams: {ORDERS: 1}", "ORDERS is not a mapping"),
        ("streams: {ORDERS: {colour: red}}", "unknown setting 'colour'"),
        ("streams: {ORDERS: {name: B}}", "unknown setting 'name'"),
        ("streams: {A: {}, B: {}, A: {}}", "duplicate key 'A'"),
        ("streams: {A: {mirror: {name: B, filter: x}}}", "unknown setting 'filter'"),
        ("streams: {A: {sources: [{name: B}, {name: C, start: 1}]}}", "unknown setting 'start'"),
        ("buckets: {B: {republish: {src: a, dest: b, head: true}}}", "unknown setting 'head'"),
        ("streams: {ORDERS: {subjects: 1}}", "Expected `array`"),
        ("streams: {ORDERS: {max_age: soon}}", "ORDERS: "),
        ("buckets: {B: {history: many}}", "Expected `int`"),
        ("ledger: L", "not among the buckets"),
    ],
)
def test_a_mistake_in_the_resources_is_named(tmp_path: Path, resources: str, said: str) -> None:
    path = tmp_path / "jetspark.yml"
    path.write_text(resources)

    with pytest.raises(PipelineRefused, match=said):
        load_resources(path)


def test_a_project_without_resources_needs_none(root: Path) -> None:
    assert load(root).resources.streams == ()


def test_times_are_texts_and_what_is_shared_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "jetspark.yml"
    path.write_text(
        "streams:\n"
        "  A: &both {max_age: 1h, allow_direct: true}\n"
        "  B: {<<: *both, max_age: 2m}\n"
        "buckets: {C: {ttl: 1m, limit_marker_ttl: 5s}}\n"
    )

    found = load_resources(path)

    assert [one.max_age for one in found.streams] == [minutes(60), minutes(2)]
    assert all(one.allow_direct for one in found.streams)
    assert found.buckets[0].limit_marker_ttl == seconds(5)
