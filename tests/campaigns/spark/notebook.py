"""A notebook with a session, a streaming query, its progress view and a blocking client.

Jupyter's own kernel executes the cells of ``CELLS``, in which the event loop of the kernel runs.
jetspark does not depend on Jupyter, so this needs ``pip install nbclient ipykernel``;
``python -m tests.campaigns.spark.notebook`` runs it alone, ``--write FILE`` keeps the notebook.
"""

import argparse
import os
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from jetspark import sync

PACKAGES: Final = ("nbclient", "ipykernel")
CELL_S: Final = 300
CELLS: Final = (
    """
import os, tempfile
from jetspark import sync
from jetspark.spark import lag, progress_view, session

url = os.environ["NOTEBOOK_SERVER"]
client = sync.connect(url)
js = client.jetstream()
js.create_stream("ORDERS", subjects=["orders.>"], allow_direct=True, allow_batched=True)
with js.fast_publisher() as publisher:
    publisher.extend(["orders.1"] * 3000, [b"1"] * 3000)
""",
    """
spark = session(master="local[2]")
rows = spark.readStream.format("jetstream").options(servers=url, stream="ORDERS")
rows = rows.options(startingOffsets="earliest", maxOffsetsPerTrigger="1000").load()
writer = rows.writeStream.format("noop").queryName("orders")
query = writer.option("checkpointLocation", tempfile.mkdtemp()).start()
""",
    # A blocking client works while the query runs.
    """
for number in range(20):
    js.publish("orders.2", b"2")
while not query.lastProgress or lag(query)[0].next < 3021:
    query.awaitTermination(0.2)
progress_view(query)
""",
    "lag(query)",
    """
import jetspark

async with await jetspark.connect(url) as other:  # in the loop of the kernel
    stream = await other.jetstream().stream("ORDERS")
    print((await stream.info()).state.messages)
""",
    """
spark.read.format("jetstream").options(servers=url, stream="ORDERS").load().limit(2).toPandas()
""",
    """
query.stop()
client.close()
""",
)


def missing() -> str:
    """Return why notebooks cannot be run here; empty: they can."""
    absent = [name for name in PACKAGES if find_spec(name) is None]
    return f"not installed: {', '.join(absent)} (pip install nbclient ipykernel)" if absent else ""


def campaign(write: Path | None = None) -> str:
    """Execute the notebook; check what it shows."""
    absent = missing()
    if absent:
        return f"skipped: {absent}"
    notebook = _executed()
    if write is not None:
        write.write_text(notebook)
    return f"{len(CELLS)} cells executed, progress view with a plot of the lag"


def _executed() -> str:
    nbclient, nbformat = map(import_module, ("nbclient", "nbformat"))
    made: Any = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(text.strip()) for text in CELLS]
    )
    with tempfile.TemporaryDirectory() as folder, sync.Server(store_dir=folder) as server:
        os.environ["NOTEBOOK_SERVER"] = server.client_url
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        # Raises the error of a cell.
        nbclient.NotebookClient(made, timeout=CELL_S, kernel_name="python3").execute()
    shown = [_shown(cell) for cell in made.cells]
    assert "<polyline" in shown[2], shown[2]
    assert "0 unread" in shown[2], shown[2]
    assert "stream='ORDERS', behind=0" in shown[3], shown[3]
    assert "3020" in shown[4], shown[4]
    assert "orders.1" in shown[5], shown[5]
    assert "[Stage" not in "".join(shown), "a progress bar of Spark is in a cell"
    return str(nbformat.writes(made))


def _shown(cell: Any) -> str:
    """Return all outputs of a cell as text."""
    texts: list[str] = []
    for output in cell.outputs:
        texts.append(output.get("text", ""))
        texts += [str(text) for text in output.get("data", {}).values()]
    return "\n".join(texts)


def main() -> None:
    """Run it once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="keep the executed notebook here")
    sys.stdout.write(f"{campaign(parser.parse_args().write)}\n")


if __name__ == "__main__":
    main()
