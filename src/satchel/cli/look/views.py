"""What `satchel look` shows of a network: maps, surprise, layers, curves, words on a map."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from satchel.charts import terminal
from satchel.cli.output import Progress, emit_json, print_drawing, print_table, say

if TYPE_CHECKING:
    from satchel.api.model import Model
    from satchel.charts.figures import Figure
    from satchel.inspection.attribution import Instead
    from satchel.inspection.trace import Trace

FORMS = ("matrix", "lines", "grid")
# As many texts tell what heads do; and the best heads of each pattern.
TEXTS_SEEN, HEADS_SHOWN = 200, 3


@dataclass(frozen=True)
class Asked:
    """What was asked on the command line."""

    run: str
    text: str | None = None
    target: str | None = None
    versus: str | None = None
    layer: int | None = None
    head: int | None = None
    form: str = "matrix"
    which: str = "own"
    method: str | None = None
    instead: str = "mean"
    start: int = 0
    data: str | None = None
    by: str = "word,sense"
    top: int = 200
    sense: int | None = None
    pattern: str | None = None
    out: Path | None = None
    theme: str = "light"
    width: str | None = None
    as_json: bool = False

    def model(self) -> "Model":
        """Return the model of the run."""
        from satchel import api

        return api.load_model(self.run)

    def content(self) -> str:
        """Return the text that is looked at, if need be from standard input."""
        from satchel.cli.output import text_argument

        return text_argument(self.text)

    def trace(self) -> "Trace":
        """Return the trace of the text, and say what is to be said of it."""
        found = self.model().trace(self.content(), self.target, self.start)
        for remark in found.remarks:
            say(remark)
        return found


def tell(
    asked: Asked,
    *,
    picture: "Callable[[], Figure]",
    document: Callable[[], dict[str, Any]],
    draw: Callable[[], None],
) -> None:
    """Draw a picture, print a document, or draw in the terminal: whatever was asked for."""
    if asked.out is not None:
        with Progress() as progress:
            progress("drawing", None)
            picture().save(asked.out, asked.theme, asked.width)
        say(f"drew {asked.out}")
    elif asked.as_json:
        emit_json(document())
    else:
        draw()


# --- attention ---------------------------------------------------------------------------------------


def attention(asked: Asked) -> None:
    """Show who looked at whom."""
    from satchel.errors import SettingsError

    if asked.form not in FORMS:
        raise SettingsError(f"--form {asked.form}: found no such form", f"expected {', '.join(FORMS)}")
    traced = asked.trace()
    layer, head, which = asked.layer, asked.head, asked.which
    maps = traced.maps(which)
    if head is not None and layer is None and maps.layers > 1:
        raise SettingsError("--head is of a layer", "give --layer too")

    def picture() -> "Figure":
        if asked.form == "grid":
            return traced.grid(layer, which)
        return (traced.head_lines if asked.form == "lines" else traced.attention_map)(layer, head, which)

    def document() -> dict[str, Any]:
        listed = [
            {"layer": number, "head": place, "weights": weights.tolist()}
            for (number, place), weights in maps.chosen(layer, head)
        ]
        return {"rows": list(maps.rows), "columns": list(maps.columns), "maps": listed}

    def draw() -> None:
        weights = maps.mean(layer) if head is None else maps[layer or 0, head]
        print(f"Where words look: {_named(layer, head)}; each row is a word that looks")
        print_drawing(terminal.heatmap(maps.rows, maps.columns, weights))
        if layer is None and (maps.layers > 1 or maps.heads > 1):
            say(f"{maps.layers} layers of {maps.heads} heads: --layer L --head H shows one, -o map.html all")

    tell(asked, picture=picture, document=document, draw=draw)


def _named(layer: int | None, head: int | None) -> str:
    if layer is None and head is None:
        return "the mean of all heads"
    return f"layer {layer or 0}, the mean of its heads" if head is None else f"layer {layer or 0}, head {head}"


# --- surprise ----------------------------------------------------------------------------------------


def surprise(asked: Asked) -> None:
    """Show how surprising each token was."""
    from satchel import charts

    traced = asked.trace()
    told = traced.told
    bits = told.surprise / math.log(2)

    def document() -> dict[str, Any]:
        notes = {name: values.tolist() for name, values in told.notes.items()}
        return {"tokens": list(told.tokens), "bits": bits.tolist(), "notes": notes}

    def draw() -> None:
        print_drawing(terminal.strip(told.tokens, bits.tolist(), [f"{value:.1f}" for value in bits]))
        say(f"bits; {bits.mean():.2f} in the mean of {len(bits):,}" if len(bits) else "nothing was asked for")

    tell(asked, picture=lambda: charts.surprise_strip(told.tokens, bits.tolist()), document=document, draw=draw)


def order(asked: Asked) -> None:
    """Show which order of an n-gram answered each token."""
    from satchel import charts
    from satchel.errors import RunError

    traced = asked.trace()
    orders = traced.told.notes.get("order")
    if orders is None:
        raise RunError("stands on no n-gram: no order answers", "train one with --model ngram", where=asked.run)
    tell(
        asked,
        picture=lambda: charts.order_strip(traced.told.tokens, orders.tolist()),
        document=lambda: {"tokens": list(traced.told.tokens), "orders": orders.tolist()},
        draw=lambda: print_drawing(terminal.strip(traced.told.tokens, orders.tolist(), [str(each) for each in orders])),
    )


# --- layers ------------------------------------------------------------------------------------------


def lens(asked: Asked) -> None:
    """Show what each layer would have said."""
    from satchel import charts
    from satchel.text.display import visible

    found = asked.model().lens(asked.content(), asked.start)

    def document() -> dict[str, Any]:
        return {
            "tokens": list(found.tokens),
            "targets": list(found.targets),
            "layers": list(found.layers),
            "said": [list(row) for row in found.said],
            "probabilities": found.chances.tolist(),
            "ranks": found.ranks.tolist(),
            "nats": found.nats.tolist(),
        }

    def draw() -> None:
        targets = [*found.targets, *[""] * (len(found.tokens) - len(found.targets))]
        print_table(
            ["after", "comes", *(name.removesuffix(".output").removesuffix(".states") for name in found.layers)],
            [
                [
                    visible(token, spaces=True),
                    visible(target, spaces=True),
                    *(
                        f"{visible(said[place], spaces=True)} {_rank(int(rank[place]))}".strip()
                        for said, rank in zip(found.said, found.ranks, strict=True)
                    ),
                ]
                for place, (token, target) in enumerate(zip(found.tokens, targets, strict=True))
            ],
        )
        say("what each layer would have said; in brackets the place of what comes")

    tell(
        asked,
        picture=lambda: charts.logit_lens(
            found.tokens, found.layers, found.said, found.nats, found.ranks, targets=found.targets
        ),
        document=document,
        draw=draw,
    )


def _rank(rank: int) -> str:
    return f"({rank:,})" if rank else ""


# --- words -------------------------------------------------------------------------------------------


def attribution(asked: Asked) -> None:
    """Show what each word does to a score, by several approximations; and of a Backpack, exactly."""
    from satchel import charts
    from satchel.api.attribution import compared
    from satchel.errors import SettingsError
    from satchel.inspection.attribution import METHODS
    from satchel.text.display import visible

    named = [method for method in METHODS if asked.method in (None, method)]
    found = compared(
        asked.model(), asked.content(), asked.target, asked.versus, named or METHODS, instead=_instead(asked.instead)
    )
    methods: dict[str, Any] = {each.method: each.values for each in found.methods}
    if found.exact is not None:
        methods["exact"] = found.exact
    if asked.method is not None and asked.method not in methods:
        raise SettingsError(f"--method {asked.method}: found no such method", f"there is {', '.join(methods)}")
    shown = {name: values for name, values in methods.items() if asked.method in (None, name)}
    rather = "" if found.versus is None else f" rather than {visible(found.versus, spaces=True)}"
    title = f"What each word adds to {visible(found.target, spaces=True)}{rather}"

    def draw() -> None:
        for note in found.notes:
            say(note)
        print(title)
        print_table(
            ["word", *shown],
            [
                [visible(word, spaces=True), *(f"{values[place]:+.4f}" for values in shown.values())]
                for place, word in enumerate(found.words)
            ],
            right=range(1, 1 + len(shown)),
        )
        for line in found.checks():
            say(line)

    tell(asked, picture=lambda: charts.attribution(found.words, shown, title), document=found.document, draw=draw)


def _instead(name: str) -> "Instead":
    from satchel.errors import SettingsError
    from satchel.inspection.attribution import INSTEADS

    for known in INSTEADS:
        if name == known:
            return known
    raise SettingsError(
        f"--instead {name}: found no such thing to put in a word's place", f"expected {', '.join(INSTEADS)}"
    )


def embeddings(asked: Asked) -> None:
    """Show words on a map: those that are used alike stand together."""
    from satchel import charts

    words = asked.text.split() if asked.text else []
    found = asked.model().vectors.map(words, count=asked.top, sense=asked.sense)
    for note in found.notes:
        say(note)
    across, down = found.shares
    title = f"{found.what}: the two directions in which they differ most ({across:.0%} and {down:.0%} of all)"

    def document() -> dict[str, Any]:
        points = [
            {
                "word": each.word,
                "x": each.x,
                "y": each.y,
                "nearest": [{"word": word, "alike": alike} for word, alike in each.near],
            }
            for each in found.points
        ]
        return {"points": points, "shares": list(found.shares)}

    def draw() -> None:
        print(title)
        print_drawing(terminal.scatter([(each.word, each.x, each.y) for each in found.points]))

    tell(
        asked,
        picture=lambda: charts.embedding_map(
            [each.word for each in found.points],
            [(each.x, each.y) for each in found.points],
            nearest=[[word for word, _ in each.near] for each in found.points],
            title=title,
        ),
        document=document,
        draw=draw,
    )


# --- training ----------------------------------------------------------------------------------------


def training(asked: Asked) -> None:
    """Show how a training went; of several runs, side by side (RUN,RUN)."""
    from satchel import api, charts
    from satchel.api.report import curve_of
    from satchel.errors import RunError

    found = {run: curve_of(api.load_model(run)) for run in asked.run.split(",")}
    empty = [run for run, (_, curve) in found.items() if not curve]
    if empty:
        raise RunError("nothing was measured on the way", "train with --valid 0.05", where=empty[0])
    measure = next(iter(found.values()))[0]
    curves = {run: curve for run, (_, curve) in found.items()}

    def draw() -> None:
        for run, curve in curves.items():
            print(run)
            print_drawing(terminal.curve(curve, measure))

    tell(
        asked,
        picture=lambda: charts.training_curves(curves, measure=measure),
        document=lambda: {
            "measure": measure,
            "curves": [{"run": run, "points": [list(point) for point in curve]} for run, curve in curves.items()],
        },
        draw=draw,
    )


# --- heads -------------------------------------------------------------------------------------------


def patterns(asked: Asked) -> None:
    """Show which heads look where one would expect them to."""
    from satchel import charts

    model = asked.model()
    names = asked.pattern.split(",") if asked.pattern else None
    found = model.patterns(_texts(model, asked), names)
    rows = found.rows if asked.layer is None else tuple(row for row in found.rows if row.layer == asked.layer)

    def picture() -> "Figure":
        scores: dict[str, dict[tuple[int, int], float]] = {}
        for row in rows:
            scores.setdefault(row.pattern, {})[row.layer, row.head] = row.weight
        return charts.heads_by_pattern(scores)

    def draw() -> None:
        best: dict[str, int] = {}
        shown = []
        for row in rows:
            best[row.pattern] = best.get(row.pattern, 0) + 1
            if best[row.pattern] <= HEADS_SHOWN:
                shown.append(
                    [row.pattern, row.layer, row.head, f"{row.weight:.1%}", f"{row.chance:.1%}", f"{row.hits:.1%}"]
                )
        print_table(["pattern", "layer", "head", "weight", "by chance", "most there"], shown, right=(1, 2, 3, 4, 5))
        say(f"in {found.texts:,} texts: how much of its weight a head has where the pattern expects it")

    tell(
        asked,
        picture=picture,
        document=lambda: {"texts": found.texts, "heads": [asdict(row) for row in rows]},
        draw=draw,
    )


def _texts(model: "Model", asked: Asked) -> Any:
    """Return the texts of a file, or one text; of a translator they are pairs."""
    from satchel import api
    from satchel.errors import DataError, SettingsError

    if asked.data is None:
        text = asked.content()
        return [(text, asked.target)] if asked.target is not None else [text]
    if asked.text is not None:
        raise SettingsError("--data is instead of a text", "give one of them")
    if isinstance(model, api.Translator):
        return [(pair.source, pair.target) for pair in model.pairs(asked.data)[:TEXTS_SEEN]]
    lines = [text for text in _documents(model, asked.data) if text.strip()][:TEXTS_SEEN]
    if not lines:
        raise DataError("found no text", where=asked.data)
    return lines


def _documents(model: "Model", data: str) -> list[str]:
    """Return the texts of a file as the run reads them: rows of a table, or lines."""
    from satchel import api
    from satchel.text.tables import read_tagged, without_header

    if isinstance(model, api.Classifier):
        return list(model.texts_of(data))
    corpus = model.corpus(data)
    if isinstance(model, api.Tagger):
        return [row.text for row in read_tagged(without_header(corpus))]
    return [line for piece in corpus.pieces() for line in piece.text.split("\n")]


def ablation(asked: Asked) -> None:
    """Show what each head is worth: what it costs to lose it."""
    import numpy as np

    from satchel import charts

    with Progress() as progress:
        found = asked.model().head_costs(asked.data, progress=progress)
    unit = found.measure.replace("_", " ")
    layers, heads = (1 + max(getattr(row, name) for row in found.rows) for name in ("layer", "head"))
    costs = np.full((layers, heads), np.nan)
    for row in found.rows:
        costs[row.layer, row.head] = row.cost

    def draw() -> None:
        print_table(
            ["layer", *(f"head {head}" for head in range(heads))],
            [[layer, *(f"{cost:+.4f}" for cost in row)] for layer, row in enumerate(costs)],
            right=range(1 + heads),
        )
        say(f"{unit}: {found.whole:.4f} with all heads; how much worse without each")

    tell(
        asked,
        picture=lambda: charts.head_ablation(costs, unit=unit),
        document=lambda: {
            "measure": found.measure,
            "whole": found.whole,
            "heads": [asdict(row) for row in found.rows],
        },
        draw=draw,
    )
