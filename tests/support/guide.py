"""Runs the examples of a guide page, in order, where ``await`` is allowed."""

import ast
import contextlib
import io
import re
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
ANY_URL = "nats://127.0.0.1:4222"


async def run_page(page: Path, url: str) -> int:
    """Execute every Python block; a text block after one is what it must have printed.

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
