"""The prefix of every path of the monitoring application (``http_base_path``)."""


def checked_base(path: str) -> str:
    """Return the base without a trailing slash; empty for the root. Raises ValueError."""
    base = path.rstrip("/")
    if base and not base.startswith("/"):
        raise ValueError(f"bad http_base_path {path!r}: expected a path such as /monitor")
    return base
