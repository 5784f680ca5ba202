"""Monitoring: nats-server's endpoints (``/varz`` and others), and ``/metrics``.

`status` reads the state of the server, one module per endpoint builds the answer from it, `app`
maps them to paths, `http` serves them on a port, and `monitor` opens the configured ports. The
server imports all of this, and starlette and uvicorn with it, only if a port is configured.
"""
