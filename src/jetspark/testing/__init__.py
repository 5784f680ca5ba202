"""The shipped test kit: virtual time, simulated disk and network, recording handlers."""
