"""What it costs to generate from a network that stands on an n-gram, against the network alone.

python bench/generation.py [TEXT] [--tokens 200] [--rounds 5]
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import torch

from satchel.models.build import build_encoder
from satchel.models.transformer import TransformerSettings
from satchel.ngram.smoothing import NgramSettings, estimate
from satchel.predictor import Predictor
from satchel.tasks.language import LanguageNetwork, NetworkPredictor
from satchel.text.tokenizer import TokenizerSettings
from satchel.text.tokenizer_training import train_tokenizer

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def seconds_per_token(predictor: Predictor, prompt: np.ndarray[tuple[int], np.dtype[np.int64]], tokens: int) -> float:
    """Return how long the likeliest next token takes, of one sample."""
    logprobs, state = predictor.step(prompt[None], predictor.start(1))
    began = time.perf_counter()
    for _ in range(tokens):
        logprobs, state = predictor.step(logprobs.argmax(axis=1)[:, None], state)
    return (time.perf_counter() - began) / tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, nargs="?", default=SHARED / "tiny-shakespeare" / "input.txt")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    text = options.text.read_text(encoding="utf-8")
    tokenizer = train_tokenizer(TokenizerSettings(kind="bpe", size=2000), [text], len(text))
    size = tokenizer.size + 1
    ids = np.array([tokenizer.boundary, *tokenizer.encode(text).ids])
    torch.manual_seed(0)
    settings = TransformerSettings(width=384, layers=6, heads=6, context=512)
    alone = LanguageNetwork(build_encoder(settings, size, causal=True)).eval()
    ngram = estimate(ids, size, NgramSettings(order=5), ends=False).table
    standing = LanguageNetwork(alone.encoder, ngram=ngram).eval()
    predictors = {name: NetworkPredictor(each, size - 1) for name, each in (("alone", alone), ("standing", standing))}
    times: dict[str, list[float]] = {name: [] for name in predictors}
    for _ in range(options.rounds):
        for name, predictor in predictors.items():
            times[name].append(seconds_per_token(predictor, ids[:32], options.tokens))
    for name, found in times.items():
        print(f"{name:<10} {1000 * statistics.median(found):.2f} ms per token")
    ratios = [b / a for a, b in zip(*times.values(), strict=True)]
    print(f"standing on the n-gram takes {statistics.median(ratios):.2f} times as long")


if __name__ == "__main__":
    main()
