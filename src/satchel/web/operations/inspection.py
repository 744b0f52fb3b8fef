"""Operations on the internals of a model: attention, senses, contributions, attributions, word vectors."""

import base64
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from satchel.web import commands, limits
from satchel.web.errors import InvalidFieldError
from satchel.web.operation import Array, Context, RunRequest
from satchel.web.operations.requests import START, Text, TextRequest, Word, refuse_above, reply

TARGET = "translators: the translation; default: the model's own"
CLASS = "next token, label, or index of a word and its tag (3:NOUN); default: the most probable one"
SHORTEN = "shorten the text"


def _view(
    context: Context,
    request: TextRequest,
    document: Mapping[str, Any],
    view: str,
    options: Mapping[str, Any],
    expression: str,
    imports: str = "",
) -> dict[str, Any]:
    """Return the reply of a view, `satchel look VIEW`."""
    run = context.shown(request.run)
    line = commands.terminal(f"look {view}", [run], options, text=request.text)
    return reply(document, line, commands.python(run, expression, imports))


def _trace(context: Context, request: Any, text: str, limit: int, **options: Any) -> tuple[Any, Any]:
    """Return the model and the trace of a text; refuse traces of more than `limit` tokens."""
    context.progress("tracing", None)
    model = context.model(request.run)
    if model.task == "translate":
        refuse_above(limits.MAX_TRANSLATED, len(text), "text", "characters", SHORTEN)
    trace = model.trace(text, start=request.start, **options)
    tokens = max(len(trace.tokens), len(trace.source))
    refuse_above(limit, tokens, "text", "tokens that the model reads together", SHORTEN)
    return model, trace


# --- attention ------------------------------------------------------------------------------------------


class AttentionRequest(TextRequest):
    """Request of /api/attention."""

    target: Text | None = Field(None, description=TARGET)
    versus: Text | None = Field(None, description="second text; its weights are the key versus")
    layer: int | None = limits.bounded("layer", None, "layer, counted from 0; default: all layers")
    head: int | None = limits.bounded("head", None, "head or sense, counted from 0; default: all heads")
    mean: bool = Field(False, description="also return the mean over the heads of the layer, or over all heads")
    which: Literal["own", "source", "cross", "senses"] | None = Field(
        None, description="self-attention, that of the source, cross-attention, or sense attention of a Backpack"
    )
    start: int | None = limits.bounded("start", None, START)
    length: int | None = limits.bounded("length", None, "number of query tokens; in self-attention also of key tokens")
    thumbnails: bool = Field(False, description="return small images of all heads, and the weights of one head only")
    size: int = limits.bounded("size", 83, "width and height of a thumbnail; shorter texts have smaller ones")
    format: Literal["json", "float16", "uint8"] = Field(
        "json", description="float16: the weights of one head as an array; uint8: the thumbnails as an array"
    )

    @model_validator(mode="after")
    def _check_format(self) -> Self:
        if self.format != "json" and (self.format == "uint8") != self.thumbnails:
            raise ValueError("expected the format uint8 for thumbnails and float16 for the weights of a head")
        if self.format == "float16" and (self.mean or self.versus is not None):
            raise ValueError("the format float16 holds the weights of one head of one text")
        if self.thumbnails and self.mean:
            raise ValueError("a mean and thumbnails exclude each other")
        if self.format == "uint8" and self.versus is not None:
            raise ValueError("the format uint8 holds the thumbnails of one text")
        return self


def attention(context: Context, request: AttentionRequest) -> Mapping[str, Any] | Array:
    """Return attention weights."""
    options = {} if request.target is None else {"target": request.target}
    _, trace = _trace(context, request, request.text, limits.MAX_ATTENDED, **options)
    maps = trace.maps(request.which)
    if request.format == "uint8":
        return Array(maps.thumbnails(request.size)[0])
    if request.format == "float16":
        return _one_head(maps, request)
    choice = maps.view(request.layer, request.head, mean=request.mean).choice
    place = request.layer, request.head
    if request.thumbnails and choice is not None:
        place = choice.layer, choice.head
    document = _attention_document(maps, request, place)
    if choice is not None:
        document["chosen"] = choice.document()
    if request.versus is not None:
        _, other = _trace(context, request, request.versus, limits.MAX_ATTENDED)
        document["versus"] = _attention_document(other.maps(request.which), request, place)
    options = dict(zip(("layer", "head"), place, strict=True)) | commands.given(
        request, "target", "versus", "which", "start", "length", "mean"
    )
    options = {name: value for name, value in options.items() if value is not None}
    which = commands.arguments(**commands.given(request, "which"))
    selected = {name: value for name, value in options.items() if name in ("layer", "head", "mean", "length")}

    def call(text: str, *names: str) -> str:
        trace = f"model.trace({commands.arguments(repr(text), **commands.given(request, *names))})"
        return f"{trace}.maps({which}).document({commands.arguments(**selected)})"

    expression = call(request.text, "target", "start")
    if request.versus is not None:
        expression = f"{{**{expression}, 'versus': {call(request.versus, 'start')}}}"
    return _view(context, request, document, "attention", options, expression)


