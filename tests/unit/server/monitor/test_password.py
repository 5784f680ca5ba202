"""Passwords, and how often they may be guessed."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from jetspark.server.monitor.web.password import GUESSES, PAUSE_S, Password, TooManyGuesses
from jetspark.server.monitor.web.sign_in import SESSION_S, Sessions

HERE = ("192.0.2.1", 4000)
THERE = ("192.0.2.2", 4000)


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_address_that_guesses_waits_and_others_do_not() -> None:
    clock = Clock()
    password = Password("right", clock=clock)
    for _ in range(GUESSES):
        assert not password.matches("", "wrong", HERE)
    with pytest.raises(TooManyGuesses) as refused:
        password.matches("", "right", HERE)
    assert 0 < refused.value.seconds <= PAUSE_S
    with pytest.raises(TooManyGuesses):
        password.admits(Headers({"authorization": "Bearer right"}), HERE)
    assert password.matches("", "right", THERE)
    clock.now += refused.value.seconds
    assert password.matches("", "right", HERE)
    # One more guess, not ten.
    assert not password.matches("", "wrong", HERE)
    with pytest.raises(TooManyGuesses):
        password.matches("", "right", HERE)
    clock.now += GUESSES * PAUSE_S
    for _ in range(GUESSES):
        assert not password.matches("", "wrong", HERE)


def test_addresses_of_one_ipv6_network_share_their_guesses() -> None:
    password = Password("right", clock=Clock())
    for number in range(GUESSES):
        assert not password.matches("", "wrong", (f"2001:db8::{number:x}", 1))
    with pytest.raises(TooManyGuesses):
        password.matches("", "right", ("2001:db8::ffff", 1))
    assert password.matches("", "right", ("2001:db8:0:1::1", 1))


def test_requests_without_a_password_are_no_guesses() -> None:
    password = Password("right", clock=Clock())
    for _ in range(3 * GUESSES):
        assert not password.admits(Headers({}), HERE)
    assert password.admits(Headers({"authorization": "Bearer right"}), HERE)


def test_a_session_ends_with_the_day() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    scope = {"type": "http", "headers": [], "server": ("127.0.0.1", 8222)}
    cookie = sessions.open(scope).partition(";")[0]
    back = {**scope, "headers": [(b"cookie", cookie.encode())]}
    assert sessions.admits(back)
    assert not sessions.admits(scope)
    assert not sessions.admits({**back, "server": ("127.0.0.1", 8223)})
    clock.now += SESSION_S
    assert not sessions.admits(back)


def test_a_cookie_leaves_a_browser_only_encrypted_if_it_came_so() -> None:
    scope = {"type": "http", "headers": [], "server": ("127.0.0.1", 1), "scheme": "https"}
    assert Sessions().open(scope).endswith("; HttpOnly; SameSite=Lax; Secure")
