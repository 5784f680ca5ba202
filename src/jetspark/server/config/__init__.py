"""How a server is configured: nats-server's configuration files and flags, and settings of ours.

`loader.load_file` and `load_text` read a configuration, `command_line.from_command_line` flags
over one; `reload.plan_reload` compares two settings. Nothing here opens a socket or starts
anything. A server that is configured by arguments loads none of these three.
"""
