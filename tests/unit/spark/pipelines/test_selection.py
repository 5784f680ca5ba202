"""`--refresh` and `--full-refresh`: what a run updates, and what starts over."""

from pathlib import Path

import pytest

pytest.importorskip("yaml")

from jetspark.spark.pipelines.project import PipelineRefused, Project, find_project, load_project
from jetspark.spark.pipelines.selection import select
from jetspark.spark.pipelines.template import write_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return load_project(find_project(write_project("shop", tmp_path)))


def test_without_names_everything_is_updated(project: Project) -> None:
    everything = select(project, (), (), everything=False)

    assert everything.includes("orders")
    assert everything.continues("orders")


def test_only_what_is_named_is_updated_however_it_is_spelled(project: Project) -> None:
    names = ("`spark_catalog`.default.Orders",)
    chosen = select(project, names, ("refused",), everything=False)

    assert [chosen.includes(name) for name in ("orders", "refused", "totals")] == [
        True,
        True,
        False,
    ]
    assert [chosen.empties(name) for name in ("orders", "refused", "totals")] == [
        False,
        True,
        False,
    ]
    assert [name for name in ("orders", "refused", "totals") if chosen.continues(name)] == [
        "orders"
    ]


def test_a_name_that_the_project_does_not_define_is_refused_with_those_that_it_does(
    project: Project,
) -> None:
    chosen = select(project, ("order",), (), everything=False)

    with pytest.raises(PipelineRefused, match=r"'order'.*expected one of orders, refused"):
        chosen.check(["refused", "orders"])


def test_everything_excludes_names(project: Project) -> None:
    with pytest.raises(PipelineRefused, match="excludes"):
        select(project, ("orders",), (), everything=True)


def test_a_sink_is_refused_where_the_runner_would_leave_it_alone(project: Project) -> None:
    for refresh, full in ((("Totals",), ()), (("orders",), ("totals",))):
        with pytest.raises(PipelineRefused, match=r"'totals', which is a sink: .* --continuous"):
            select(project, refresh, full, everything=False).check_sink("totals")
    select(project, ("orders",), (), everything=False).check_sink("totals")
    select(project, (), (), everything=True).check_sink("totals")