def _attention_document(maps: Any, request: AttentionRequest, place: tuple[int | None, int | None]) -> dict[str, Any]:
    """Return the document of the heads at a place (layer, head), where None stands for all, with thumbnails."""
    layer, head = place
    rows, columns = maps.part(request.length)
    cells = len(maps.rows[rows]) * len(maps.columns[columns])
    weights = cells * (request.mean + (1 if layer is not None else len(maps)) * (1 if head is not None else maps.heads))
    if not request.thumbnails:
        remedy = "give layer and head, or set thumbnails; length selects the first tokens"
        refuse_above(limits.MAX_WEIGHTS, weights, "head", "attention weights", remedy)
    document: dict[str, Any] = maps.document(
        layer, head, mean=request.mean, length=request.length, has_weights=weights <= limits.MAX_WEIGHTS
    )
    if request.thumbnails:
        images, largest = maps.thumbnails(request.size)
        data = base64.b64encode(images.tobytes()).decode()
        document["thumbnails"] = {
            "shape": list(images.shape), "dtype": "uint8", "data": data, "largest": largest.tolist()
        }  # fmt: skip
    return document


def _one_head(maps: Any, request: AttentionRequest) -> Array:
    shown = maps.view(request.layer, request.head)
    place = (request.layer or 0, request.head or 0) if shown.choice is None else (shown.choice.layer, shown.choice.head)
    weights = maps[place][maps.part(request.length)]
    remedy = "length selects the first tokens"
    refuse_above(limits.MAX_BINARY_WEIGHTS, weights.size, "length", "attention weights", remedy)
    return Array(weights.astype(np.float16))


class PatternsRequest(TextRequest):
    """Request of /api/patterns."""

    target: Text | None = Field(None, description=TARGET)
    layer: int | None = limits.bounded("layer", None, "layer, counted from 0; default: all layers")
    pattern: list[Word] | None = Field(
        None, min_length=1, max_length=limits.MAX_WORDS, description="names of patterns; default: all that apply"
    )
    start: int | None = limits.bounded("start", None, START)


def patterns(context: Context, request: PatternsRequest) -> Mapping[str, Any]:
    """Return the attention weight of each head on the positions of each pattern."""
    from satchel.inspection.patterns import find_patterns

    options = {} if request.target is None else {"target": request.target}
    model, trace = _trace(context, request, request.text, limits.MAX_ATTENDED, **options)
    text: Any = request.text if request.target is None else (request.text, request.target)
    document = find_patterns(model, [text], lambda _: trace, request.pattern).of_layer(request.layer).document()
    flags = commands.given(request, "target", "layer", "start")
    flags |= {} if request.pattern is None else {"pattern": ",".join(request.pattern)}
    call = commands.arguments(f"[{text!r}]", patterns=request.pattern, start=request.start)
    expression = f"model.patterns({call}).of_layer({request.layer}).document()"
    return _view(context, request, document, "patterns", flags, expression)


# --- lens, attribution ----------------------------------------------------------------------------------


class LensRequest(TextRequest):
    """Request of /api/lens."""

    start: int | None = limits.bounded("start", None, START)


def lens(context: Context, request: LensRequest) -> Mapping[str, Any]:
    """Return the predictions from the hidden states of each layer."""
    from satchel.inspection.lens import logit_lens

    model, trace = _trace(context, request, request.text, limits.MAX_READ)
    _check_predicted(len(trace.tokens), model)
    options = commands.given(request, "start")
    expression = f"model.lens({commands.arguments(repr(request.text), **options)}).document()"
    return _view(context, request, logit_lens(model, trace).document(), "lens", options, expression)


def _check_predicted(tokens: int, model: Any) -> None:
    """Refuse texts with too many predictions for the vocabulary of a model."""
    most = limits.MAX_PREDICTED // (model.tokenizer.size + 1)
    refuse_above(most, tokens, "text", "tokens that the model reads together", SHORTEN)


