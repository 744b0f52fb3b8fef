"""Tasks: what an encoder's vectors are for. A head makes answers of them, an objective says how wrong those are."""
