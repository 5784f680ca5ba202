"""The asyncio shell around protocol, engine and store: sockets and wiring."""
