"""Protobuf payloads, from the text of a .proto file: no compiler, no generated code."""
