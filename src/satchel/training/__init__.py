"""Training: plans, default settings, preparation of runs, and the training loop of all tasks."""
