"""Speed of decoding: Satchel against Hugging Face transformers and CTranslate2.

    python bench/decoding.py [--size small|gpt2] [--batch 1 16] [--tokens 128] [--rounds 7] [--quick]
    python bench/decoding.py --run RUN TEXT      # speculative decoding of a run against plain decoding

Greedy decoding after a prompt of 8 tokens. Satchel (GPT-2 architecture), Hugging Face and CTranslate2 have the same
random weights; the other variants of Satchel have the default architecture, a Backpack with 16 senses and int8
weights. All variants run in one process in rounds, in float32 unless the name states otherwise. The time includes the
encoding of the prompt and the choice of the tokens. CTranslate2 is skipped if it is not installed. Times are medians,
ratios are medians of the ratios of a round.

With a run, prompts are taken from the text, and the tokens of both variants are compared.
"""

import argparse
import importlib.util
import statistics
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from measure import median_ratio, parser, processor_flags, time_alternately
from satchel import api
from satchel.generation.batch import Request, generate_tokens
from satchel.generation.sampling import Sampling
from satchel.models.backpack import BackpackSettings
from satchel.models.build import build_encoder
from satchel.models.transformer import TransformerSettings, gpt2
from satchel.nn.inference_layers import DecodingPrecision, Products
from satchel.predictor import Predictor
from satchel.tasks.language import LanguageNetwork, NetworkPredictor
from satchel.text.tokenizer import Tokenizer

PROMPT = list(range(1, 9))
CONTEXT = 512


@dataclass(frozen=True)
class Size:
    """Shape of a model."""

    layers: int
    width: int
    heads: int
    vocabulary: int


SIZES = {"small": Size(6, 384, 6, 8_000), "gpt2": Size(12, 768, 12, 50_257)}
Generate = Callable[[int, int], list[list[int]]]  # of the batch size and the number of tokens; returns the new ids


# --- Satchel -----------------------------------------------------------------------------------------


class Ids:
    """The part of a tokenizer that decoding uses: random weights have no text, and no token ends a document."""

    def __init__(self, vocabulary: int) -> None:
        self.size = self.boundary = vocabulary
        self.unknown, self.kind, self.spellings = None, "char", [""] * vocabulary


def satchel(network: LanguageNetwork, vocabulary: int, precision: DecodingPrecision = "float32") -> Generate:
    """Return a function that decodes with a network."""
    predictor = NetworkPredictor(network.eval(), vocabulary)
    predictor.products = Products(precision)
    tokenizer: Any = Ids(vocabulary)

    def generate(batch: int, tokens: int) -> list[list[int]]:
        sampling = Sampling(tokens=tokens, greedy=True)
        requests = [Request("", np.array(PROMPT[1:]), sampling, number) for number in range(batch)]
        # The prompt includes the boundary, which is an ordinary token for the other implementations.
        tokenizer.boundary = PROMPT[0]
        return collect(predictor, tokenizer, requests)

    return generate


def collect(predictor: Predictor, tokenizer: Tokenizer, requests: Iterable[Request]) -> list[list[int]]:
    """Return the ids of all continuations."""
    continuations = {token.continuation: None for token in generate_tokens(predictor, tokenizer, list(requests))}
    return [continuation.ids for continuation in continuations]


def new_network(settings: Any, size: Size) -> LanguageNetwork:
    """Return a network with random weights: initial weights of blocks are zero."""
    torch.manual_seed(0)
    network = LanguageNetwork(build_encoder(settings, size.vocabulary, causal=True))
    for parameter in network.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.02)
    return network


# --- other implementations ---------------------------------------------------------------------------


