"""How fast translations are written: ours, Hugging Face's Marian, and CTranslate2, of the same size.

    python bench/translation.py [--rounds 5] [--layers 6] [--width 512] [--quick]

Random weights, 32 sources of 20 tokens, 20 tokens of each translation, greedy and with a beam of 4; all in turn in one
process, with both cores; medians over the rounds, ratios within a round. CTranslate2 takes part if it is installed.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import MarianConfig, MarianMTModel

from satchel.generation.beam import BeamSettings, translate
from satchel.models.build import build_pair
from satchel.models.transformer_pair import TransformerPairSettings
from satchel.tasks.translation import TranslationNetwork

VOCABULARY, TEXTS, LENGTH = 8000, 32, 20
BEAMS = (1, 4)


def ours(layers: int, width: int, sources: np.ndarray[Any, Any]) -> Callable[[int], None]:
    torch.manual_seed(0)
    settings = TransformerPairSettings(width=width, layers=layers, heads=width // 64, positions="sinusoidal")
    network = TranslationNetwork(build_pair(settings, VOCABULARY + 1, VOCABULARY + 1)).eval()

    def run(beam: int) -> None:
        # The end is one of the tokens that are written.
        found = translate(network, list(sources), (VOCABULARY, VOCABULARY), BeamSettings(beam=beam, longest=LENGTH - 1))
        assert len(found) == TEXTS

    return run


def marian(layers: int, width: int, sources: np.ndarray[Any, Any]) -> Callable[[int], None]:
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=VOCABULARY + 1,
        decoder_vocab_size=VOCABULARY + 1,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=width // 64,
        decoder_attention_heads=width // 64,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        pad_token_id=VOCABULARY,
        eos_token_id=0,
        decoder_start_token_id=VOCABULARY,
        forced_eos_token_id=0,
    )
    model = MarianMTModel(config).eval()
    ids = torch.from_numpy(sources)

    def run(beam: int) -> None:
        with torch.inference_mode():
            found = model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                num_beams=beam,
                do_sample=False,
                min_new_tokens=LENGTH,
                max_new_tokens=LENGTH,
            )
        assert found.shape == (TEXTS, LENGTH + 1)

    return run


def ctranslate2(layers: int, width: int, sources: np.ndarray[Any, Any], folder: Path) -> Callable[[int], None] | None:
    try:
        import ctranslate2 as engine
    except ImportError:
        return None
    spec = engine.specs.TransformerSpec.from_config(layers, width // 64)
    chance = np.random.default_rng(0)

    def linear(part: Any, outputs: int, inputs: int) -> None:
        part.weight = chance.normal(0, 0.02, (outputs, inputs)).astype(np.float32)
        part.bias = np.zeros(outputs, np.float32)

    def norm(part: Any) -> None:
        part.gamma, part.beta = np.ones(width, np.float32), np.zeros(width, np.float32)

    def feedforward(part: Any) -> None:
        norm(part.layer_norm)
        linear(part.linear_0, 4 * width, width)
        linear(part.linear_1, width, 4 * width)

    def own_attention(part: Any) -> None:
        norm(part.layer_norm)
        linear(part.linear[0], 3 * width, width)
        linear(part.linear[1], width, width)

    words = chance.normal(0, 0.02, (VOCABULARY + 1, width)).astype(np.float32)
    for side in (spec.encoder, spec.decoder):
        embeddings = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        embeddings.weight = words
        norm(side.layer_norm)
        for layer in side.layer:
            own_attention(layer.self_attention)
            feedforward(layer.ffn)
    for layer in spec.decoder.layer:
        norm(layer.attention.layer_norm)
        linear(layer.attention.linear[0], width, width)
        linear(layer.attention.linear[1], 2 * width, width)
        linear(layer.attention.linear[2], width, width)
    spec.decoder.projection.weight = words
    spec.decoder.projection.bias = np.zeros(VOCABULARY + 1, np.float32)
    names = [f"w{number}" for number in range(VOCABULARY - 2)] + ["<unk>", "<s>", "</s>"]
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.validate()
    folder.mkdir()
    spec.save(str(folder))
    translator = engine.Translator(str(folder), device="cpu", compute_type="float32", inter_threads=1, intra_threads=2)
    texts = [[names[id_] for id_ in row] for row in sources]

    def run(beam: int) -> None:
        found = translator.translate_batch(
            texts, beam_size=beam, min_decoding_length=LENGTH, max_decoding_length=LENGTH, max_batch_size=TEXTS
        )
        assert len(found) == TEXTS

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--quick", action="store_true", help="a small one, once: it shows that all of it runs")
    options = parser.parse_args()
    if options.quick:
        options.layers, options.width, options.rounds = 1, 64, 1
    sources = np.random.default_rng(0).integers(1, VOCABULARY - 2, (TEXTS, LENGTH))
    with tempfile.TemporaryDirectory() as folder:
        made = {
            "Marian": marian(options.layers, options.width, sources),
            "ours": ours(options.layers, options.width, sources),
            "CTranslate2": ctranslate2(options.layers, options.width, sources, Path(folder) / "model"),
        }
        for beam in BEAMS:
            times: dict[str, list[float]] = {name: [] for name, run in made.items() if run is not None}
            for number in range(options.rounds + 1):
                for name, found in times.items():
                    run = made[name]
                    assert run is not None
                    began = time.perf_counter()
                    run(beam)
                    if number:  # the first of all warms up
                        found.append(time.perf_counter() - began)
            for name, found in times.items():
                ratio = statistics.median(b / a for a, b in zip(found, times["Marian"], strict=True))
                rate = TEXTS / statistics.median(found)
                print(f"beam {beam}  {name:<12} {rate:7.1f} sentences/s  {ratio:5.2f} times as fast as Marian")


if __name__ == "__main__":
    main()
