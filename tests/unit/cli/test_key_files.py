"""Options that name a file with a key or credentials, given the contents of one."""

import pytest
from click.testing import CliRunner

from jetspark.cli.main import main

PEM = f"-----BEGIN PRIVATE KEY-----\n{'hidden' * 60}\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    "option", ["--creds", "--nkey", "--tlsca", "--tlscert", "--tlskey"], ids=str
)
@pytest.mark.parametrize("given", [PEM, "eyJ0eXAi.hidden", "SUA" + "HIDDEN" * 9, "hidden\0"])
def test_the_contents_of_a_file_in_place_of_its_path_are_not_repeated(
    option: str, given: str
) -> None:
    done = CliRunner().invoke(main, ["stream", "ls", option, given])

    assert done.exit_code == 2
    assert "expected the path of a file; this (not shown) is no path" in done.output
    assert "hidden" not in done.output.lower()


def test_nor_are_those_of_a_variable_that_should_have_the_path() -> None:
    done = CliRunner().invoke(main, ["stream", "ls"], env={"NATS_CREDS": PEM})

    assert done.exit_code == 2
    assert "'NATS_CREDS'" in done.output
    assert "hidden" not in done.output


def test_a_path_that_does_not_exist_is_shown() -> None:
    done = CliRunner().invoke(main, ["stream", "ls", "--creds", "/nowhere/user.creds"])

    assert "File '/nowhere/user.creds' does not exist" in done.output
