"""The asyncio client. Its public names are in ``jetspark``."""
