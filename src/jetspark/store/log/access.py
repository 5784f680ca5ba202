"""Whether a log takes writes, and why it does not."""


class Access:
    """What the disk lets a log do; one for each log, changed where a write fails or works again.

    ``read_only``: nothing may be staged. ``failed``: that is so because of a failed write, and
    the log can be opened again (``reopen.py``). ``full``: a write met a full disk, and
    messages wait until there is space.
    """

    def __init__(self) -> None:
        self.read_only: bool = False
        self.failed: bool = False
        self.full: bool = False

    def stop(self) -> None:
        """Take no more writes."""
        self.read_only = True

    def fail(self) -> None:
        """Take no writes until the log was verified: nobody knows what the disk holds."""
        self.read_only = True
        self.failed = True

    def resume(self) -> None:
        """The log was verified: take writes again."""
        self.read_only = False
        self.failed = False

    def set_full(self, full: bool) -> None:
        """Say whether messages have to wait for space."""
        self.full = full
