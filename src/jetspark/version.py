"""The version of jetspark, and whether the hot modules run compiled."""

from importlib.util import find_spec
from typing import Final

VERSION: Final = "0.1.0"

# The released server whose features and wire behaviour ours has. Clients switch features on by
# this number, so INFO announces it; our own version is next to it (decisions.md).
NATS_VERSION: Final = "2.15.1"


def is_compiled() -> bool:
    """Say whether the parser, and with it the whole mypyc group, is a compiled extension."""
    spec = find_spec("jetspark.protocol.parser")
    return spec is not None and spec.origin is not None and not spec.origin.endswith(".py")


COMPILED: Final = is_compiled()
