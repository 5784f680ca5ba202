"""`jetspark shell`: programs, and statements that are typed."""

from collections.abc import Callable

import pytest
from tests.support.command_line import CommandLine, run_on_terminal
from tests.support.servers import ServerProcess


@pytest.fixture
def server(servers: Callable[[str], ServerProcess]) -> ServerProcess:
    """The shell is Python; what it calls is tested on nats-server elsewhere."""
    return servers("jetspark")


def test_a_program_may_await(cli: CommandLine, name: str) -> None:
    program = (
        f"stream = await js.create_stream({name!r}, subjects=[{name!r}])\n"
        f"for n in range(3):\n    await js.publish({name!r}, b'%d' % n)\n"
        "print((await stream.info()).state.messages, StreamConfig.__name__, nc.is_connected)\n"
    )

    assert cli.ok("shell", stdin=program) == "3 StreamConfig True\n"
    assert cli.ok("shell", "-c", f"await js.delete_stream({name!r}); print('gone')") == "gone\n"
    assert cli.ok("shell", "-c", "def f():\n  return 5\nprint(f())") == "5\n"


def test_a_program_that_fails_exits_with_1(cli: CommandLine) -> None:
    assert cli.fails(1, "shell", "-c", "1 / 0") == (
        'Traceback (most recent call last): File "<shell>", line 1, in <module> '
        "ZeroDivisionError: division by zero"
    )
    assert "StreamNotFound" in cli.fails(1, "shell", "-c", "await js.stream('none')")
    assert "SyntaxError" in cli.fails(1, "shell", "-c", "this is no program")
    assert cli.run("shell", "-c", "raise SystemExit(7)").exit_code == 7


def test_statements_are_typed_on_a_terminal(server: ServerProcess) -> None:
    code, shown = run_on_terminal(
        server.url, "shell",
        answers=[
            (">>> ", "info = await js.account_info()\n"),
            ("account_info()", "info.streams >= 0\n"),
            ("True", "1 / 0\n"),
            # Ctrl-D before the next prompt would be lost: the terminal is not in its mode yet.
            ("ZeroDivisionError", "exit()\n"),
        ],
    )  # fmt: skip

    assert code == 0
    assert "nc is the connection" in shown
    assert "\nTrue" in shown
