"""Training data: token files, batches, held-out splits, BPE-dropout."""
