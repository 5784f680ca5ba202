"""The command line on our server and on nats-server."""

import pytest
from tests.support.command_line import CommandLine
from tests.support.servers import ServerProcess


@pytest.fixture
def cli(server: ServerProcess) -> CommandLine:
    """Commands for the server of this run."""
    return CommandLine(server.url)
