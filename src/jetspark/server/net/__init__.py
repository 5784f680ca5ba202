"""Connections: sockets, TLS, the handshake, keepalive, and how connections end."""
