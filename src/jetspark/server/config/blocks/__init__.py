"""The blocks of a configuration, a module each: its keys, and the struct that they fill."""
