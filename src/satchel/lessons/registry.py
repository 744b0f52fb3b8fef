"""Which lessons there are, in the order of the lectures."""

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
from satchel.lessons.trained import TRAINED
from satchel.lessons.training_pairs import training_pairs

NOTES = "notes on language models and attention"
TRANSFORMERS = "slides on self-attention and the Transformer"
LANGUAGE = "slides on Transformer language models"
BACKPACKS = "slides on attention and Backpacks"

LESSONS = {
    lesson.name: replace(lesson, trained=TRAINED.get(lesson.name))
    for lesson in (
        Lesson("counting", "Counting: the chain rule, n-grams, a table of fractions", NOTES, (1, 2, 3, 4), counting),
        Lesson("dan", "Two feed-forward models: one cannot see order, one cannot see far", NOTES, (5, 6), dan),
        Lesson("rnn", "What a recurrent cell can do, with exact weights", NOTES, (7, 8, 9, 10, 104), rnn),
        Lesson("api", "One interface for all encoders", NOTES, (7, 12, 67), interface),
        Lesson("attention", "Attention by hand: looking for a B among As", NOTES, tuple(range(13, 23)), attention),
        Lesson("self-attention", "Self-attention: every word is a query", NOTES, tuple(range(23, 34)), self_attention),
        Lesson(
            "encoder-decoder",
            "Reading a source, writing a target: a summary, and attention",
            BACKPACKS,
            (38, 39, 40, 41, 42),
            encoder_decoder,
        ),
        Lesson("scaling", "Why scores are divided by a square root", TRANSFORMERS, (34, 35), scaling),
        Lesson("heads", "Many heads: why one must average", TRANSFORMERS, tuple(range(51, 57)), heads),
        Lesson("block", "A Transformer block, and the shape at every arrow", LANGUAGE, tuple(range(57, 68)), block),
        Lesson("positions", "Where a word stands", TRANSFORMERS, tuple(range(68, 74)), positions),
        Lesson("masking", "Why a language model must not look ahead", LANGUAGE, (75, 76, 77, 78, 79, 104), masking),
        Lesson(
            "training-pairs", "What goes in and what should come out", LANGUAGE, (81, 82, 83, 84, 85), training_pairs
        ),
        Lesson("classifier", "A classifier: a block, the mean, a softmax", TRANSFORMERS, (91, 92, 93), classifier),
        Lesson("perplexity", "Perplexity, and why not accuracy", LANGUAGE, (87, 88, 89), perplexity),
        Lesson(
            "sense-selection",
            "That trick was sick: choosing between senses with attention",
            BACKPACKS,
            (97, 98, 99, 100, 101, 102, 104),
            sense_selection,
        ),
    )
}
