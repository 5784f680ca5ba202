"""The sample that the columns of a stream are inferred from; no JVM."""

import pytest

pytest.importorskip("pyspark")

from jetspark import StreamConfig, sync
from jetspark.spark import infer_schema


@pytest.mark.parametrize("direct", [True, False])
def test_the_newest_messages_are_sampled_however_many_were_deleted_after_them(
    url: str, jetstream: sync.JetStream, direct: bool
) -> None:
    name = f"GAPS{direct:d}"
    config = StreamConfig(name=name, subjects=(f"{name}.>",), allow_direct=direct)
    stream = jetstream.create_stream(config)
    for number in range(6):
        jetstream.publish(f"{name}.kept", b'{"n%d": 1}' % number)
        for _ in range(3):
            jetstream.publish(f"{name}.gone", b"1")
    for _ in range(20):
        jetstream.publish(f"{name}.gone", b"1")
    stream.purge(subject=f"{name}.gone")

    found = [infer_schema(name, servers=url, limit=limit) for limit in (1, 2, 6, 100)]

    assert [one.sampled for one in found] == [1, 2, 6, 6]
    assert found[1].ddl == "n4 bigint, n5 bigint"
