"""Tasks: networks of an encoder and a head, their training objectives, and their use for evaluation."""
