"""`satchel tag`: predict a tag for each word or character of texts."""

from typing import TYPE_CHECKING, Any

from satchel.cli.options import Run
from satchel.cli.output import TEXT, print_table
from satchel.cli.predict import Predictor, predicts
from satchel.text.display import visible

if TYPE_CHECKING:
    from satchel.api import Tagging


@predicts("text_column")
def tag(run: Run) -> Predictor:
    """Print the tag of each word (or character) of a text with its probability, or write the tags of every row."""
    from satchel import api

    model = api.load(run, task="tag")
    has_letters = model.unit == "character" and all(len(label) == 1 for label in model.labels)
    separator = "" if has_letters else " "

    def cells(tagging: "Tagging") -> dict[str, Any]:
        return {"tags": separator.join(tagging.tags)}

    def show(tagging: "Tagging") -> None:
        tokens = [visible(token, spaces=model.unit == "character") for token in tagging.tokens]
        rows = zip(tokens, tagging.tags, tagging.probabilities, strict=True)
        print_table({model.unit: TEXT, "tag": TEXT, "probability": ".4f"}, rows)

    return Predictor(model, cells, lambda tagging: tagging.document(), show, note=lambda tagging: tagging.note)
