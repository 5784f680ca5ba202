"""The packages of Spark, where a program may meet their absence."""

from contextlib import AbstractContextManager

from jetspark.errors.extras import extra


def needs_spark() -> AbstractContextManager[None]:
    """Around imports of pyspark and pyarrow: the error says what installs them."""
    return extra("spark", "Spark tables need")
