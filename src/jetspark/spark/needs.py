"""Errors about missing Spark packages."""

from contextlib import AbstractContextManager

from jetspark.errors.extras import extra


def needs_spark() -> AbstractContextManager[None]:
    """For imports of pyspark and pyarrow: the error names what to install."""
    return extra("spark", "Spark tables need")
