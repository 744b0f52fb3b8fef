"""`satchel look attention`: attention weights of each layer and head."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from satchel.charts import terminal
from satchel.cli.look.options import Head, Layer, Source, Start, Target, trace_run
from satchel.cli.options import Run, Text, check_choice
from satchel.cli.output import message, print_drawing
from satchel.cli.result import View, view
from satchel.errors import SettingsError

if TYPE_CHECKING:
    from satchel.charts.figures import Figure

FORMS = ("matrix", "lines", "grid")


@view
def attention(
    run: Run,
    text: Text = None,
    target: Target = None,
    source: Source = None,
    layer: Layer = None,
    head: Head = None,
    form: Annotated[str, Option(help="Figure: matrix, lines between tokens, or grid of all heads.")] = "matrix",
    which: Annotated[
        str, Option(help="Translators: decoder self-attention (own), encoder self-attention (source), or cross.")
    ] = "own",
    start: Start = 0,
) -> View:
    """Print or draw the attention weights: rows are query tokens, columns are key tokens."""
    check_choice("--form", form, FORMS)
    trace = trace_run(run, text, target, source, start)
    maps = trace.maps(which)
    if head is not None and layer is None and len(maps) > 1:
        raise SettingsError(f"--head {head} needs a layer: the model has {len(maps)}", "add --layer")

    def figure() -> "Figure":
        if form == "grid":
            return trace.grid(layer, which)
        return (trace.head_lines if form == "lines" else trace.attention_map)(layer, head, which)

    def document() -> dict[str, Any]:
        chosen = [
            {"layer": layer_number, "head": head_number, "weights": weights.tolist()}
            for (layer_number, head_number), weights in maps.select(layer, head)
        ]
        return {"rows": list(maps.rows), "columns": list(maps.columns), "maps": chosen}

    def show() -> None:
        weights = maps.mean(layer) if head is None else maps[layer or 0, head]
        print(f"Attention weights, {_scope(layer, head)}; rows: query tokens, columns: key tokens")
        print_drawing(terminal.heatmap(maps.rows, maps.columns, weights))
        if layer is None and (len(maps) > 1 or maps.heads > 1):
            message(
                f"{len(maps)} layers with {maps.heads} heads each: select with --layer and --head; -o FILE draws all"
            )

    return View(figure, document, show)


def _scope(layer: int | None, head: int | None) -> str:
    if layer is None and head is None:
        return "mean of all layers and heads"
    return f"layer {layer or 0}, {'mean of its heads' if head is None else f'head {head}'}"
