"""Transformer encoders, causal or not."""

import copy
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, model_validator
from torch import Tensor, nn

from satchel.models.encoder import CausalEncoder, State
from satchel.models.settings import ModelSettings
from satchel.nn.attention import Heads, KeyValues, MultiHead, Scale
from satchel.nn.blocks import Activation, Block, FeedForward, Norm
from satchel.nn.dropout import Dropout
from satchel.nn.norms import NormKind, make_norm
from satchel.nn.positions import Alibi, Learned, Positions, Rotary, Sinusoidal

# The maps whose output is added to the stream.
ADDING = ("attention.out.weight", "cross.out.weight", "feedforward.narrow.weight")


class TransformerSettings(ModelSettings):
    """A Transformer: blocks of multi-head attention and feed-forward nets."""

    kind: Literal["transformer"] = Field("transformer", description="blocks of attention and feed-forward nets")
    width: int = Field(128, ge=1, description="of all vectors (d_model)")
    layers: int = Field(4, ge=0, le=512, description="blocks")
    heads: int = Field(4, ge=1, description="of attention in each block")
    context: int = Field(128, ge=1, description="the most positions seen at once")
    positions: Positions = Field("rotary", description="none, learned, sinusoidal, rotary or alibi")
    attention: Heads = Field("canonical", description="what a head projects: canonical, narrow or wide")
    scale: Scale = Field("head", description="scores are divided by the root of the head's width, or of the width")
    layer_scale: bool = Field(False, description="scores are also divided by the number of their layer")
    key_width: int | None = Field(None, ge=1, description="of a head's queries and keys (d_k)")
    value_width: int | None = Field(None, ge=1, description="of a head's values (d_v)")
    normalise: bool = Field(True, description="norm queries and keys")
    norm: Norm = Field("pre", description="before each part, after the sum, or none")
    norm_kind: NormKind = Field("layer", description="layer or rms")
    residual: bool = Field(True, description="add what comes into a part to what comes out of it")
    feedforward: Activation = Field("squared-relu", description="relu, gelu, gelu-tanh, squared-relu or swiglu")
    hidden: int | None = Field(None, ge=1, description="of the feed-forward nets; 4 times the width")
    bias: bool = Field(False, description="linear maps and norms have a bias")
    dropout: float = Field(0.0, ge=0, lt=1, description="the share of numbers that are left out in training")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="the share of attention left out in training; slow")

    @model_validator(mode="after")
    def _heads_fit(self) -> "TransformerSettings":
        given = self.key_width is not None and self.value_width is not None
        if self.attention != "wide" and self.width % self.heads and (self.attention == "narrow" or not given):
            raise ValueError(f"expected heads that divide the width: {self.heads} do not divide {self.width}")
        if self.attention == "narrow" and {self.key_width, self.value_width} - {None, self.width // self.heads}:
            raise ValueError("expected no key_width or value_width: narrow heads have the width of their part")
        if self.positions == "rotary" and (self.head_width % 2):
            raise ValueError(f"expected an even head width for rotary positions: it is {self.head_width}")
        return self

    @property
    def head_width(self) -> int:
        """The width of a head's queries and keys."""
        return self.key_width or (self.width if self.attention == "wide" else self.width // self.heads)

    @property
    def hidden_width(self) -> int:
        """The width of the feed-forward nets' hidden layer."""
        # A gate takes a third matrix: two thirds of the width keep the count of parameters.
        return self.hidden or (8 * self.width // 3 if self.feedforward == "swiglu" else 4 * self.width)


def gpt2(**options: Any) -> TransformerSettings:
    """Return settings as GPT-2 and its kin have them; the usual ones learn quicker."""
    own = {"positions": "learned", "normalise": False, "feedforward": "gelu", "bias": True}
    return TransformerSettings.model_validate({**own, **options})


@dataclass
class Memory:
    """What every block has read of other texts, and which places hold something: (B, 1, 1, S), or all do."""

    blocks: list[KeyValues]
    mask: Tensor | None = None

    def select(self, rows: Tensor) -> "Memory":
        """Return what was read of some of the texts."""
        return Memory([block.select(rows) for block in self.blocks], None if self.mask is None else self.mask[rows])


@dataclass
class TransformerState:
    """The keys and values of every block, how many positions were read, and the memory that is looked at."""

    blocks: list[KeyValues]
    length: int
    memory: Memory | None = None

    def select(self, rows: Tensor, texts: Tensor | None = None) -> "TransformerState":
        """Return the state of some rows; of what was read of other texts, all or some."""
        memory = self.memory if texts is None or self.memory is None else self.memory.select(texts)
        return TransformerState([block.select(rows) for block in self.blocks], self.length, memory)


class Transformer(CausalEncoder):
    """Words with positions, through a stack of blocks. With `reads`, each of them looks at a memory too."""

    def __init__(self, settings: TransformerSettings, vocabulary: int, *, causal: bool, reads: bool = False) -> None:
        super().__init__(vocabulary, settings.width, causal=causal)
        self.settings = settings
        self.context = settings.context
        self.positions = _positions(settings)
        self.dropout = Dropout(settings.dropout)
        self.blocks = nn.ModuleList(_block(settings, layer, reads) for layer in range(settings.layers))
        final = settings.norm == "pre" and settings.layers > 0
        self.norm = make_norm(settings.norm_kind, settings.width, settings.bias) if final else nn.Identity()
        self._initialise()

    def _initialise(self) -> None:
        """Begin with small normal weights; with blocks that add nothing to the stream yet: they learn quicker so."""
        for name, parameter in self.named_parameters():
            adds = name.endswith(ADDING) and self.settings.residual
            if adds or name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def contextualise(self, x_BTD: Tensor, keep_BT: Tensor | None = None, memory: Memory | None = None) -> Tensor:
        """Return the vectors after all blocks."""
        mask = None if keep_BT is None else keep_BT[:, None, None, :]
        x_BTD = self._placed(x_BTD, 0)
        for block, looked_at in zip(self.blocks, self._memories(memory), strict=True):
            x_BTD = block(x_BTD, mask=mask, causal=self.causal, **looked_at)
        normed: Tensor = self.norm(x_BTD)
        return normed

    def read(self, memory_BSD: Tensor, keep_BS: Tensor | None = None) -> Memory:
        """Return what every block reads of other texts, whose encodings these are."""
        blocks = [block.cross.read(memory_BSD) for block in self.blocks if isinstance(block, Block) and block.cross]
        return Memory(blocks, None if keep_BS is None else keep_BS[:, None, None, :])

    def _memories(self, memory: Memory | None) -> list[dict[str, Any]]:
        if memory is None:
            return [{}] * len(self.blocks)
        return [{"memory": read, "memory_mask": memory.mask} for read in memory.blocks]

    def _placed(self, x_BTD: Tensor, start: int) -> Tensor:
        length = x_BTD.shape[1]
        if isinstance(self.positions, Learned):
            assert start + length <= self.context, f"found {start + length} positions, expected {self.context}"
        if self.positions is not None:
            x_BTD = x_BTD + self.positions(start, length).to(x_BTD)
        placed: Tensor = self.dropout(x_BTD)
        return placed

    def start(self, batch: int, memory: Memory | None = None) -> TransformerState:
        """Return the state of nothing read."""
        del batch
        return TransformerState([KeyValues() for _ in self.blocks], 0, memory)

    def step_vectors(self, x_BTD: Tensor, state: State) -> tuple[Tensor, TransformerState]:
        """Return the encodings of the next vectors."""
        assert isinstance(state, TransformerState)
        after = [copy.copy(before) for before in state.blocks]
        x_BTD = self._placed(x_BTD, state.length)
        for block, past, looked_at in zip(self.blocks, after, self._memories(state.memory), strict=True):
            x_BTD = block(x_BTD, causal=True, past=past, **looked_at)
        return self.norm(x_BTD), TransformerState(after, state.length + x_BTD.shape[1], state.memory)


def _positions(settings: TransformerSettings) -> Learned | Sinusoidal | None:
    """Return what is added to the words, if anything is."""
    if settings.positions == "learned":
        return Learned(settings.context, settings.width)
    return Sinusoidal(settings.width) if settings.positions == "sinusoidal" else None


def _block(settings: TransformerSettings, layer: int, reads: bool) -> Block:
    compared: Rotary | Alibi | None = None
    if settings.positions == "rotary":
        compared = Rotary(settings.head_width)
    elif settings.positions == "alibi":
        compared = Alibi(settings.heads)
    attention = _attention(settings, layer, compared)
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
        # Places of two texts are not compared: what stands there is.
        cross=_attention(settings, layer, None) if reads else None,
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
