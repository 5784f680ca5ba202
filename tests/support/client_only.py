"""A Python that has what ``pip install jetspark`` installs, and nothing else."""

import json
import subprocess
import sys
import textwrap
from typing import Any

# What the base install brings. mypyc keeps the code of a group in a module of its own.
BASE = ("jetspark", "librt", "msgspec", "mypy_extensions", "uvloop", "xxhash")
_PREPARE = """
import sys
from importlib.abc import MetaPathFinder

class OnlyThese(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        own = top in ALLOWED or top.endswith("__mypyc") or top.startswith(("pyspark_", "_"))
        if not own and top not in sys.stdlib_module_names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

ALLOWED = set(sys.argv.pop(1).split())
# What .pth files of this environment imported at the start would be found without being asked for.
for name in list(sys.modules):
    top = name.partition(".")[0]
    if top not in ALLOWED and top not in sys.stdlib_module_names and not name.startswith("__"):
        del sys.modules[name]
sys.meta_path.insert(0, OnlyThese())
"""


def client_only(code: str, *arguments: str, installed: tuple[str, ...] = ()) -> Any:
    """Run ``code``, which prints JSON, in a Python that also has ``installed``; return that."""
    program = _PREPARE + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", program, " ".join((*BASE, *installed)), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
