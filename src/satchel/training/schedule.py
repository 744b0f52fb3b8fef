"""How large a step is, by how much of the training is done: up for a little, then down to nothing."""


def learning_rate(done: float, warmup: float) -> float:
    """Return the share of the highest learning rate after `done`, from 0 to 1, of the training."""
    rise = min(1.0, done / warmup) if warmup else 1.0
    fall = min(1.0, (1.0 - done) / (1.0 - warmup))
    return max(0.0, min(rise, fall))
