"""One interface for all encoders: words in, as many vectors out, each of which knows what came before (item 12)."""

from typing import TYPE_CHECKING

from satchel.errors import SettingsError
from satchel.lessons.steps import Matrix, Step

if TYPE_CHECKING:
    from torch import Tensor

    from satchel.models.encoder import CausalEncoder

KINDS = ("dan", "window", "rnn", "gru", "lstm", "transformer")
WIDTH = 8
MOST_WORDS = 12
# A word that the text does not have: what takes another's place to see what that changes.
OTHER = "<other>"


def interface(words: str = "the cat sat", kind: str = "lstm", seed: int = 0) -> list[Step]:
    """Return what goes into an encoder and what comes out of it, whatever kind it is of. The weights are random."""
    import torch

    texts = words.split()
    if not 2 <= len(texts) <= MOST_WORDS:
        raise SettingsError(
            f"words: found {len(texts)} of them, expected 2 to {MOST_WORDS}", "for example --set words='the cat sat'"
        )
    if kind not in KINDS:
        raise SettingsError(f"kind: found {kind!r}, expected one of {', '.join(KINDS)}", "for example --set kind=gru")
    if not 0 <= seed < 1 << 32:
        raise SettingsError(f"seed: found {seed}, expected 0 to {(1 << 32) - 1}", "for example --set seed=1")
    vocabulary = [*dict.fromkeys(texts), OTHER]
    ids_BT = torch.tensor([[vocabulary.index(text) for text in texts]])
    encoders = {each: _encoder(each, len(vocabulary), len(texts), seed) for each in KINDS}
    with torch.no_grad():
        return [
            *_encoding(encoders[kind], ids_BT, tuple(texts)),
            _prediction(encoders[kind], ids_BT, vocabulary),
            _stack(encoders, kind, ids_BT),
            _exchange(encoders, ids_BT, seed),
        ]


def _encoding(encoder: "CausalEncoder", ids_BT: "Tensor", texts: tuple[str, ...]) -> list[Step]:
    count = len(texts)
    given = ", ".join(f"w_{number}" for number in range(1, count + 1))
    state, going_on = encoder.start(1), []
    for place in range(count):
        encoded, state = encoder.step(ids_BT[:, place : place + 1], state)
        going_on.append(_rows(encoded)[0])
    changes = [_change(encoder, ids_BT, place) for place in (count - 2, count - 1)]
    return [
        Step(
            "Words become vectors",
            "Each word has a vector of its own, wherever it stands.",
            (Matrix("embeddings", _rows(encoder.embed(ids_BT)), texts),),
        ),
        Step(
            f"h_{count} = encode({given})",
            f"One vector for each word; h_{count} encodes '{texts[-1]}' in its context. All vectors are as wide as "
            "those that came in.",
            (Matrix("encodings", _rows(encoder.encode(ids_BT)), texts),),
            f"{count} vectors go in. How many come out?",
            (count,),
        ),
        Step(
            "Who depends on whom",
            f"How far each encoding moves when one word becomes {OTHER}: a word counts for itself and for what comes "
            "after it, never for what came before.",
            (
                Matrix(
                    "largest change",
                    tuple(changes),
                    tuple(f"w_{place} changed" for place in (count - 1, count)),
                    tuple(f"h_{number}" for number in range(1, count + 1)),
                ),
            ),
            f"The last word changes. How far does h_{count - 1} move?",
            (0,),
        ),
        Step(
            "Going on, word by word",
            "What was read is kept in a state that is handed on from word to word. The same vectors come out.",
            (Matrix("encodings, step by step", tuple(going_on), texts),),
        ),
    ]


def _prediction(encoder: "CausalEncoder", ids_BT: "Tensor", vocabulary: list[str]) -> Step:
    from satchel.tasks.language import LanguageHead

    chances = LanguageHead(encoder)(encoder.encode(ids_BT))[0, -1].softmax(dim=-1)
    number = ids_BT.shape[1]
    return Step(
        "Another layer predicts",
        f"softmax(W h_{number}) is a probability for each word to be w_{number + 1}. An encoder does not know what "
        "its vectors are for; untrained, it does not know what comes next either.",
        (Matrix(f"P(w_{number + 1})", (tuple(chances.tolist()),), columns=tuple(vocabulary)),),
    )


def _stack(encoders: dict[str, "CausalEncoder"], kind: str, ids_BT: "Tensor") -> Step:
    above = "transformer" if kind != "transformer" else "lstm"
    stacked = encoders[above].contextualise(encoders[kind].encode(ids_BT))
    names = tuple(f"h_{number}" for number in range(1, ids_BT.shape[1] + 1))
    return Step(
        "Layers stack",
        f"What comes out of the {kind} goes into the {above}: vectors are all it asks for.",
        (Matrix(f"{above} above {kind}", _rows(stacked), names),),
    )


def _exchange(encoders: dict[str, "CausalEncoder"], ids_BT: "Tensor", seed: int) -> Step:
    length = ids_BT.shape[1]
    rows = []
    for kind, encoder in encoders.items():
        time, width = encoder.encode(ids_BT).shape[1:]
        longer = _encoder(kind, encoder.embedding.num_embeddings, 2 * length, seed)
        rows.append((f"{time} x {width}", _parameters(encoder), _parameters(longer)))
    return Step(
        "Any of them will do",
        "The same words in, vectors of the same shape out. What is above, a predictor or another encoder, cannot "
        "tell which kind it stands on. Parameters are used again at every place, so that their number does not depend "
        "on the length; the transformer's table of positions is all that does.",
        (
            Matrix(
                "encoders",
                tuple(rows),
                tuple(encoders),
                ("vectors out", "parameters", f"for {2 * length} words"),
            ),
        ),
        "A transformer takes the place of the rnn. What changes for the layer above it?",
        ("nothing", "none"),
    )


def _encoder(kind: str, vocabulary: int, length: int, seed: int) -> "CausalEncoder":
    """Return a small encoder with random weights, large enough for words to make a difference that shows."""
    import torch

    from satchel import config
    from satchel.config import Settings
    from satchel.models.build import EncoderSettings, build_encoder

    class Chosen(Settings):
        model: EncoderSettings

    tree: dict[str, object] = {"kind": kind, "width": WIDTH}
    if kind == "transformer":
        tree |= {"layers": 1, "heads": 2, "context": length, "positions": "learned"}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoder = build_encoder(config.build(Chosen, {"model": tree}).model, vocabulary, causal=True)
        for parameter in encoder.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.5)
    return encoder.eval()


def _change(encoder: "CausalEncoder", ids_BT: "Tensor", place: int) -> tuple[float, ...]:
    """Return how far each encoding moves when the word at one place becomes another."""
    changed_BT = ids_BT.clone()
    changed_BT[0, place] = encoder.embedding.num_embeddings - 1
    moved = (encoder.encode(changed_BT) - encoder.encode(ids_BT)).abs().amax(dim=-1)
    return tuple(moved[0].tolist())


def _rows(vectors_BTD: "Tensor") -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in vectors_BTD[0].tolist())


def _parameters(encoder: "CausalEncoder") -> int:
    return sum(parameter.numel() for parameter in encoder.parameters())
