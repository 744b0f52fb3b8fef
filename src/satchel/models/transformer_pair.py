"""Transformer encoder-decoder: a bidirectional encoder of the source and a causal decoder with cross-attention.

Shapes: B sources, R target rows, S source time, T target time, D width.
"""

from typing import Any, Literal

from pydantic import Field
from torch import Tensor, nn

from satchel.models.pair import PairModel
from satchel.models.settings import DECODER_LAYERS, PAIR_CONTEXT, SHARED
from satchel.models.transformer import CrossAttentionMemory, Transformer, TransformerSettings, TransformerState


class TransformerPairSettings(TransformerSettings):
    """Settings of a Transformer that translates."""

    form: Literal["encoder-decoder", "decoder-only"] = Field(
        "encoder-decoder", description="decoder-only: one Transformer reads source and target as one sequence"
    )
    decoder_layers: int | None = DECODER_LAYERS
    shared: bool = SHARED
    context: int = PAIR_CONTEXT


class TransformerPair(PairModel):
    """An encoder (`reader`) and a decoder (`writer`) with cross-attention (Vaswani et al., 2017)."""

    def __init__(
        self,
        settings: TransformerSettings,
        source_vocabulary: int,
        vocabulary: int,
        *,
        layers: int | None,
        shared: bool,
    ) -> None:
        super().__init__(settings.width, settings.width)
        self.context = settings.context
        self.reader = Transformer(settings, source_vocabulary, causal=False)
        decoder_settings = settings.model_copy(update={"layers": settings.layers if layers is None else layers})
        # With a shared embedding, the decoder's is a placeholder.
        self.writer = Transformer(decoder_settings, 1 if shared else vocabulary, causal=True, cross_attention=True)
        if shared:
            self.writer.embedding = self.reader.embedding

    @property
    def words(self) -> nn.Embedding:
        """The embedding of target tokens."""
        return self.writer.embedding

    def read(self, source_BS: Tensor, keep_BS: Tensor | None = None) -> CrossAttentionMemory:
        """Return the decoder's cross-attention keys and values of the encoded sources."""
        return self.writer.read(self.reader.encode(source_BS, keep_BS), keep_BS)

    def encode(self, target_BT: Tensor, memory: CrossAttentionMemory) -> Tensor:
        """Return the causal encodings of the targets (B, T, D)."""
        writer = self.writer
        return writer.encoded(writer.contextualise(writer.embed(target_BT), memory=memory))

    def start(self, memory: CrossAttentionMemory, rows: int = 1) -> TransformerState:
        """Return an empty KV cache; the target rows of a source share its memory."""
        return self.writer.start(rows, memory)

    def step(self, target_RT: Tensor, state: Any) -> tuple[Tensor, TransformerState]:
        """Return the encodings of the next target tokens and the state after them."""
        encoded, after = self.writer.step(target_RT, state)
        assert isinstance(after, TransformerState)
        return encoded, after
