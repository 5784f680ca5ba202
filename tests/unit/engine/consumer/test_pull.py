"""Pull requests and their statuses (wire-facts.md 7), on a virtual clock."""

from __future__ import annotations

from tests.unit.engine.consumer.conftest import MS, SECOND, World, sequences, status


def test_a_request_gets_as_many_messages_as_it_asks_for(world: World) -> None:
    stream = world.stream()
    world.publish(stream, b"s.a", b"s.b", b"s.c")
    world.consumer(stream)

    world.pull(b"2")

    first, second = world.got()
    assert first[0] == b"s.a"
    assert first[1].startswith(b"$JS.ACK.S.c.1.1.1.")
    assert first[1].endswith(b".2")
    assert second[1].startswith(b"$JS.ACK.S.c.1.2.2.")
    assert (first[2], first[3]) == (b"", b"x")
