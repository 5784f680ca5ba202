"""Decoding payloads in Spark: ``decode_json`` compared with Spark's own ``from_json``.

    python -m bench.spark_decode [--only WORD] [--rounds N] [--rows N]

The same payloads from a Parquet file, with the same schema, into the noop sink. The figure is CPU
time per row of the JVM and its Python workers, without that of reading the file: the best of the
rounds, which other work on the machine affected least. Also printed is the time that Spark needs
to pass the payloads to a Python function and back, the lower bound of any decoder. The cases
alternate in a round; the first rounds, in which the JVM compiles, are not counted. Nothing here
asserts a time.
"""

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.spark import Figures, Session, discard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WARM_UP = 2


class Payloads(NamedTuple):
    """A schema, and an SQL expression over ``id`` that returns JSON for it."""

    name: str
    ddl: str
    made: str


KINDS = (
    Payloads(
        "flat",
        "id long, name string, price double, ok boolean, city string, qty int",
        "struct(id, concat('customer ', id) AS name, id * 0.25D AS price, id % 2 = 0 AS ok, "
        "'Rome' AS city, CAST(id % 7 AS INT) AS qty)",
    ),
    Payloads(
        "nested",
        "id long NOT NULL, price decimal(10,2), at timestamp, tags array<string>, "
        "c struct<x: long, y: string>",
        "struct(id, CAST(id % 1000000 + 0.25 AS DECIMAL(10,2)) AS price, "
        "'2026-11-15T12:00:00Z' AS at, array('a', 'b') AS tags, "
        "struct(id AS x, 'abc' AS y) AS c)",
    ),
)


def compare(session: Session, kind: Payloads, rounds: int, rows: int, folder: Path) -> None:
    """Print a row for one kind of payloads."""
    import pyarrow as pa
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.functions import arrow_udf

    from jetspark.spark import decode_json

    # Spark evaluates the annotations, and requires types there.
    def same(data: pa.Array) -> pa.Array:
        return data

    # Its stub requires the kind of function, about which Spark then warns.
    make: Any = arrow_udf

    path = str(folder / kind.name)
    spark = session.spark
    made = spark.range(0, rows, 1, 4).selectExpr(f"CAST(to_json({kind.made}) AS BINARY) AS data")
    made.write.parquet(path)
    source = spark.read.parquet(path)
    text = source.data.cast("string")
    frames: dict[str, DataFrame] = {
        "file": source,
        "exchange": source.select(make(same, returnType="binary")("data")),
        "from_json": source.select(f.from_json(text, kind.ddl).alias("row")).select("row.*"),
        "decode_json": source.select(decode_json("data", kind.ddl).alias("row")).select("row.*"),
    }
    found = {name: Figures() for name in frames}
    for number in range(WARM_UP + rounds):
        for name, frame in frames.items():
            kept = found[name] if number >= WARM_UP else Figures()
            session.measure(kept, rows, lambda frame=frame: discard(frame))  # type: ignore[misc]
    micros = {name: 1e6 / figures.cpu for name, figures in found.items()}
    theirs, ours, exchange = (
        micros[name] - micros["file"] for name in ("from_json", "decode_json", "exchange")
    )
    print(
        f"decode_json {kind.name:<8} {ours:6.2f} us/row   from_json {theirs:6.2f} us/row   "
        f"ratio {ours / theirs:.2f}   (exchange with Python: {exchange:.2f}, the file: "
        f"{micros['file']:.2f})",
        flush=True,
    )


def main() -> None:
    """Run the cases."""
    parser: Any = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=400_000)
    arguments = parser.parse_args()
    session = Session()
    try:
        with tempfile.TemporaryDirectory() as folder:
            for kind in KINDS:
                if arguments.only in kind.name:
                    compare(session, kind, arguments.rounds, arguments.rows, Path(folder))
    finally:
        session.spark.stop()


if __name__ == "__main__":
    main()
