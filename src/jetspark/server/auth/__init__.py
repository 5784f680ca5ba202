"""Who may connect, and what each may do: users, authentication, permissions. No I/O, no clock."""
