"""Configurations that say who may connect and do what, for the tests of every client."""

from __future__ import annotations

import bcrypt


def hashed(password: str) -> str:
    """The cheapest bcrypt hash."""
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


AUTHORIZATION = {
    "token": 'authorization { token: "s3cret" }',
    "hashed token": f'authorization {{ token: "{hashed("s3cret")}" }}',
    "user": 'authorization { user: "ann", password: "pw" }',
    "hashed user": f'authorization {{ user: "ann", password: "{hashed("pw")}" }}',
    "users": f"""authorization {{ users: [
        {{ user: "ann", password: "pw" }}
        {{ user: "bob", password: "{hashed("other")}" }}
    ] }}""",
    "no_auth_user": """
        authorization { users: [ { user: "ann", password: "pw" }, { user: "guest" } ] }
        no_auth_user: "guest" """,
}
# What a client shows to one of them.
ACCEPTED: list[tuple[str, dict[str, str]]] = [
    ("token", {"token": "s3cret"}),
    ("hashed token", {"token": "s3cret"}),
    ("user", {"user": "ann", "password": "pw"}),
    ("hashed user", {"user": "ann", "password": "pw"}),
    ("users", {"user": "ann", "password": "pw"}),
    ("users", {"user": "bob", "password": "other"}),
    ("no_auth_user", {"user": "ann", "password": "pw"}),
    ("no_auth_user", {}),
]
REJECTED: list[tuple[str, dict[str, str]]] = [
    ("token", {"token": "wrong"}),
    ("token", {}),
    ("token", {"user": "s3cret", "password": "s3cret"}),
    ("hashed token", {"token": "wrong"}),
    ("user", {"user": "ann", "password": "wrong"}),
    ("user", {"user": "eve", "password": "pw"}),
    ("user", {"token": "pw"}),
    ("user", {}),
    ("hashed user", {"user": "ann", "password": "wrong"}),
    ("users", {"user": "ann", "password": "other"}),
    ("users", {"user": "bob", "password": "pw"}),
    ("no_auth_user", {"user": "ann", "password": "wrong"}),
]

PERMISSIONS = """
authorization {
  users: [
    { user: "all", password: "pw" }
    { user: "some", password: "pw", permissions: {
        publish: { allow: ["out.>", "echo", "_INBOX.>"], deny: "out.secret" }
        subscribe: { allow: ["in.*", "in.jobs workers", "echo", "_INBOX.>"], deny: "in.secret" }
    } }
    { user: "service", password: "pw", permissions: {
        subscribe: "ask", allow_responses: { max: 1 }
    } }
  ]
}
"""
ACCOUNTS = """
accounts {
  A: { users: [ { user: "ann", password: "pw" } ] }
  B: { users: [ { user: "bob", password: "pw" } ] }
}
"""
