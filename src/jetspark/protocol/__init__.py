"""The wire protocol, sans-I/O: bytes in, calls to a handler out; values in, bytes out.

``parser`` reads what a client sends to a server, ``client_parser`` what a server sends to a
client; ``framing`` and ``arguments`` have their shared parts. ``encoder`` writes both directions,
``handshake`` models INFO and CONNECT, ``limits`` has the constants.
"""
