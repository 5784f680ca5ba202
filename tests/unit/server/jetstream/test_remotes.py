"""The remotes of an embedded server: what it may be given, and what it is answered."""

from __future__ import annotations

from typing import Any

import pytest

from jetspark import Server
from jetspark.clock import Clock, SystemClock
from jetspark.replica import connect_remote
from jetspark.server.config.blocks.jetspark import Jetspark, Remote
from jetspark.server.config.blocks.tls import Tls
from jetspark.server.config.secret import Secret
from jetspark.server.config.settings import Settings
from jetspark.server.jetstream.remotes import Remotes, remotes_of
from jetspark.server.server import Server as BareServer


def test_remotes_are_given_as_a_file_would() -> None:
    given: dict[str, Any] = {
        "url": "nats://a:4222,nats://b:4222",
        "user": "u",
        "password": "p",
        "tls": {"ca_file": "ca.pem"},
    }

    (remote,) = remotes_of({"hub": given})

    assert remote == Remote(
        name="hub",
        url=("nats://a:4222", "nats://b:4222"),
        user="u",
        password=Secret("p"),
        tls=Tls(ca_file="ca.pem"),
    )
    assert "'p'" not in repr(remote)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"hub": {}}, "expected a 'url'"),
        ({"hub": {"url": "nats://a", "uzer": "x"}}, "expected url, user, password"),
        ({"hub": {"url": "nats://a", "user": "x"}}, "belong together"),
        ({"a.b": {"url": "nats://a"}}, "cannot name a remote"),
        ({"hub": Remote(name="other", url=("nats://a",))}, "expected the same name"),
        ({"hub": {"url": "http://a"}}, "known schemes are nats"),
        ({"hub": {"url": 7}}, r"remotes\['hub'\]"),
    ],
)
def test_a_remote_that_cannot_be_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Server(remotes=given, upstreams=connect_remote)


def test_remotes_without_something_that_connects_are_refused() -> None:
    """``jetspark.Server`` brings it along; the server's own class does not know the client."""
    with pytest.raises(ValueError, match=r"upstreams=jetspark\.replica\.connect_remote"):
        BareServer(remotes={"hub": {"url": "nats://a:4222"}})


async def test_each_remote_is_one_upstream() -> None:
    made: list[str] = []

    def factory(remote: Remote, clock: Clock) -> Any:
        made.append(remote.name)
        return connect_remote(remote, clock)

    known = remotes_of({"b": {"url": "nats://b"}, "a": {"url": "nats://a"}})
    remotes = Remotes(Settings(jetspark=Jetspark(remotes=known)), factory, SystemClock())

    assert remotes.names() == ["a", "b"]
    assert remotes.find("a") is remotes.find("a")
    assert remotes.find("c") is None
    assert made == ["a"]
    await remotes.close()
