"""Examples: read the data of a task, split off held-out rows, and write token files and labels into a new run."""
