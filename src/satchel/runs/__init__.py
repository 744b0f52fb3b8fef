"""The run folder: what a trained model is on disk."""
