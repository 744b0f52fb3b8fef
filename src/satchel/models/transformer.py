"""Transformer encoders, causal or bidirectional.

Shapes: B batch, T time, S source time, D width.
"""

import copy
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, model_validator
from torch import Tensor, nn

from satchel.models.encoder import CausalEncoder, Contextualiser, State, discard_embedding_draws
from satchel.models.settings import DROPOUT, LARGEST_CONTEXT, LARGEST_WIDTH, ModelSettings
from satchel.nn.attention import Heads, MultiHead, Scale
from satchel.nn.blocks import Activation, Block, FeedForward, Norm
from satchel.nn.dropout import Dropout
from satchel.nn.kv_cache import KeyValues
from satchel.nn.norms import NormKind, make_norm
from satchel.nn.positions import Alibi, Learned, Positions, Rotary, Sinusoidal

# Matrices whose output is added to the residual stream.
RESIDUAL_OUTPUTS = ("attention.out.weight", "cross.out.weight", "feedforward.narrow.weight")


class TransformerSettings(ModelSettings):
    """Settings of a Transformer."""

    kind: Literal["transformer"] = Field("transformer", description="Blocks of self-attention and feed-forward network")
    width: int = Field(128, ge=1, le=LARGEST_WIDTH, description="Size of embeddings and hidden states (d_model)")
    layers: int = Field(4, ge=0, le=512, description="Number of blocks")
    heads: int = Field(4, ge=1, le=LARGEST_WIDTH, description="Number of attention heads per block")
    context: int = Field(128, ge=1, le=LARGEST_CONTEXT, description="Maximum number of tokens in the context window")
    positions: Positions = Field(
        "rotary", description="Position encoding: none, learned, sinusoidal, rotary (RoPE) or alibi"
    )
    attention: Heads = Field(
        "canonical",
        description="Heads project the input to width/heads (canonical), a slice of it (narrow) or to width (wide)",
    )
    scale: Scale = Field(
        "head",
        description="Divide attention scores by the square root of the head width (head), of the width, or by 1 (none)",
    )
    layer_scale: bool = Field(False, description="Also divide the attention scores of layer i (from 1) by i")
    key_width: int | None = Field(
        None, ge=1, le=LARGEST_WIDTH, description="Size of a head's queries and keys (d_k); default width/heads"
    )
    value_width: int | None = Field(
        None, ge=1, le=LARGEST_WIDTH, description="Size of a head's values (d_v); default width/heads"
    )
    normalise: bool = Field(True, description="Normalise queries and keys (QK norm)")
    norm: Norm = Field("pre", description="Norm before each sublayer (pre), after the residual sum (post) or none")
    norm_kind: NormKind = Field("layer", description="LayerNorm (layer) or RMSNorm (rms)")
    residual: bool = Field(True, description="Residual connections around attention and feed-forward network")
    feedforward: Activation = Field(
        "squared-relu", description="Activation function: relu, gelu, gelu-tanh, squared-relu or swiglu"
    )
    hidden: int | None = Field(
        None,
        ge=1,
        le=LARGEST_WIDTH,
        description="Size of the feed-forward hidden layer; default 4 width, or 8/3 width with swiglu",
    )
    bias: bool = Field(False, description="Bias in linear layers and norms")
    causal: bool | None = Field(
        None, description="lm: false removes the causal mask, so that a position sees its target; default true"
    )
    dropout: float = DROPOUT
    attention_dropout: float = Field(
        0.0, ge=0, lt=1, description="Fraction of attention weights dropped in training; slow"
    )

    @model_validator(mode="after")
    def _heads_fit(self) -> "TransformerSettings":
        has_widths = self.key_width is not None and self.value_width is not None
        if self.attention != "wide" and self.width % self.heads and (self.attention == "narrow" or not has_widths):
            raise ValueError(f"expected heads to divide width ({self.heads} does not divide {self.width})")
        if self.attention == "narrow" and {self.key_width, self.value_width} - {None, self.width // self.heads}:
            raise ValueError("expected no key_width or value_width with attention=narrow: both are width/heads")
        if self.positions == "rotary" and self.head_width % 2:
            raise ValueError(f"expected an even head width with positions=rotary (it is {self.head_width})")
        return self

    @property
    def head_width(self) -> int:
        """Size of a head's queries and keys."""
        return self.key_width or (self.width if self.attention == "wide" else self.width // self.heads)

    @property
    def hidden_width(self) -> int:
        """Size of the feed-forward hidden layer."""
        # SwiGLU has a third matrix: 2/3 of the size keeps the number of parameters.
        return self.hidden or (8 * self.width // 3 if self.feedforward == "swiglu" else 4 * self.width)


def gpt2(**options: Any) -> TransformerSettings:
    """Return settings of the GPT-2 architecture; the defaults of `TransformerSettings` learn faster."""
    architecture = {"positions": "learned", "normalise": False, "feedforward": "gelu", "bias": True}
    return TransformerSettings.model_validate({**architecture, **options})


@dataclass
class CrossAttentionMemory:
    """Source keys and values of every block, and the padding mask (B, 1, 1, S); None without padding."""

    blocks: list[KeyValues]
    mask: Tensor | None = None

    def select(self, rows: Tensor) -> "CrossAttentionMemory":
        """Return the memory of the given sources."""
        mask = None if self.mask is None else self.mask[rows]
        return CrossAttentionMemory([block.select(rows) for block in self.blocks], mask)


@dataclass
class TransformerState:
    """The KV cache of every block, the number of positions in it, and the memory for cross-attention."""

    blocks: list[KeyValues]
    length: int
    memory: CrossAttentionMemory | None = None

    def select(self, rows: Tensor, texts: Tensor | None = None) -> "TransformerState":
        """Return the state of the given rows; with `texts`, the memory of those sources only."""
        memory = self.memory if texts is None or self.memory is None else self.memory.select(texts)
        return TransformerState([block.select(rows) for block in self.blocks], self.length, memory)


class TransformerContextualiser(Contextualiser):
    """Positions, a stack of blocks, and a final norm if the blocks are pre-norm."""

    context: int

    def __init__(self, settings: TransformerSettings, *, causal: bool) -> None:
        super().__init__(settings.width, causal=causal)
        discard_embedding_draws(settings.width, times=2)
        self._add_layers(settings)
        discard_embedding_draws(settings.width)
        self._initialise()

    def _add_layers(self, settings: TransformerSettings, *, cross_attention: bool = False) -> None:
        self.settings, self.context = settings, settings.context
        self.positions = _positions(settings)
        self.dropout = Dropout(settings.dropout)
        self.blocks = nn.ModuleList(_block(settings, layer, cross_attention) for layer in range(settings.layers))
        has_final_norm = settings.norm == "pre" and settings.layers > 0
        self.norm = make_norm(settings.norm_kind, settings.width, settings.bias) if has_final_norm else nn.Identity()

    def _initialise(self) -> None:
        """Set matrices to N(0, 0.02), biases and the last matrix of each sublayer to zero.

        Each block is the identity at first, which speeds up training.
        """
        for name, parameter in self.named_parameters():
            is_output = name.endswith(RESIDUAL_OUTPUTS) and self.settings.residual
            if is_output or name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def contextualise(
        self, x_BTD: Tensor, keep_BT: Tensor | None = None, memory: CrossAttentionMemory | None = None
    ) -> Tensor:
        """Return the output of the last block."""
        mask = None if keep_BT is None else keep_BT[:, None, None, :]
        x_BTD = self._add_positions(x_BTD, 0)
        for block, cross_inputs in zip(self.blocks, self._cross_inputs(memory), strict=True):
            x_BTD = block(x_BTD, mask=mask, causal=self.causal, **cross_inputs)
        normed: Tensor = self.norm(x_BTD)
        return normed

    def read(self, source_BSD: Tensor, keep_BS: Tensor | None = None) -> CrossAttentionMemory:
        """Return the cross-attention keys and values of encoded sources for every block."""
        blocks = [block.cross.read(source_BSD) for block in self.blocks if isinstance(block, Block) and block.cross]
        return CrossAttentionMemory(blocks, None if keep_BS is None else keep_BS[:, None, None, :])

    def _cross_inputs(self, memory: CrossAttentionMemory | None) -> list[dict[str, Any]]:
        if memory is None:
            return [{}] * len(self.blocks)
        return [{"memory": keys_values, "memory_mask": memory.mask} for keys_values in memory.blocks]

    def _add_positions(self, x_BTD: Tensor, start: int) -> Tensor:
        length = x_BTD.shape[1]
        if isinstance(self.positions, Learned):
            assert start + length <= self.context, f"found {start + length} positions, expected {self.context}"
        if self.positions is not None:
            x_BTD = x_BTD + self.positions(start, length).to(x_BTD)
        return self.dropout(x_BTD)

    def start(self, batch: int, memory: CrossAttentionMemory | None = None) -> TransformerState:
        """Return an empty KV cache."""
        del batch
        return TransformerState([KeyValues() for _ in self.blocks], 0, memory)

    def step_vectors(self, x_BTD: Tensor, state: State) -> tuple[Tensor, TransformerState]:
        """Return the output of the last block at the next positions, and the state after them."""
        assert isinstance(state, TransformerState)
        caches = [copy.copy(cache) for cache in state.blocks]
        x_BTD = self._add_positions(x_BTD, state.length)
        for block, cache, cross_inputs in zip(self.blocks, caches, self._cross_inputs(state.memory), strict=True):
            x_BTD = block(x_BTD, causal=True, past=cache, **cross_inputs)
        return self.norm(x_BTD), TransformerState(caches, state.length + x_BTD.shape[1], state.memory)


class Transformer(TransformerContextualiser, CausalEncoder):
    """A Transformer on token embeddings. With `cross_attention`, each block also attends to a memory."""

    def __init__(
        self, settings: TransformerSettings, vocabulary: int, *, causal: bool, cross_attention: bool = False
    ) -> None:
        CausalEncoder.__init__(self, vocabulary, settings.width, causal=causal)
        self._add_layers(settings, cross_attention=cross_attention)
        self._initialise()


def _positions(settings: TransformerSettings) -> Learned | Sinusoidal | None:
    """Return the encoding that is added to the embeddings; None if positions enter by attention or not at all."""
    if settings.positions == "learned":
        return Learned(settings.context, settings.width)
    return Sinusoidal(settings.width) if settings.positions == "sinusoidal" else None


def _block(settings: TransformerSettings, layer: int, cross_attention: bool) -> Block:
    positions: Rotary | Alibi | None = None
    if settings.positions == "rotary":
        positions = Rotary(settings.head_width)
    elif settings.positions == "alibi":
        positions = Alibi(settings.heads)
    attention = _attention(settings, layer, positions)
    feedforward = FeedForward(
        settings.width, settings.hidden_width, settings.feedforward, bias=settings.bias, dropout=settings.dropout
    )
    return Block(
        attention,
        feedforward,
        norm=settings.norm,
        norm_kind=settings.norm_kind,
        residual=settings.residual,
        dropout=settings.dropout,
        bias=settings.bias,
        # Relative positions are undefined between a source and a target.
        cross=_attention(settings, layer, None) if cross_attention else None,
    )


def _attention(settings: TransformerSettings, layer: int, positions: Rotary | Alibi | None) -> MultiHead:
    return MultiHead(
        settings.width,
        settings.heads,
        kind=settings.attention,
        key_width=settings.key_width,
        value_width=settings.value_width,
        scale=settings.scale,
        divisor=layer + 1 if settings.layer_scale else 1,
        bias=settings.bias,
        normalise=settings.norm_kind if settings.normalise else None,
        dropout=settings.attention_dropout,
        positions=positions,
    )
