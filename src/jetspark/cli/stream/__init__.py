"""`jetspark stream`: streams of any server to files and back."""
