"""Whether a log accepts writes, and why not."""


class Access:
    """The write access of a log, changed when a write fails or works again.

    ``read_only``: nothing may be staged. ``failed``: because of a failed write, and the log can be
    opened again (``reopen.py``). ``full``: a write found the disk full, and messages wait until
    there is space.
    """

    def __init__(self) -> None:
        self.read_only: bool = False
        self.failed: bool = False
        self.full: bool = False

    def stop(self) -> None:
        """Accept no more writes."""
        self.read_only = True

    def fail(self) -> None:
        """Accept no writes until the log has been verified: what the disk holds is unknown."""
        self.read_only = True
        self.failed = True

    def resume(self) -> None:
        """Accept writes again after verification."""
        self.read_only = False
        self.failed = False

    def set_full(self, full: bool) -> None:
        """Set whether messages have to wait for space."""
        self.full = full
