"""Connections: sockets, TLS, the handshake, keepalive, and closing."""
