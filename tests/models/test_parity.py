"""Networks compared with PyTorch's Transformer encoder and Hugging Face's GPT-2."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from satchel.models.transformer import Transformer, gpt2
from satchel.tasks.language import LanguageNetwork


@pytest.mark.item(86)
def test_the_code_of_the_lecture_gives_the_same_encodings() -> None:
    """The slide defines `layers` and uses `encoder_layers`; with one name for both it runs."""
    settings = gpt2(width=16, layers=3, heads=4, norm="post", feedforward="relu", hidden=64)
    ours = Transformer(settings, 11, causal=True).double()
    layers = nn.TransformerEncoderLayer(16, 4, 64, dropout=0.0, batch_first=True, dtype=torch.float64)
    transformer_encoder = nn.TransformerEncoder(layers, num_layers=3, enable_nested_tensor=False)
    pairs: Any = zip(ours.blocks, transformer_encoder.layers, strict=True)
    for mine, theirs in pairs:
        theirs.self_attn.in_proj_weight.data = mine.attention.project.weight.data
        theirs.self_attn.in_proj_bias.data = mine.attention.project.bias.data
        theirs.self_attn.out_proj.load_state_dict(mine.attention.out.state_dict())
        theirs.linear1.load_state_dict(mine.feedforward.widen.state_dict())
        theirs.linear2.load_state_dict(mine.feedforward.narrow.state_dict())
        theirs.norm1.load_state_dict(mine.attention_norm.state_dict())
        theirs.norm2.load_state_dict(mine.feedforward_norm.state_dict())
    length = 9
    mask = torch.triu(torch.ones(length, length, dtype=torch.float64) * float("-inf"), diagonal=1)
    ids = torch.randint(0, 11, (2, length))
    placed = ours._add_positions(ours.embed(ids), 0)
    torch.testing.assert_close(ours.encode(ids), transformer_encoder(placed, mask=mask), rtol=1e-12, atol=1e-12)


@pytest.fixture(scope="module")
def hugging_face() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=53, n_positions=40, n_embd=24, n_layer=3, n_head=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    model: nn.Module = transformers.GPT2LMHeadModel(config).eval()
    for parameter in model.parameters():  # larger than the initial weights, so that every part has an effect
        parameter.data = torch.randn_like(parameter) * 0.2
    return model


def copied(theirs: nn.Module) -> LanguageNetwork:
    """Return our network with the weights of a GPT-2, whose matrices are transposed."""
    settings = gpt2(width=24, layers=3, heads=4, context=40, feedforward="gelu-tanh")
    ours = LanguageNetwork(Transformer(settings, 53, causal=True))
    state = theirs.state_dict()
    names = {
        "embedding.weight": "wte.weight",
        "positions.embedding.weight": "wpe.weight",
        "norm.weight": "ln_f.weight",
        "norm.bias": "ln_f.bias",
    }
    for number in range(3):
        for mine, other in (
            ("attention_norm", "ln_1"),
            ("attention.project", "attn.c_attn"),
            ("attention.out", "attn.c_proj"),
            ("feedforward_norm", "ln_2"),
            ("feedforward.widen", "mlp.c_fc"),
            ("feedforward.narrow", "mlp.c_proj"),
        ):
            for part in ("weight", "bias"):
                names[f"blocks.{number}.{mine}.{part}"] = f"h.{number}.{other}.{part}"
    weights: dict[str, Tensor] = {}
    for mine, other in names.items():
        value = state[f"transformer.{other}"]
        weights[mine] = value.T if other.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")) else value
    ours.encoder.load_state_dict(weights)
    return ours.eval()


def test_logits_equal_those_of_gpt2(hugging_face: nn.Module) -> None:
    ids = torch.randint(0, 53, (4, 40))
    with torch.inference_mode():
        ours, theirs = copied(hugging_face)(ids), hugging_face(ids).logits
    assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()


def test_greedy_continuations_equal_those_of_gpt2(hugging_face: nn.Module) -> None:
    ours, theirs = copied(hugging_face).double(), hugging_face.double()
    generator = torch.Generator().manual_seed(1)
    with torch.inference_mode():
        for number in range(100):
            prompt = torch.randint(0, 53, (1, 1 + number % 9), generator=generator)
            expected = theirs.generate(  # type: ignore[operator]
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=12,
                do_sample=False,
                pad_token_id=0,
                eos_token_id=None,
            )
            state, ids = ours.encoder.start(1), prompt
            encoded, state = ours.encoder.step(prompt, state)
            for _ in range(12):
                following = ours.head(encoded[:, -1:]).argmax(dim=-1)
                ids = torch.cat([ids, following], dim=1)
                encoded, state = ours.encoder.step(following, state)
            assert ids.tolist() == expected.tolist()
    hugging_face.float()
