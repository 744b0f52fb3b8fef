"""Training: one loop for every encoder and task, that can be stopped at any moment and goes on with the same bits."""