def hugging_face_model(network: LanguageNetwork, size: Size) -> Any:
    """Return Hugging Face's GPT-2 with the weights of a network."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=size.vocabulary, n_positions=CONTEXT, n_embd=size.width, n_layer=size.layers, n_head=size.heads,
        activation_function="gelu", bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).eval()
    encoder: Any = network.encoder
    state: dict[str, Any] = {"transformer.wte": encoder.embedding, "transformer.wpe": encoder.positions.embedding}
    for number, block in enumerate(encoder.blocks):
        state |= {
            f"transformer.h.{number}.{name}": module
            for name, module in {
                "ln_1": block.attention_norm, "ln_2": block.feedforward_norm,
                "attn.c_attn": block.attention.project, "attn.c_proj": block.attention.out,
                "mlp.c_fc": block.feedforward.widen, "mlp.c_proj": block.feedforward.narrow,
            }.items()
        }  # fmt: skip
    state["transformer.ln_f"] = encoder.norm
    with torch.no_grad():
        for name, module in state.items():
            target = model.get_submodule(name)
            is_transposed = ".attn." in name or ".mlp." in name
            target.weight.copy_(module.weight.T if is_transposed else module.weight)
            if getattr(target, "bias", None) is not None:
                target.bias.copy_(module.bias)
    return model


def hugging_face(model: Any) -> Generate:
    """Return a function that decodes with Hugging Face's `generate`."""

    def generate(batch: int, tokens: int) -> list[list[int]]:
        ids_BT = torch.tensor([PROMPT] * batch)
        with torch.inference_mode():
            outputs = model.generate(
                ids_BT, attention_mask=torch.ones_like(ids_BT), max_new_tokens=tokens, min_new_tokens=tokens,
                do_sample=False, pad_token_id=0,
            )  # fmt: skip
        generated: list[list[int]] = outputs[:, len(PROMPT) :].tolist()
        return generated

    return generate


def ctranslate2(model: Any, size: Size, compute_type: str, threads: int) -> Generate:
    """Return a function that decodes with CTranslate2."""
    import ctranslate2
    from ctranslate2.converters.converter import Converter
    from ctranslate2.converters.transformers import GPT2Loader

    class InMemory(Converter):  # type: ignore[misc]
        def _load(self) -> Any:
            spec = GPT2Loader().get_model_spec(model)
            spec.register_vocabulary([str(id_) for id_ in range(size.vocabulary)])
            for token in ("unk", "bos", "eos"):
                setattr(spec.config, f"{token}_token", "0")
            return spec

    with tempfile.TemporaryDirectory() as folder:
        InMemory().convert(f"{folder}/model")
        generator = ctranslate2.Generator(f"{folder}/model", compute_type=compute_type, intra_threads=threads)

    def generate(batch: int, tokens: int) -> list[list[int]]:
        results = generator.generate_batch(
            [[str(id_) for id_ in PROMPT]] * batch, max_length=tokens, min_length=tokens, sampling_topk=1,
            include_prompt_in_result=False,
        )  # fmt: skip
        return [result.sequences_ids[0] for result in results]

    return generate


# --- measurement -------------------------------------------------------------------------------------


def main() -> None:
    arguments = parser(__doc__, "--quick", rounds=7)
    arguments.add_argument("--size", choices=[*SIZES, "both"], default="both", help="sizes to measure")
    arguments.add_argument("--batch", type=int, nargs="+", default=[1, 16], help="numbers of rows")
    arguments.add_argument("--tokens", type=int, default=128, help="generated tokens per row")
    arguments.add_argument("--run", nargs=2, metavar=("RUN", "TEXT"), help="measure speculative decoding of a run")
    options = arguments.parse_args()
    if options.quick:
        options.tokens, options.rounds, options.size = 4, 1, "small"
    print(f"Processor: {processor_flags()}; {torch.get_num_threads()} threads\n")
    if options.run:
        run, text_file = options.run
        _speculative(run, text_file, options)
        return
    for name in SIZES if options.size == "both" else [options.size]:
        for batch in options.batch:
            _compare(name, SIZES[name], batch, options)


