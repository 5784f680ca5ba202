"""Models of the JetStream API as msgspec structs; field names are the JSON names."""
