"""Time per generated token of a Transformer with and without interpolation with a 5-gram model.

    python bench/generation.py [TEXT] [--tokens 200] [--rounds 5] [--quick]

Both alternate in one process, greedy decoding of one sequence; 6 layers, width 384, random weights, BPE with 2,000
tokens. Medians over the rounds, ratio within a round.
"""

import statistics
import time

import numpy as np
import torch

from measure import median_ratio, parser
from satchel.models.build import build_encoder
from satchel.models.transformer import TransformerSettings
from satchel.ngram.smoothing import NgramSettings, estimate
from satchel.predictor import Predictor
from satchel.tasks.language import LanguageNetwork, NetworkPredictor
from satchel.text.tokenizer import TokenizerSettings
from satchel.text.tokenizer_training import train_tokenizer


def seconds_per_token(predictor: Predictor, prompt: np.ndarray[tuple[int], np.dtype[np.int64]], tokens: int) -> float:
    """Return the time per token of greedy decoding after a prompt."""
    decoder = predictor.decoder()
    logits = decoder.join([prompt])
    began = time.perf_counter()
    for _ in range(tokens):
        logits = decoder.step(logits.argmax(axis=1))
    return (time.perf_counter() - began) / tokens


def main() -> None:
    arguments = parser(__doc__, "text", "--quick", rounds=5)
    arguments.add_argument("--tokens", type=int, default=200, help="number of generated tokens per round")
    options = arguments.parse_args()
    if options.quick:
        options.tokens, options.rounds = 5, 1
    text = options.text.read_text(encoding="utf-8")
    tokenizer = train_tokenizer(TokenizerSettings(kind="bpe", size=2000), [text], len(text))
    vocabulary = tokenizer.size + 1
    ids = np.array([tokenizer.boundary, *tokenizer.encode(text).ids])
    torch.manual_seed(0)
    settings = TransformerSettings(width=384, layers=6, heads=6, context=512)
    network = LanguageNetwork(build_encoder(settings, vocabulary, causal=True)).eval()
    ngram = estimate(ids, vocabulary, NgramSettings(order=5), ends=False).table
    interpolated = LanguageNetwork(network.encoder, ngram=ngram).eval()
    predictors = {
        "network": NetworkPredictor(network, vocabulary - 1),
        "interpolated": NetworkPredictor(interpolated, vocabulary - 1),
    }
    times: dict[str, list[float]] = {name: [] for name in predictors}
    for _ in range(options.rounds):
        for name, predictor in predictors.items():
            times[name].append(seconds_per_token(predictor, ids[:32], options.tokens))
    for name, seconds in times.items():
        ratio = median_ratio(seconds, times["network"])
        print(f"{name:<14} {1000 * statistics.median(seconds):6.2f} ms per token  time / network {ratio:5.2f}")


if __name__ == "__main__":
    main()
