"""`stream cluster`, `consumer cluster`, `server cluster`: leaders and replicas of a cluster."""
