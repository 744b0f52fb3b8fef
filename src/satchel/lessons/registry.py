"""The lessons by name, in the order of the lectures."""

from collections.abc import Callable

from satchel.lessons.attention import attention
from satchel.lessons.block import block
from satchel.lessons.classifier import classifier
from satchel.lessons.counting import counting
from satchel.lessons.dan import dan
from satchel.lessons.encoder_decoder import encoder_decoder
from satchel.lessons.heads import heads
from satchel.lessons.interface import interface
from satchel.lessons.masking import masking
from satchel.lessons.perplexity import perplexity
from satchel.lessons.positions import positions
from satchel.lessons.rnn import rnn
from satchel.lessons.scaling import scaling
from satchel.lessons.self_attention import self_attention
from satchel.lessons.sense_selection import sense_selection
from satchel.lessons.steps import Lesson, Step, load_texts, matrix, stored_note
from satchel.lessons.training_pairs import training_pairs

FUNCTIONS: dict[str, Callable[..., list[Step]]] = {
    "counting": counting,
    "dan": dan,
    "rnn": rnn,
    "api": interface,
    "attention": attention,
    "self-attention": self_attention,
    "encoder-decoder": encoder_decoder,
    "scaling": scaling,
    "heads": heads,
    "block": block,
    "positions": positions,
    "masking": masking,
    "training-pairs": training_pairs,
    "classifier": classifier,
    "perplexity": perplexity,
    "sense-selection": sense_selection,
}


def _lesson(name: str, function: Callable[..., list[Step]]) -> Lesson:
    texts = load_texts(name)
    step = None
    if result := texts.get("training_result"):
        values = matrix(result["name"], result["values"], result.get("rows", ()), result["columns"])
        text = f"{result['text']}\n{stored_note(result['command'])}"
        step = Step(result["title"], text, (values,), stored=result["command"])
    return Lesson(name, texts["title"], texts["source"], texts["items"], function, step)


LESSONS = {name: _lesson(name, function) for name, function in FUNCTIONS.items()}
