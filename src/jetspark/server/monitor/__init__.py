"""Monitoring of the server: what nats-server serves at ``/varz`` and friends, and ``/metrics``.

`view` says what must be known of a server, one module per endpoint makes the answer from it,
`app` puts them behind paths and `http` behind a port. Only `app`, `guard`, `answer` and `http`
need starlette and uvicorn: the server imports them when a port is on.
"""
