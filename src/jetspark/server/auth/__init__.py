"""Users, authentication and permissions. No I/O, no clock."""
