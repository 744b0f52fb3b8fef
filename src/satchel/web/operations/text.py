"""Operations on texts: next tokens, scores, labels, tags, translations and tokens."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from satchel.web import commands, limits
from satchel.web.errors import InvalidFieldError
from satchel.web.operation import Context
from satchel.web.operations.requests import BatchRequest, Text, batch_reply, count_tokens, refuse_above, reply

# --- next -----------------------------------------------------------------------------------------------


class NextRequest(BatchRequest):
    """Request of /api/next."""

    top: int = limits.bounded("top", 10, "number of tokens")


def next_tokens(context: Context, request: NextRequest) -> Mapping[str, Any]:
    """Return the most probable next tokens."""
    model, options = context.model(request.run, task="lm"), commands.given(request, "top")

    def single(text: str) -> Mapping[str, Any]:
        context.progress("predicting", None)
        document: Mapping[str, Any] = model.next(text, request.top).document()
        return document

    expression = request.expression(lambda text: f"model.next({commands.arguments(text, **options)}).document()")
    return batch_reply(context, request, request.single_or_list(single), "next", options, expression)


# --- score ----------------------------------------------------------------------------------------------


class ScoreRequest(BatchRequest):
    """Request of /api/score."""

    target: Text | None = Field(None, description="translators: translation to score, with text as the source")
    targets: list[Text] | None = Field(
        None, max_length=limits.MAX_BATCH, description="translators: translation of each of texts"
    )
    top: int = limits.bounded("score_top", 0, "number of alternatives of each token")

    @model_validator(mode="after")
    def _check_targets(self) -> Self:
        if self.target is not None and self.text is None:
            raise ValueError("target belongs to text; give targets with texts")
        if self.targets is not None and (self.texts is None or len(self.targets) != len(self.texts)):
            raise ValueError("expected as many targets as texts")
        if sum(map(len, self.targets or ())) > limits.MAX_CHARACTERS:
            raise ValueError(f"targets: expected at most {limits.MAX_CHARACTERS:,} characters in total")
        return self

    @property
    def pairs(self) -> list[tuple[str, ...]]:
        """The texts; for translators, sources with their translations."""
        targets = self.targets if self.target is None else [self.target]
        return [(text,) for text in self.inputs] if targets is None else list(zip(self.inputs, targets, strict=True))


def score(context: Context, request: ScoreRequest) -> Mapping[str, Any]:
    """Return the log-probabilities of tokens."""
    model, pairs = context.model(request.run), request.pairs
    if model.task not in ("lm", "translate"):
        context.model(request.run, task="lm")  # an error that names the task
    if len(pairs[0]) > 1:
        context.model(request.run, task="translate")
    elif model.task == "translate":
        field = "target" if request.texts is None else "targets"
        raise InvalidFieldError(field, "the translation to score is missing", "text is the source")
    if request.top:
        tokens = count_tokens(model, [pair[-1] for pair in pairs])
        refuse_above(limits.MAX_RANKED, tokens, "top", "tokens with alternatives", "shorten the text, or omit top")
        refuse_above(limits.MAX_LISTED, tokens * request.top, "top", "alternatives", "shorten the text or lower top")
    documents = []
    for pair in pairs:
        context.progress("scoring", None)
        documents.append(model.score(*pair, top=request.top).document())
    options = commands.given(request, "top")
    run = context.shown(request.run)
    lines = [
        commands.terminal("score", [run], {"target": target[0], **options} if target else options, text=text)
        for text, *target in pairs
    ]
    names = ("text", "target")[: len(pairs[0])]
    if request.texts is None:
        document, expression = documents[0], _score_call(*map(repr, pairs[0]), **options)
    else:
        document = {"results": documents}
        call, texts = _score_call(*names, **options), request.texts if len(names) == 1 else pairs
        expression = f"{{'results': [{call} for {', '.join(names)} in {texts!r}]}}"
    return reply(document, "\n".join(lines), commands.python(run, expression))


def _score_call(*texts: str, **options: Any) -> str:
    return f"model.score({commands.arguments(*texts, **options)}).document()"


# --- classify, tag, translate ---------------------------------------------------------------------------


class ClassifyRequest(BatchRequest):
    """Request of /api/classify."""

    contributions: bool = Field(True, description="Backpacks: return the contributions of the senses of words")


def classify(context: Context, request: ClassifyRequest) -> Mapping[str, Any]:
    """Return the labels of texts."""
    model = context.model(request.run, task="classify")
    if model.has_senses and request.contributions:
        cells = count_tokens(model, request.inputs) * model.settings.model.senses * len(model.labels)
        remedy = "shorten the text, or set contributions to false"
        refuse_above(limits.MAX_LISTED, cells, "contributions", "contributions", remedy)
    predictions = []
    for prediction in model.predict(request.inputs):
        context.progress("classifying", None)
        predictions.append(prediction.document(contributions=request.contributions))
    options = commands.given(request, "contributions")
    expression = _predictions(request, **options)
    return batch_reply(context, request, {"predictions": predictions}, "classify", {}, expression)


class TagRequest(BatchRequest):
    """Request of /api/tag."""


def tag(context: Context, request: TagRequest) -> Mapping[str, Any]:
    """Return the tags of texts."""
    model = context.model(request.run, task="tag")
    predictions = [each.document() for each in model.predict(request.inputs)]
    return batch_reply(context, request, {"predictions": predictions}, "tag", {}, _predictions(request))


def _predictions(request: BatchRequest, **options: Any) -> str:
    """Return the Python expression of the predictions for texts."""
    document = f"each.document({commands.arguments(**options)})"
    return f"{{'predictions': [{document} for each in model.predict({request.inputs!r})]}}"


class TranslateRequest(BatchRequest):
    """Request of /api/translate."""

    beam: int = limits.bounded("beam", 4, "beam size; 1 is greedy")
    best: int = limits.bounded("best", 1, "number of translations of each text, best first")
    length_penalty: float = limits.bounded("length_penalty", 1.0, "exponent of the length in the score")
    sample: bool = Field(False, description="sample translations instead of searching")
    temperature: float = limits.bounded("temperature", 1.0, "sampling temperature; 0 is greedy")
    top_k: int | None = limits.bounded("top_k", None, "sample from the K most probable tokens")
    top_p: float | None = limits.bounded("probability", None, "sample from the tokens with this sum of probabilities")
    seed: int = limits.bounded("seed", 0, "random seed of the sampler")

    @classmethod
    def max_characters(cls) -> int:
        """Return the maximum number of characters of all texts."""
        return limits.MAX_TRANSLATED

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        if not self.sample and commands.given(self, "temperature", "top_k", "top_p"):
            raise ValueError("temperature, top_k and top_p have no effect on beam search; set sample to true")
        if not self.sample and self.best > self.beam:
            raise ValueError("best is larger than beam")
        return self


def translate(context: Context, request: TranslateRequest) -> Mapping[str, Any]:
    """Return the translations of texts."""
    from satchel.config import build
    from satchel.generation.sampling import Sampling

    model = context.model(request.run, task="translate")
    searched = commands.given(request, "beam", "best", "length_penalty")
    sampled = commands.given(request, "temperature", "top_k", "top_p", "seed") if request.sample else {}
    options: dict[str, Any] = {"beam": request.beam, "best": request.best, "length_penalty": request.length_penalty}

    def progress(done: float) -> None:
        context.progress("translating", done)

    if request.sample:
        options["sampling"] = build(Sampling, {**sampled, "samples": request.best})
        # In a batch, the random numbers of a text would depend on the texts before it.
        results = (model.translate(text, progress=progress, **options) for text in request.inputs)
    else:
        results = model.predict(request.inputs, progress=progress, **options)
    translations = [each.document(alignment=request.texts is None) for each in results]
    flags = {**searched, **({"sample": True} if request.sample else {}), **sampled}
    settings = commands.arguments(**sampled, samples=request.best)
    sampling = [f"sampling=Sampling({settings})"] if request.sample else []
    alignment = commands.arguments(**({"alignment": True} if request.texts is None else {}))

    def call(text: str) -> str:
        return f"model.translate({commands.arguments(text, *sampling, **searched)}).document({alignment})"

    imports = "from satchel.generation.sampling import Sampling" if request.sample else ""
    expression = f"{{'translations': {commands.for_each(request.inputs, call)}}}"
    return batch_reply(context, request, {"translations": translations}, "translate", flags, expression, imports)


# --- tokenize -------------------------------------------------------------------------------------------


class TokenizeRequest(BatchRequest):
    """Request of /api/tokenize."""


def tokenize(context: Context, request: TokenizeRequest) -> Mapping[str, Any]:
    """Return the tokens of texts."""
    tokenizer = context.model(request.run).tokenizer
    expression = request.expression(lambda text: f"model.tokenizer.document({text})")
    return batch_reply(context, request, request.single_or_list(tokenizer.document), "tokenize", {}, expression)
