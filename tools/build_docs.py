"""Build the documentation site in build/docs/html: make docs.

Pages that did not change since the last build are not read again, but all are written: each has
the titles of the others in its sidebar. A warning is an error.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "docs"
SITE = BUILD / "html"


def build() -> subprocess.CompletedProcess[str]:
    """Run Sphinx; its output is complete if the exit code is 0."""
    # What conf.py does with pages is not among the settings that Sphinx compares.
    stamp = hashlib.sha256((ROOT / "docs" / "conf.py").read_bytes()).hexdigest()[:12]
    cache = BUILD / f"cache-{stamp}"
    for old in BUILD.glob("cache-*"):
        if old != cache:
            shutil.rmtree(old)
    options = ["--quiet", "--write-all", "--fail-on-warning", "--keep-going"]
    folders = ["-c", "docs", "-d", str(cache), ".", str(SITE)]
    return subprocess.run(
        [sys.executable, "-m", "sphinx", *options, *folders],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def main() -> int:
    """Build, and print where the site is, or what is wrong."""
    done = build()
    print(done.stdout + done.stderr if done.returncode else f"{SITE.relative_to(ROOT)}/index.html")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
