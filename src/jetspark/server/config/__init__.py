"""Configuration of a server: nats-server's configuration files and flags, and our own settings.

`loader.load_file` and `load_text` read a configuration, `command_line.from_command_line` applies
flags to one; `reload.plan_reload` compares two settings. Nothing here opens a socket or starts
anything. A server that is configured by arguments loads none of these three.
"""
