"""`jetspark events` on our server and on nats-server."""

import json
import re
import signal
from collections.abc import Callable

from tests.support.command_line import CommandLine, Process
from tests.support.servers import ServerProcess


def test_events_are_shown_as_they_happen(
    cli: CommandLine, server: ServerProcess, name: str
) -> None:
    words = ("events", "--js-advisory", "--filter", f"stream_action.*{name}", "--count", "2")
    with (
        Process(*words, "--ndjson", url=server.url) as lines,
        Process(*words, "--short", url=server.url) as short,
        Process("events", "--filter", f"stream_action.*{name}", url=server.url) as endless,
    ):
        for one in (lines, short, endless):
            one.wait_for("Listening")
        cli.ok("stream", "add", name, "--subjects", name)
        cli.ok("stream", "rm", name, "--force")
        ended = [lines.finish(), short.finish()]
        out = endless.process.stdout
        assert out is not None
        until = ""
        while until.count("Stream Action") < 2:
            until += out.readline()
        interrupted = endless.finish(signal.SIGINT)

    assert (ended, interrupted) == ([0, 0], 0)
    actions = [json.loads(line) for line in lines.output.splitlines()]
    assert [one["action"] for one in actions] == ["create", "delete"]
    assert {one["stream"] for one in actions} == {name}
    first, second = short.output.splitlines()
    assert re.match(rf"\[\d.*Z\] \[\w+\] Stream Action: stream={name}, action=create", first)
    assert "action=delete" in second


def test_connections_are_events_of_the_system_account(
    nats_server: Callable[[str], ServerProcess],
) -> None:
    config = "accounts { $SYS { users: [{user: admin, password: secret}] }, A { users: [{user: a, password: b}] } }"  # noqa: E501
    url = nats_server(config).url
    # Not the connection of the command itself, which may be reported after "Listening".
    pattern = 'client_connect".*"acc": ?"A"'
    words = ("events", "--filter", pattern, "--count", "1", "--ndjson", "--user", "admin")
    with Process(*words, "--password", "secret", url=url) as running:
        running.wait_for("Listening")
        CommandLine(url).ok("rtt", "1", "--user", "a", "--password", "b")
        ended = running.finish()

    assert ended == 0
    assert json.loads(running.output)["client"]["acc"] == "A"


def test_an_expression_that_is_none_is_refused(cli: CommandLine) -> None:
    assert "--filter" in cli.fails(2, "events", "--filter", "(")
