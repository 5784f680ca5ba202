"""Features that the chosen server lacks: such tests are skipped, with the reason."""

import unittest


class Unsupported(unittest.SkipTest):
    """The server of this run cannot do what a test asks; unittest and pytest skip the test."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"nats-server cannot {what}; run it without --jetspark-server=nats-server"
        )
