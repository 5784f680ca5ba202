"""Everything pickled from the driver to the tasks includes the driver's version of jetspark.

Pickle refers to classes by name and restores their fields: an executor with another jetspark would
fail somewhere, or behave differently than the driver planned. So the version is compared first,
before anything from the driver is restored.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

from pyspark import cloudpickle

import jetspark
from jetspark.errors import Error
from jetspark.spark.task import spare_collections
from jetspark.version import VERSION

_Value = TypeVar("_Value")
Sealed = tuple[Callable[[str, bytes], Any], tuple[str, bytes]]


class VersionMismatch(Error, RuntimeError):
    """The driver and an executor have different versions of jetspark."""


def require_version(driver: str) -> None:
    """Raise ``VersionMismatch`` unless this process has the driver's version."""
    if driver == VERSION:
        return
    place = Path(jetspark.__file__ or "").parent
    raise VersionMismatch(
        f"the driver has jetspark {driver}, this executor has {VERSION} (in {place}, "
        f"{sys.executable}): install the same version on the driver and on every node, or send "
        "the driver's to the executors with spark.archives"
    )


def reduced(part: Any) -> Sealed:
    """Return the ``__reduce__`` value of a reader or writer: its fields as bytes."""
    fields: bytes = cloudpickle.dumps((type(part), vars(part)))  # type: ignore[no-untyped-call]
    return _restored, (VERSION, fields)


class Carried(Generic[_Value]):
    """A value that a function captures and sends to the tasks."""

    def __init__(self, value: _Value) -> None:
        self.value = value

    def __reduce__(self) -> Sealed:
        """Pickle the value, with the version outside."""
        return reduced(self)


def _restored(driver: str, sealed: bytes) -> Any:
    require_version(driver)
    kind, fields = cloudpickle.loads(sealed)
    made = kind.__new__(kind)
    vars(made).update(fields)
    # By now everything that the task needs is imported, but none of its rows have arrived.
    spare_collections()
    return made
