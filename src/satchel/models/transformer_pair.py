"""Transformer pair models: an encoder that sees the whole source, and a decoder that looks at what it made of it."""

from typing import Any, Literal

from pydantic import Field
from torch import Tensor, nn

from satchel.models.pair import Pair
from satchel.models.transformer import CrossAttentionMemory, Transformer, TransformerSettings, TransformerState


class TransformerPairSettings(TransformerSettings):
    """Two Transformers, of which one looks at the other; or one that reads source and target as one text."""

    form: Literal["encoder-decoder", "decoder-only"] = Field(
        "encoder-decoder", description="decoder-only: source and target are one text, read by one Transformer"
    )
    decoder_layers: int | None = Field(None, ge=0, le=512, description="blocks that write; else as many as read")
    shared: bool = Field(True, description="source and target words have the same vectors")
    context: int = Field(256, ge=1, description="the longest text in tokens; longer ones are cut into several")


class TransformerPair(Pair):
    """An encoder, and a decoder that looks at it: the Transformer as it was first described (Vaswani et al., 2017)."""

    def __init__(
        self, settings: TransformerSettings, source_vocabulary: int, vocabulary: int, *, layers: int, shared: bool
    ) -> None:
        super().__init__(settings.width, settings.width)
        self.context = settings.context
        self.reader = Transformer(settings, source_vocabulary, causal=False)
        written = settings.model_copy(update={"layers": layers})
        self.writer = Transformer(written, 1 if shared else vocabulary, causal=True, cross_attention=True)
        if shared:
            self.writer.embedding = self.reader.embedding

    @property
    def words(self) -> nn.Embedding:
        """The vectors of target words."""
        return self.writer.embedding

    def read(self, source_BS: Tensor, keep_BS: Tensor | None = None) -> CrossAttentionMemory:
        """Return what the decoder's blocks read of the source's encodings."""
        return self.writer.read(self.reader.encode(source_BS, keep_BS), keep_BS)

    def encode(self, target_BT: Tensor, memory: CrossAttentionMemory) -> Tensor:
        """Return the encodings of the targets."""
        writer = self.writer
        encoded: Tensor = writer.encoded(writer.contextualise(writer.embed(target_BT), memory=memory))
        return encoded

    def start(self, memory: CrossAttentionMemory, rows: int = 1) -> TransformerState:
        """Return the state of nothing written: rows of one text share what was read of it."""
        return self.writer.start(rows, memory)

    def step(self, target_RT: Tensor, state: Any) -> tuple[Tensor, TransformerState]:
        """Return the encodings of the next words."""
        encoded, after = self.writer.step(target_RT, state)
        assert isinstance(after, TransformerState)
        return encoded, after
