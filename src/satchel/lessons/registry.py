"""The lessons by name, in the order of the lectures."""

from dataclasses import replace

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
from satchel.lessons.steps import Lesson
from satchel.lessons.training_pairs import training_pairs
from satchel.lessons.training_results import TRAINING_RESULTS

NOTES = "notes on language models and attention"
TRANSFORMERS = "slides on self-attention and the Transformer"
LANGUAGE = "slides on Transformer language models"
BACKPACKS = "slides on attention and Backpacks"
SENSE_ITEMS = (*range(97, 103), 104)

LESSONS = {
    lesson.name: replace(lesson, training_result=TRAINING_RESULTS.get(lesson.name))
    for lesson in (
        Lesson("counting", "N-gram language models: chain rule, counting, normalising", NOTES, range(1, 5), counting),
        Lesson("dan", "Feed-forward language models: deep averaging and fixed window", NOTES, (5, 6), dan),
        Lesson("rnn", "Recurrent networks with weights set by hand", NOTES, (7, 8, 9, 10, 104), rnn),
        Lesson("api", "One interface for all encoders", NOTES, (7, 12, 67), interface),
        Lesson("attention", "Attention by hand: finding the B among As", NOTES, range(13, 23), attention),
        Lesson("self-attention", "Self-attention: queries, keys and values", NOTES, range(23, 34), self_attention),
        Lesson(
            "encoder-decoder", "Encoder-decoder: bottleneck and attention", BACKPACKS, range(38, 43), encoder_decoder
        ),
        Lesson("scaling", "Scaled dot-product attention", TRANSFORMERS, (34, 35), scaling),
        Lesson("heads", "Multi-head attention", TRANSFORMERS, range(51, 57), heads),
        Lesson("block", "The Transformer block: shapes and parameters", LANGUAGE, range(57, 68), block),
        Lesson("positions", "Position encodings", TRANSFORMERS, range(68, 74), positions),
        Lesson("masking", "Causal masking", LANGUAGE, (*range(75, 80), 104), masking),
        Lesson("training-pairs", "Training pairs and the loss", LANGUAGE, range(81, 86), training_pairs),
        Lesson("classifier", "Text classification with mean pooling", TRANSFORMERS, (91, 92, 93), classifier),
        Lesson("perplexity", "Perplexity, and why not accuracy", LANGUAGE, (87, 88, 89), perplexity),
        Lesson("sense-selection", "That trick was sick: sense selection", BACKPACKS, SENSE_ITEMS, sense_selection),
    )
}
