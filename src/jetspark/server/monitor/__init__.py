"""Monitoring of the server: what nats-server serves at ``/varz`` and friends, and ``/metrics``.

`status` reads what is known of the server, one module per endpoint makes the answer from it,
`app` puts them behind paths, `http` behind a port, and `monitor` opens the ports that are
configured. The server imports all of this, and starlette and uvicorn with it, when one is.
"""
