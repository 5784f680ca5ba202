"""The building blocks of the command line: groups with aliases, commands that load late.

A command is declared with its options and its help, and names the function that does the work as
`module:function`. The module is imported when the command runs: help and completion load neither
the client nor anything else that takes time. `tests/unit/cli/test_commands.py` compares the
options of every command with the arguments of its function.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click

from jetspark.cli.connection import CONNECTION_OPTIONS, ConnectionOption, settings_of
from jetspark.cli.output import Form, Output

Declared = Callable[[], None]
HELP_NAMES: Final = {"help_option_names": ["-h", "--help"]}


class Command(click.Command):
    """A command whose work is in a function that is imported when it runs."""

    def __init__(
        self, *args: Any, aliases: Sequence[str] = (), target: str = "", **attributes: Any
    ) -> None:
        super().__init__(*args, **attributes)
        self.aliases: Final = tuple(aliases)
        self.target: Final = target

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the command's own options; those of the connection are on the root's page."""
        own, connection = [], False
        for param in self.get_params(ctx):
            if isinstance(param, ConnectionOption):
                connection = True
            elif isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                own.append(record)
        if own:
            with formatter.section("Options"):
                formatter.write_dl(own)
        if self.aliases:
            formatter.write_paragraph()
            formatter.write_text(f"Also called: {', '.join(self.aliases)}.")
        if connection:
            formatter.write_paragraph()
            formatter.write_text(
                "Connection: --server, --context, --user, --creds and the others of "
                "`jetspark --help`, here or before the command."
            )


class Group(click.Group):
    """A group whose commands have aliases, and that suggests a name for a mistyped one."""

    command_class: type[click.Command] | None = Command

    def __init__(
        self,
        *args: Any,
        aliases: Sequence[str] = (),
        failure: int | None = None,
        **attributes: Any,
    ) -> None:
        """``failure`` is the exit code of all errors below it, instead of click's."""
        attributes.setdefault("context_settings", HELP_NAMES)
        super().__init__(*args, **attributes)
        self.aliases: Final = tuple(aliases)
        self._failure = failure
        self._names: dict[str, str] = {}

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the options of the group."""
        with self._exit_code():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command of the group."""
        with self._exit_code():
            return super().invoke(ctx)

    @contextmanager
    def _exit_code(self) -> Iterator[None]:
        try:
            yield
        except click.ClickException as error:
            if self._failure is not None:
                error.exit_code = self._failure  # type: ignore[misc]  # click reads the instance
            raise

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Register a command and its aliases."""
        super().add_command(cmd, name)
        for alias in getattr(cmd, "aliases", ()):
            self._names[alias] = name or cmd.name or ""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by its name or an alias."""
        return super().get_command(ctx, self._names.get(cmd_name, cmd_name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with the whole first sentence of their help."""
        listed = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                listed.append((name, command.get_short_help_str(200)))
        if listed:
            with formatter.section("Commands"):
                formatter.write_dl(listed)

    def names(self, ctx: click.Context) -> dict[str, str]:
        """Every name that is understood, with the command it means."""
        return {**{name: name for name in self.list_commands(ctx)}, **self._names}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; for a mistyped one, suggest what was meant."""
        name = self._names.get(args[0], args[0])
        if not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            refuse_unknown(ctx, name, self.names(ctx))
        return super().resolve_command(ctx, [name, *args[1:]])

    def remote(
        self, name: str, target: str, *, aliases: Sequence[str] = (), endless: bool = False
    ) -> Callable[[Declared], Command]:
        """Add a command that is a client; see `remote_command`."""

        def declare(described: Declared) -> Command:
            command = remote_command(name, target, aliases=aliases, endless=endless)(described)
            self.add_command(command)
            return command

        return declare

    def local(
        self, name: str, target: str, *, aliases: Sequence[str] = ()
    ) -> Callable[[Declared], Command]:
        """Add a command that needs no server; see `local_command`."""

        def declare(described: Declared) -> Command:
            command = local_command(name, target, aliases=aliases)(described)
            self.add_command(command)
            return command

        return declare


def refuse_unknown(ctx: click.Context, name: str, known: Mapping[str, str]) -> None:
    """Refuse a command that does not exist, and suggest similar ones."""
    from difflib import get_close_matches

    close = list(dict.fromkeys(known[one] for one in get_close_matches(name, known)))
    meant = f" Did you mean {' or '.join(repr(one) for one in close)}?" if close else ""
    listed = f" `{ctx.command_path} --help` lists the commands."
    raise click.UsageError(f"No such command {name!r}.{meant or listed}", ctx)


def remote_command(
    name: str, target: str, *, aliases: Sequence[str] = (), endless: bool = False
) -> Callable[[Declared], Command]:
    """Declare a command that is a client: ``target`` gets a `Session`, and the options by name.

    It gets the options of the connection and of the output. An ``endless`` one runs until it is
    interrupted, and that is success.
    """

    def declare(described: Declared) -> Command:
        def call(**given: Any) -> None:
            output = _output_of(given)
            settings = settings_of(given)
            from jetspark.cli.session import run_session

            run_session(target, settings, output, given, endless=endless)

        params = [*_declared(described), *_OUTPUT, *CONNECTION_OPTIONS]
        return _command(described, name, call, params, aliases, target)

    return declare


def local_command(
    name: str, target: str, *, aliases: Sequence[str] = ()
) -> Callable[[Declared], Command]:
    """Declare a command that needs no server: ``target`` gets the `Output` and the options."""

    def declare(described: Declared) -> Command:
        def call(**given: Any) -> None:
            output = _output_of(given)
            resolve(target)(output, **given)

        params = [*_declared(described), *_OUTPUT]
        return _command(described, name, call, params, aliases, target)

    return declare


def resolve(target: str) -> Callable[..., Any]:
    """Import the function `module:function`."""
    import gc
    from importlib import import_module

    # What modules create is no garbage: collections meanwhile take a tenth of the start.
    gc.disable()
    try:
        module, _, name = target.partition(":")
        found: Callable[..., Any] = getattr(import_module(module), name)
    finally:
        gc.enable()
    return found


def _command(
    described: Declared, name: str, call: Callable[..., None], params: list[click.Parameter],
    aliases: Sequence[str], target: str,
) -> Command:  # fmt: skip
    return Command(
        name, callback=call, params=params, help=inspect.cleandoc(described.__doc__ or ""),
        aliases=aliases, target=target, context_settings=HELP_NAMES,
    )  # fmt: skip


def _declared(described: Declared) -> list[click.Parameter]:
    """The parameters that click's decorators have attached to the function."""
    found: list[click.Parameter] = getattr(described, "__click_params__", [])
    return found[::-1]


_OUTPUT: Final[tuple[click.Parameter, ...]] = (
    click.Option(
        ["-j", "--json", "wants_json"], is_flag=True, help="Print JSON: one document, or an array."
    ),
    click.Option(
        ["--ndjson", "wants_ndjson"], is_flag=True, help="Print JSON: one item per line."
    ),
)


def _output_of(given: dict[str, Any]) -> Output:
    wants_json, wants_ndjson = given.pop("wants_json"), given.pop("wants_ndjson")
    if wants_json and wants_ndjson:
        raise click.UsageError("--json and --ndjson exclude each other: give one of them")
    form: Form = "json" if wants_json else "ndjson" if wants_ndjson else "text"
    return Output(form)
