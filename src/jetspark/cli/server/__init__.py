"""`jetspark server`: health, facts and reports of servers."""
