import jetspark
import pytest


def test_the_disk_is_full(jetspark_server, jetspark_client):
    js = jetspark_client.jetstream()
    js.create_stream("ORDERS", subjects=["orders.*"])
    jetspark_server.fill_disk()

    with pytest.raises(jetspark.errors.InsufficientResources):
        js.publish("orders.placed", b"book")


@pytest.mark.parametrize("kv_bucket", [{"ttl": 60}], indirect=True)
def test_a_key_expires(jetspark_server, kv_bucket):
    kv_bucket.put("a", b"1")
    jetspark_server.advance(minutes=1)
    assert list(kv_bucket.keys()) == []


def test_a_slow_line(jetspark_server, jetspark_client):
    jetspark_server.lag(0.05)
    assert jetspark_client.rtt() >= 0.1


def test_what_was_published_is_shown(jetspark_server, jetspark_client):
    jetspark_client.publish("orders.placed", b"book")
    with pytest.raises(AssertionError, match=r"also published \(1\):\n  orders.placed  book"):
        jetspark_server.published("orders.billed", timeout=0.05)


@pytest.mark.parametrize("number", range(10))
def test_every_test_has_an_empty_server(jetspark_client, object_bucket, number):
    js = jetspark_client.jetstream()
    assert list(js.stream_names()) == ["OBJ_test"]
    js.create_stream("LEFT", subjects=["left.>"])
    object_bucket.put("left", b"data")