class AttributionRequest(TextRequest):
    """Request of /api/attribution."""

    target: Word | None = Field(None, description=CLASS)
    versus: Word | None = Field(None, description="class whose logit is subtracted from that of the target")
    method: Literal["occlusion", "gradient", "integrated", "exact"] | None = Field(
        None, description="method, or for Backpacks exact; default: all"
    )
    instead: Literal["mean", "words"] = Field("mean", description="reference embedding")
    start: int | None = limits.bounded("start", None, START)
    raw: bool = Field(False, description="Backpacks: raw instead of centred contributions")


def attribution(context: Context, request: AttributionRequest) -> Mapping[str, Any]:
    """Return the attribution of a logit to the words of a text."""
    from satchel.inspection.attribution import SAMPLED_WORDS, compare_chosen
    from satchel.inspection.targets import find_logit

    context.progress("explaining", None)
    model = context.model(request.run)
    explained = find_logit(model, request.text, request.target, request.versus, request.start)
    tokens = len(explained.ids_T)
    refuse_above(limits.MAX_EXPLAINED, tokens, "text", "tokens that the model reads", SHORTEN)
    if request.method in (None, "occlusion", "exact"):
        references = SAMPLED_WORDS if request.instead == "words" else 1
        remedy = "shorten the text, or choose the method gradient or integrated"
        refuse_above(
            limits.MAX_OCCLUDED, references * tokens**2, "text", "tokens in texts with a replaced word", remedy
        )
    result = compare_chosen(explained, request.method, instead=request.instead, raw=request.raw)
    options = commands.given(request, "target", "versus", "method", "instead", "start", "raw")
    expression = f"model.compare_attributions({commands.arguments(repr(request.text), **options)}).document()"
    return _view(context, request, result.document(), "attribution", options, expression)


# --- contributions, alignment ---------------------------------------------------------------------------


class ContributionsRequest(TextRequest):
    """Request of /api/contributions."""

    target: Word | None = Field(None, description=CLASS)
    versus: Word | None = Field(None, description="class whose logit is subtracted from that of the target")
    start: int | None = limits.bounded("start", None, START)


def contributions(context: Context, request: ContributionsRequest) -> Mapping[str, Any]:
    """Return the contributions of senses to a logit of a Backpack."""
    from satchel.inspection.contributions import project
    from satchel.inspection.subject import backpack_of
    from satchel.inspection.targets import find_logit

    context.progress("explaining", None)
    model = context.model(request.run)
    backpack = backpack_of(model)
    explained = find_logit(model, request.text, request.target, request.versus, request.start)
    cells = len(explained.ids_T) * backpack.settings.senses
    refuse_above(limits.MAX_LISTED, cells, "text", "contributions", SHORTEN)
    (result,) = project([explained])
    options = commands.given(request, "target", "versus", "start")
    call = commands.arguments("model", repr(request.text), **options)
    imports = "from satchel.inspection.contributions import contributions"
    expression = f"contributions({call}).document()"
    return _view(context, request, result.document(), "contributions", options, expression, imports)


class AlignmentRequest(TextRequest):
    """Request of /api/alignment."""

    target: Text | None = Field(None, description=TARGET)
    layer: int | None = limits.bounded("layer", None, "layer, counted from 0; default: all layers")
    head: int | None = limits.bounded("head", None, "head, counted from 0; default: all heads")


def alignment(context: Context, request: AlignmentRequest) -> Mapping[str, Any]:
    """Return the alignment of a source and a translation."""
    context.progress("aligning", None)
    model = context.model(request.run, task="translate")
    refuse_above(limits.MAX_TRANSLATED, len(request.text), "text", "characters", SHORTEN)
    tokens = min(len(model.source_tokenizer.encode(request.text).ids), model.settings.model.context)
    refuse_above(limits.MAX_EXPLAINED, tokens, "text", "tokens that the model reads", SHORTEN)
    target = request.target if request.target is not None else model.translate(request.text).target
    tokens = min(len(model.tokenizer.encode(target).ids), model.settings.model.context)
    refuse_above(limits.MAX_EXPLAINED, tokens, "target", "tokens that the model reads", "shorten the translation")
    result = model.align(request.text, target, layer=request.layer, head=request.head)
    options = commands.given(request, "target", "layer", "head")
    call = commands.arguments(repr(request.text), **options)
    expression = f"{{'alignment': model.align({call}).document()}}"
    return _view(context, request, {"alignment": result.document()}, "alignment", options, expression)


# --- senses, similar words, maps ------------------------------------------------------------------------


class SensesRequest(RunRequest):
    """Request of /api/senses."""

    words: list[Word] = Field(min_length=1, max_length=limits.MAX_WORDS, description="words as inside a sentence")
    sense: int | None = limits.bounded("sense", None, "only this sense, counted from 0")
    top: int = limits.bounded("listed", 8, "number of words in each list")
    contexts: int = limits.bounded("contexts", 0, "number of training contexts of each sense")


