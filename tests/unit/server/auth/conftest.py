"""Settings and CONNECT options in few words."""

from __future__ import annotations

from collections.abc import Callable

import bcrypt
import pytest

from jetspark.server.auth.authenticator import Authenticator
from jetspark.server.auth.users import build_directory
from jetspark.server.config.settings import Settings


@pytest.fixture(scope="session")
def hashed() -> str:
    """The bcrypt hash of ``secret``, cheap to check."""
    return bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()


@pytest.fixture
def examiner() -> Callable[[Settings], Authenticator]:
    """Makes the authenticator of a server with these settings."""
    return lambda settings: Authenticator(build_directory(settings))
