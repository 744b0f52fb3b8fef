"""Learning rate schedule: linear warm-up, constant, linear decay to zero."""


def learning_rate(done: float, warmup: float, decay: float) -> float:
    """Return the fraction of the peak learning rate after the fraction `done` of the training.

    It rises linearly during the first fraction `warmup` and falls linearly during the last fraction `decay`.
    """
    rise = min(1.0, done / warmup) if warmup else 1.0
    fall = min(1.0, (1.0 - done) / decay)
    return max(0.0, min(rise, fall))