def senses(context: Context, request: SensesRequest) -> Mapping[str, Any]:
    """Return the words that each sense of a word promotes and suppresses."""
    vectors = context.model(request.run).sense_vectors
    if request.sense is not None:
        vectors.check_sense(request.sense)
    words = []
    for number, word in enumerate(request.words):
        context.progress("describing senses", number / len(request.words))
        words.append(vectors.describe(word, request.top, request.contexts).document(request.sense))
    options = commands.given(request, "sense", "top", "contexts")
    run = context.shown(request.run)
    line = commands.terminal("senses", [run, *request.words], options)
    call = commands.arguments("word", top=request.top, contexts=request.contexts)
    described = f"vectors.describe({call}).document({request.sense})"
    result = f"{{'words': [{described} for vectors in [model.sense_vectors] for word in {request.words!r}]}}"
    return reply({"words": words}, line, commands.python(run, result))


class SimilarRequest(RunRequest):
    """Request of /api/similar."""

    word: Word = Field(description="word as inside a sentence")
    other: Word | None = Field(None, description="second word: return the similarity of the two")
    context: list[Annotated[str, Field(max_length=limits.MAX_TRANSLATED)]] | None = Field(
        None, min_length=1, max_length=limits.MAX_WORDS, description="sentences whose occurrences of word are compared"
    )
    layer: int | None = limits.bounded("layer", None, "with context: layer of the vectors; 0 is the embedding")
    by: Literal["sense", "embedding"] | None = Field(None, description="vectors that are compared")
    top: int = limits.bounded("listed", 8, "number of words in each list")

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        if self.context is not None and (self.other is not None or self.by is not None):
            raise ValueError("context compares occurrences of one word; omit other and by")
        if self.layer is not None and self.context is None:
            raise ValueError("layer requires context")
        return self


def similar(context: Context, request: SimilarRequest) -> Mapping[str, Any]:
    """Return the similarity of words, of senses, or of occurrences."""
    context.progress("comparing words", None)
    model, word, options = context.model(request.run), request.word, commands.given(request, "by")
    top = commands.given(request, "top")
    if request.context is not None:
        tokens = max(len(model.source_tokenizer.encode(text).ids) for text in request.context)
        refuse_above(limits.MAX_READ, tokens, "context", "tokens of a sentence", "shorten the sentence")
        document = model.vectors.in_context(word, request.context, request.layer, request.top).document()
        call = commands.arguments(repr(word), repr(request.context), layer=request.layer, top=request.top)
        expression = f"model.vectors.in_context({call})"
        options, words = {**commands.given(request, "context", "layer"), **top}, [word]
    elif request.other is not None:
        document = model.similarity(word, request.other, request.by).document()
        expression = f"model.similarity({commands.arguments(repr(word), repr(request.other), **options)})"
        words = [word, request.other]
    else:
        document = model.similar(word, request.top, request.by).document()
        expression = f"model.similar({commands.arguments(repr(word), top=request.top, **options)})"
        options, words = {**options, **top}, [word]
    run = context.shown(request.run)
    line = commands.terminal("similar", [run, *words], options)
    return reply(document, line, commands.python(run, f"{expression}.document()"))


class EmbeddingsRequest(RunRequest):
    """Request of /api/embeddings."""

    words: list[Word] | None = Field(
        None, min_length=1, max_length=1000, description="words; default: the most frequent tokens"
    )
    sense: int | None = limits.bounded("sense", None, "Backpacks: use the vectors of this sense")
    top: int = limits.bounded("top", 200, "number of most frequent tokens")


def embeddings(context: Context, request: EmbeddingsRequest) -> Mapping[str, Any]:
    """Return a two-dimensional PCA of word vectors."""
    context.progress("comparing words", None)
    model = context.model(request.run)
    if words := [word for word in request.words or () if len(word.split()) != 1]:
        raise InvalidFieldError("words", f"found {words[0]!r}, expected a word without white space")
    names = [part for word in request.words or () for part in word.split()]
    most = limits.MAX_MAPPED // (model.source_tokenizer.size + 1)
    refuse_above(most, len(names) or request.top, "words" if names else "top", "words", "choose fewer words")
    document = model.vectors.map(names, count=request.top, sense=request.sense).document()
    options = commands.given(request, "sense", "top")
    run = context.shown(request.run)
    line = commands.terminal("look embeddings", [run, *([" ".join(names)] if names else [])], options)
    call = commands.arguments(repr(names), count=request.top, sense=request.sense)
    return reply(document, line, commands.python(run, f"model.vectors.map({call}).document()"))
