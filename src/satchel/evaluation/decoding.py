"""Bits per byte of a text under the decoder of a language model, whose precision may be lower than that of scoring."""

import math

import numpy as np

from satchel.predictor import Ids, Predictor, log_probabilities
from satchel.text.tokenizer import Tokenizer

# Number of tokens of the text, and of a part that is decoded from its start.
MEASURED_TOKENS, PART = 1024, 256


def decoding_bits(predictor: Predictor, tokenizer: Tokenizer, ids_T: Ids) -> float:
    """Return the bits per byte of the first tokens of a text, in parts that are decoded independently of each other."""
    nats, byte_count = 0.0, 0
    tokens_T = np.asarray([id_ for id_ in ids_T[: MEASURED_TOKENS + 1].tolist() if id_ != tokenizer.boundary], np.int64)
    decoder = predictor.decoder()
    room = decoder.room or PART
    for start in range(0, len(tokens_T), min(PART, room - 1)):
        part_T = tokens_T[start : start + min(PART, room - 1)]
        decoder = predictor.decoder()
        first = decoder.join([np.array([tokenizer.boundary])])
        scores_TV = np.concatenate([first, decoder.extend(part_T[None, :-1])[0]]) if len(part_T) > 1 else first
        nats -= float(log_probabilities(decoder, scores_TV)[np.arange(len(part_T)), part_T].sum())
        byte_count += int(tokenizer.byte_lengths[part_T].sum())
    return nats / math.log(2) / max(1, byte_count)
