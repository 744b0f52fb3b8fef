"""Log-probabilities computed with the decoder of a predictor."""

from collections.abc import Sequence

import numpy as np

from satchel.predictor import Floats, Ids, Predictor, log_probabilities


def stepwise_logprobs(predictor: Predictor, ids_T: Ids | Sequence[int]) -> Floats:
    """Return the log-probability of each token after the first, decoded token by token."""
    ids, decoder = np.asarray(ids_T), predictor.decoder()
    logits = [decoder.join([ids[:1]])] + [decoder.step(ids[None, place]) for place in range(1, len(ids) - 1)]
    logprobs_TV = log_probabilities(decoder, np.concatenate(logits))
    logprobs: Floats = logprobs_TV[np.arange(len(ids) - 1), ids[1:]]
    return logprobs


def next_logprobs(predictor: Predictor, *prompts: Ids | Sequence[int]) -> Floats:
    """Return the log-probabilities (B, V) of the token after each prompt."""
    decoder = predictor.decoder()
    return log_probabilities(decoder, decoder.join([np.asarray(prompt) for prompt in prompts]))
