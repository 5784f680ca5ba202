"""The wire, sans-I/O: bytes in, calls to a handler out; values in, bytes out.

``parser`` reads what a client sends to a server, ``client_parser`` what a server sends to a
client, and ``framing`` and ``arguments`` hold what they share. ``encoder`` writes both directions,
``handshake`` models INFO and CONNECT, ``limits`` names the numbers.
"""
