"""The ``$JS.API`` requests: decode, call the engine, encode."""
