"""Runs the examples of a guide page, in order, where ``await`` is allowed."""

import ast
import asyncio
import contextlib
import io
import os
import re
import sys
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
ANY_URL = "nats://127.0.0.1:4222"
# A line of a page that stands for any lines of output.
ANYTHING = "..."


async def run_page(page: Path, url: str, *, console: bool = False) -> int:
    """Execute every Python block; a text block after one is what it must have printed.

    With ``console`` the commands of console blocks run as well, in the current folder; what
    follows a command is its output, in which a line of three dots stands for any lines.

    Returns how many blocks were executed.
    """
    names: dict[str, Any] = {"__name__": "guide"}
    printed = ""
    count = 0
    for match in FENCE.finditer(page.read_text(encoding="utf-8")):
        language, block = match[1], match[2]
        if language == "text":
            message = f"{page.name}: the block before this one printed {printed!r}, not {block!r}"
            assert printed == block, message
            continue
        if language == "console" and console:
            count += 1
            await run_commands(block, url)
            continue
        if language != "python":
            continue
        count += 1
        code = compile(
            block.replace(ANY_URL, url), page.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        )
        with contextlib.redirect_stdout(io.StringIO()) as output:
            result = eval(code, names)
            if result is not None:
                await result
        printed = output.getvalue()
    return count


async def run_commands(block: str, url: str) -> None:
    """Run the commands of a console block, and compare what each prints."""
    environment = os.environ | {
        "NATS_URL": url,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    for entry in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = entry.splitlines(keepends=True)
        # A command continues after a backslash.
        length = next(n for n, line in enumerate(lines, 1) if not line.endswith("\\\n"))
        command, expected = "".join(lines[:length]), "".join(lines[length:])
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", command.replace(ANY_URL, url), env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        output = (await process.communicate())[0].decode()
        assert process.returncode == 0, f"{command}: {output}"
        pattern = re.escape(expected).replace(re.escape(f"{ANYTHING}\n"), "(?:.*\n)*")
        # Only what is shown is compared: a page may leave out the output.
        assert not expected or re.fullmatch(pattern, output), f"{command}: {output}"
