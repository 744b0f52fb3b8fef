"""Lines scored per second: `score_texts` against Hugging Face GPT-2 with length-sorted padded batches of 32.

    python bench/scoring.py [--lines 20000] [--rounds 3] [--data DIR] [--threads 2] [--quick]

Log-probability of each English caption of Multi30k under a Transformer of the GPT-2 architecture (4 layers, width 128,
4 heads, BPE of at most 4,000 tokens, float32), from the list of texts to one number per text. All use the same
tokenizer, so the token ids are equal; both GPT-2 models have the same random weights, and the benchmark stops if their
log-probabilities differ. Also with the default architecture of Satchel in the same shape. The variants alternate in
one process; wall time, medians over the rounds, ratios within a round.
"""

import gzip
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import satchel
from measure import median_ratio, parser, time_alternately
from satchel.nn.precision import instruction_sets
from satchel.text.tokenizer import Tokenizer

SHAPE = {"model.width": 128, "model.layers": 4, "model.heads": 4, "model.context": 128, "model.ngram": 0}
GPT2 = {"positions": "learned", "normalise": False, "feedforward": "gelu-tanh", "bias": True}
BATCH = 32
# Names of GPT-2 parameters; matrices of `Conv1D` are transposed.
NAMES = {
    "attention_norm": "ln_1",
    "attention.project": "attn.c_attn",
    "attention.out": "attn.c_proj",
    "feedforward_norm": "ln_2",
    "feedforward.widen": "mlp.c_fc",
    "feedforward.narrow": "mlp.c_proj",
}


def train(lines: list[str], folder: Path, name: str, settings: dict[str, Any]) -> satchel.LanguageModel:
    """Return a language model with random weights whose tokenizer is trained on the lines."""
    path = folder / "lines.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    # Line documents: the start and the end of each line are the boundary, as in the padded batches.
    options = {**SHAPE, **settings, "data.documents": "line"}
    tokenizer = str(folder / "run") if name != "run" else "bpe:4000"
    model = satchel.train(path, model="transformer", tokenizer=tokenizer, settings=options, steps=1, out=folder / name)
    assert isinstance(model, satchel.LanguageModel)
    generator = torch.Generator().manual_seed(0)
    for parameter in model.network.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter.data, 1.0 if parameter.dim() == 1 else 0.0, 0.05, generator=generator)
    return model


def hugging_face(model: satchel.LanguageModel) -> Any:
    """Return a GPT-2 of transformers with the weights of the model."""
    from transformers import GPT2Config, GPT2LMHeadModel

    settings: Any = model.settings.model
    config = GPT2Config(
        vocab_size=model.tokenizer.size + 1,
        n_positions=settings.context,
        n_embd=settings.width,
        n_layer=settings.layers,
        n_head=settings.heads,
        bos_token_id=model.tokenizer.boundary,
        eos_token_id=model.tokenizer.boundary,
    )
    network = GPT2LMHeadModel(config).eval()
    state = network.state_dict()
    encoder = model.network.encoder
    with torch.no_grad():
        state["transformer.wte.weight"].copy_(encoder.embedding.weight)
        state["transformer.wpe.weight"].copy_(encoder.positions.embedding.weight)
        for part in ("weight", "bias"):
            state[f"transformer.ln_f.{part}"].copy_(getattr(encoder.norm, part))
            for number, block in enumerate(encoder.blocks):
                for name, other in NAMES.items():
                    value = block.get_submodule(name).get_parameter(part)
                    state[f"transformer.h.{number}.{other}.{part}"].copy_(value.T if value.dim() == 2 else value)
    return network


def score_padded(network: Any, tokenizer: Tokenizer, lines: list[str]) -> list[float]:
    """Return the log-probability of each line, computed in length-sorted padded batches."""
    encodings = tokenizer.encode_pieces(lines, [True] * len(lines))
    ids = [[tokenizer.boundary, *encoding.ids.tolist(), tokenizer.boundary] for encoding in encodings]
    order = sorted(range(len(ids)), key=lambda index: len(ids[index]))
    logprobs = [0.0] * len(ids)
    with torch.inference_mode():
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            padded = torch.nn.utils.rnn.pad_sequence(
                [torch.tensor(ids[row]) for row in rows], batch_first=True, padding_value=-1
            )
            keep = padded >= 0
            inputs, targets = padded[:, :-1].clamp(min=0), padded[:, 1:].clamp(min=0)
            logits = network(input_ids=inputs, attention_mask=keep[:, :-1].long()).logits
            gathered = logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0]
            for row, total in zip(rows, (gathered * keep[:, 1:]).sum(1).tolist(), strict=True):
                logprobs[row] = total
    return logprobs


def score(model: satchel.LanguageModel, lines: list[str]) -> list[float]:
    """Return the log-probability of each line, computed by Satchel."""
    return [likelihood.logprob for likelihood in model.score_texts(lines)]


def main() -> None:
    arguments = parser(__doc__, "--data", "--threads", "--quick", rounds=3)
    arguments.add_argument("--lines", type=int, default=20_000, help="number of lines (default: %(default)s)")
    options = arguments.parse_args()
    path = options.data / "multi30k" / "train.en.gz"
    if not path.exists():
        print(f"skipped, {path} not found")
        return
    if options.quick:
        options.lines, options.rounds = 200, 1
    with gzip.open(path, "rt", encoding="utf-8") as handle:
        lines = [line.rstrip("\n") for line in handle][: options.lines]
    with tempfile.TemporaryDirectory() as folder:
        gpt2 = train(lines, Path(folder), "run", {f"model.{name}": value for name, value in GPT2.items()})
        default = train(lines, Path(folder), "default", {})
    if options.threads:
        torch.set_num_threads(options.threads)
    peer = hugging_face(gpt2)
    variants: dict[str, Callable[[], list[float]]] = {
        "transformers GPT-2": partial(score_padded, peer, gpt2.tokenizer, lines),
        "satchel, GPT-2 architecture": partial(score, gpt2, lines),
        "satchel, default architecture": partial(score, default, lines),
    }
    first, second, _ = (np.array(run()) for run in variants.values())
    np.testing.assert_allclose(first, second, rtol=1e-4)
    results = list(gpt2.score_texts(lines))
    tokens = sum(result.tokens for result in results)
    print(f"{len(lines):,} lines, {tokens:,} tokens, {gpt2.tokenizer.size:,} types, {torch.get_num_threads()} threads")
    print(f"instruction sets: {', '.join(instruction_sets('cpu'))}; float32; {options.rounds} rounds")
    times = time_alternately(variants, options.rounds, warmup=0)
    for name, seconds in times.items():
        median = statistics.median(seconds)
        ratio = median_ratio(times["transformers GPT-2"], seconds)
        rates = f"{len(lines) / median:9,.0f} lines/s {tokens / median:11,.0f} tokens/s"
        print(f"{name:<30} {median:7.2f} s {rates}  speed / transformers {ratio:5.2f}")


if __name__ == "__main__":
    main()
