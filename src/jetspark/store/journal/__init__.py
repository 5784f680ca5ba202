"""The shared journal: one synced write for the groups of many streams."""
