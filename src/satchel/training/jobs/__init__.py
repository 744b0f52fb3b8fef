"""Training jobs: for each task, the network, its batches and its loss."""
