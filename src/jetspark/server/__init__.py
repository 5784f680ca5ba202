"""Sockets and wiring: the asyncio shell around protocol, engine and store."""