def _compare(name: str, size: Size, batch: int, options: argparse.Namespace) -> None:
    """Time all variants and print one row for each."""
    shape: dict[str, Any] = {"width": size.width, "layers": size.layers, "heads": size.heads, "context": CONTEXT}
    network = new_network(gpt2(**shape), size)
    model = hugging_face_model(network, size)
    threads = torch.get_num_threads()
    variants: dict[str, Generate] = {
        "satchel, GPT-2 architecture": satchel(network, size.vocabulary),
        "satchel, default architecture": satchel(new_network(TransformerSettings(**shape), size), size.vocabulary),
        "satchel, Backpack, 16 senses": satchel(
            new_network(BackpackSettings(**shape, senses=16), size), size.vocabulary
        ),
        "satchel, GPT-2 architecture, int8": satchel(network, size.vocabulary, "int8"),
        "Hugging Face": hugging_face(model),
    }
    if importlib.util.find_spec("ctranslate2"):
        for key, compute_type in (("CTranslate2", "float32"), ("CTranslate2, int8", "int8")):
            variants[key] = ctranslate2(model, size, compute_type, threads)
    tokens = options.tokens if name == "small" else max(1, options.tokens // 4)
    reference, *_ = variants["Hugging Face"](1, tokens)
    same = sum(a == b for a, b in zip(variants["satchel, GPT-2 architecture"](1, tokens)[0], reference, strict=True))
    calls = {key: lambda generate=generate: generate(batch, tokens) for key, generate in variants.items()}
    seconds = time_alternately(calls, options.rounds)
    print(
        f"**{name}**: {size.layers} layers, width {size.width}, vocabulary {size.vocabulary:,}, batch {batch}, "
        f"{tokens} tokens; {same} of {tokens} tokens of Satchel equal those of Hugging Face\n"
    )
    print("| variant | tokens/s | ms per step | speed / Hugging Face | speed / CTranslate2 |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for key, times in seconds.items():
        median = statistics.median(times)
        peers = (seconds.get(peer) for peer in ("Hugging Face", "CTranslate2"))
        ratios = [f"{median_ratio(peer, times):.2f}" if peer else "-" for peer in peers]
        print(f"| {key} | {batch * tokens / median:,.0f} | {1000 * median / tokens:.2f} | {' | '.join(ratios)} |")
    print(flush=True)


def _speculative(run: str, text_file: str, options: argparse.Namespace) -> None:
    """Compare speculative with plain decoding of prompts from a text."""
    model = api.load(run, task="lm")
    with open(text_file, encoding="utf-8") as file:
        ids = model.tokenizer.encode(file.read(1 << 20)).ids
    starts = np.random.default_rng(0).integers(0, len(ids) - 32, 2 if options.quick else 12)
    prompts = [ids[start : start + 32] for start in starts]
    print("| temperature | plain tokens/s | speculative tokens/s | speed / plain | equal texts |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for temperature in (0.0, 0.8):
        outputs: dict[str, list[list[int]]] = {}

        def generate(mode: str, temperature: float = temperature, outputs: Any = outputs) -> None:
            sampling = Sampling(tokens=options.tokens, temperature=temperature, speculative=mode)  # type: ignore[arg-type]
            outputs[mode] = [
                ids
                for number, prompt in enumerate(prompts)
                for ids in collect(model.predictor, model.tokenizer, [Request("", prompt, sampling, number)])
            ]

        calls = {mode: lambda mode=mode: generate(mode) for mode in ("off", "on")}
        seconds = time_alternately(calls, options.rounds)
        rates = [sum(map(len, outputs[mode])) / statistics.median(seconds[mode]) for mode in ("off", "on")]
        same = sum(a == b for a, b in zip(outputs["off"], outputs["on"], strict=True))
        ratio = median_ratio(seconds["off"], seconds["on"])
        print(f"| {temperature} | {rates[0]:,.0f} | {rates[1]:,.0f} | {ratio:.2f} | {same} of {len(prompts)} |")


if __name__ == "__main__":
    main()
