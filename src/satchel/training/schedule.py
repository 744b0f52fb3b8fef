"""How large a step is, by how much of the training is done: up for a little, on, then down to nothing."""


def learning_rate(done: float, warmup: float, decay: float) -> float:
    """Return the share of the highest learning rate after `done`, from 0 to 1, of the training.

    It rises over the first share `warmup` of the training and falls over the last share `decay`.
    """
    rise = min(1.0, done / warmup) if warmup else 1.0
    fall = min(1.0, (1.0 - done) / decay)
    return max(0.0, min(rise, fall))
