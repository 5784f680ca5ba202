"""A Python console whose statements may await: they run on the loop of the connection.

The loop has a thread of its own, so that the connection lives while the user types.
"""

import ast
import asyncio
import code
import inspect
import sys
import threading
import traceback
import types
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

import click

import jetspark
from jetspark.cli.connection import ConnectionSettings
from jetspark.cli.exit_codes import FAILED
from jetspark.cli.refusals import plain_errors
from jetspark.client.client import Client, connect


def run_shell(settings: ConnectionSettings, source: str | None) -> None:
    """Connect, and run a program or ask for statements."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="jetspark loop", daemon=True)
    thread.start()
    try:
        with plain_errors():
            client = _on(loop, _connected(settings))
        try:
            _run(loop, client, settings, source)
        finally:
            _on(loop, client.close())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> Any:
    """Run something on the loop; an interrupt cancels it."""
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        raise


async def _connected(settings: ConnectionSettings) -> Client:
    return await connect(settings.server, **settings.arguments())


def _run(
    loop: asyncio.AbstractEventLoop, client: Client, settings: ConnectionSettings,
    source: str | None,
) -> None:  # fmt: skip
    names = {name: getattr(jetspark, name) for name in jetspark.__all__}
    names |= {
        "__name__": "__console__",
        "asyncio": asyncio,
        "jetspark": jetspark,
        "nc": client,
        "js": client.jetstream(
            domain=settings.js_domain or "", prefix=settings.js_api_prefix or "",
            timeout=settings.timeout,
        ),
    }  # fmt: skip
    console = Console(loop, names)
    if source is None and not sys.stdin.isatty():
        source = sys.stdin.read()
    if source is not None:
        if not console.run_program(source):
            sys.exit(FAILED)
        return
    with suppress(ImportError):
        import readline  # noqa: F401 - editing and history of what is typed
    click.echo(
        f"jetspark {jetspark.__version__}, connected to {client.connected_server}: nc is the "
        "connection, js its JetStream; await works. Ctrl-D ends."
    )
    console.interact(banner="", exitmsg="")


class Console(code.InteractiveConsole):
    """Python's console, for statements with await."""

    def __init__(self, loop: asyncio.AbstractEventLoop, names: dict[str, Any]) -> None:
        super().__init__(names)
        self._loop: Final = loop
        self._failed = False
        self.compile.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

    def run_program(self, source: str) -> bool:
        """Run a whole program; returns whether it ended without an exception."""
        try:
            compiled = compile(source, "<shell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except (SyntaxError, ValueError, OverflowError):
            self.showsyntaxerror("<shell>")
            return False
        self.runcode(compiled)
        return not self._failed

    def runcode(self, code: types.CodeType) -> None:
        """Run a statement on the loop, where the connection is."""
        try:
            ended = _on(self._loop, self._run(code))
        except KeyboardInterrupt:
            self.write("\nKeyboardInterrupt\n")
            return
        except BaseException as error:  # noqa: BLE001 - the next statement may follow
            self._failed = True
            self._show(error, code.co_filename)
            return
        if ended is not None:
            raise ended

    def _show(self, error: BaseException, file: str) -> None:
        """Show an exception from the statement on, without the frames that have run it."""
        found = error.__traceback__
        while found is not None and found.tb_frame.f_code.co_filename != file:
            found = found.tb_next
        error = error.with_traceback(found)
        # What `pdb.pm()` looks at.
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, found
        self.write("".join(traceback.format_exception(error)))

    async def _run(self, code: types.CodeType) -> SystemExit | None:
        """Run a statement; an exit is returned: raised here, it would end the loop."""
        try:
            found = types.FunctionType(code, self.locals)()
            if inspect.isawaitable(found):
                await found
        except SystemExit as ended:
            return ended
        return None
