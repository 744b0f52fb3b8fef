"""Decoding speed of translation: Satchel against Hugging Face's Marian and CTranslate2 with the same model size.

    python bench/translation.py [--rounds 5] [--layers 6] [--width 512] [--quick]

Random weights, 32 sources of 20 tokens, 20 target tokens each, greedy and with beam size 4; all alternate in one
process on two cores. Medians over the rounds, ratios within a round. CTranslate2 is skipped if it is not installed.
"""

import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import MarianConfig, MarianMTModel

from measure import median_ratio, parser, time_alternately
from satchel.generation.beam import BeamSettings, translate
from satchel.models.build import build_pair
from satchel.models.transformer_pair import TransformerPairSettings
from satchel.tasks.translation import TranslationNetwork

VOCABULARY, TEXTS, LENGTH = 8000, 32, 20
BEAMS = (1, 4)

Translate = Callable[[int], None]  # translates all sources with the given beam size


def satchel(layers: int, width: int, sources: np.ndarray[Any, Any]) -> Translate:
    """Return Satchel's Transformer."""
    torch.manual_seed(0)
    settings = TransformerPairSettings(width=width, layers=layers, heads=width // 64, positions="sinusoidal")
    network = TranslationNetwork(build_pair(settings, VOCABULARY + 1, VOCABULARY + 1)).eval()

    def run(beam: int) -> None:
        # The end token counts as one of the target tokens.
        settings = BeamSettings(beam=beam, longest=LENGTH - 1)
        assert len(translate(network, list(sources), (VOCABULARY, VOCABULARY), settings)) == TEXTS

    return run


def marian(layers: int, width: int, sources: np.ndarray[Any, Any]) -> Translate:
    """Return Hugging Face's Marian."""
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
            ids_BT = model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                num_beams=beam,
                do_sample=False,
                min_new_tokens=LENGTH,
                max_new_tokens=LENGTH,
            )
        assert ids_BT.shape == (TEXTS, LENGTH + 1)

    return run


def ctranslate2(layers: int, width: int, sources: np.ndarray[Any, Any], folder: Path) -> Translate | None:
    """Return CTranslate2, or None if it is not installed."""
    try:
        import ctranslate2 as engine
    except ImportError:
        return None
    spec = engine.specs.TransformerSpec.from_config(layers, width // 64)
    rng = np.random.default_rng(0)

    def linear(part: Any, outputs: int, inputs: int) -> None:
        part.weight = rng.normal(0, 0.02, (outputs, inputs)).astype(np.float32)
        part.bias = np.zeros(outputs, np.float32)

    def norm(part: Any) -> None:
        part.gamma, part.beta = np.ones(width, np.float32), np.zeros(width, np.float32)

    def feedforward(part: Any) -> None:
        norm(part.layer_norm)
        linear(part.linear_0, 4 * width, width)
        linear(part.linear_1, width, 4 * width)

    def self_attention(part: Any) -> None:
        norm(part.layer_norm)
        linear(part.linear[0], 3 * width, width)
        linear(part.linear[1], width, width)

    embedding = rng.normal(0, 0.02, (VOCABULARY + 1, width)).astype(np.float32)
    for side in (spec.encoder, spec.decoder):
        embeddings = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        embeddings.weight = embedding
        norm(side.layer_norm)
        for layer in side.layer:
            self_attention(layer.self_attention)
            feedforward(layer.ffn)
    for layer in spec.decoder.layer:
        norm(layer.attention.layer_norm)
        linear(layer.attention.linear[0], width, width)
        linear(layer.attention.linear[1], 2 * width, width)
        linear(layer.attention.linear[2], width, width)
    spec.decoder.projection.weight = embedding
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
        results = translator.translate_batch(
            texts, beam_size=beam, min_decoding_length=LENGTH, max_decoding_length=LENGTH, max_batch_size=TEXTS
        )
        assert len(results) == TEXTS

    return run


def main() -> None:
    arguments = parser(__doc__, "--quick", rounds=5)
    arguments.add_argument("--layers", type=int, default=6, help="layers of the encoder and of the decoder")
    arguments.add_argument("--width", type=int, default=512, help="width of the model; heads have width 64")
    options = arguments.parse_args()
    if options.quick:
        options.layers, options.width, options.rounds = 1, 64, 1
    sources = np.random.default_rng(0).integers(1, VOCABULARY - 2, (TEXTS, LENGTH))
    with tempfile.TemporaryDirectory() as folder:
        variants = {
            "Marian": marian(options.layers, options.width, sources),
            "satchel": satchel(options.layers, options.width, sources),
            "CTranslate2": ctranslate2(options.layers, options.width, sources, Path(folder) / "model"),
        }
        for beam in BEAMS:
            calls = {name: partial(run, beam) for name, run in variants.items() if run is not None}
            times = time_alternately(calls, options.rounds)
            for name, seconds in times.items():
                speed = median_ratio(times["Marian"], seconds)
                rate = TEXTS / statistics.median(seconds)
                print(f"beam {beam}  {name:<12} {rate:7.1f} sentences/s  speed / Marian {speed:5.2f}")


if __name__ == "__main__":
    main()
