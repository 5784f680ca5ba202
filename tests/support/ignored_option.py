"""A plugin for pytest: one option of the Spark formats is read, checked, and then ignored.

``pytest -p tests.support.ignored_option`` with the variable below set to ``FORMAT:OPTION``. The
tests of that option must fail (``tests/campaigns/spark/options.py``).
"""

import os
from collections.abc import Callable
from typing import Any, Final

from jetspark.spark.option_reader import OptionReader

VARIABLE: Final = "JETSPARK_TESTS_IGNORED_OPTION"

_take = OptionReader.take


def _ignoring(format_name: str, option: str) -> Callable[..., Any]:
    def take(
        reader: OptionReader, name: str, parse: Callable[[str], Any], default: Any, **more: Any
    ) -> Any:
        found = _take(reader, name, parse, default, **more)
        of_this = format_name in {"connections", reader._of}
        return default if of_this and name == option else found

    return take


if os.environ.get(VARIABLE):
    OptionReader.take = _ignoring(*os.environ[VARIABLE].split(":"))  # type: ignore[method-assign]
