"""The operations of the JSON API. This package imports the classes of requests, and neither torch nor a model."""

from satchel.web.operation import Operation, Place, Request
from satchel.web.operations import evaluation, information, inspection, text

COMMANDS = ("terminal", "python")


def _operation(
    name: str, request: type[Request], summary: str, *keys: str, function: str = "", place: Place = "worker"
) -> Operation:
    path = f"{request.__module__}:{function or name}"
    return Operation(name, request, path, summary, (*keys, *COMMANDS), place)


OPERATIONS: tuple[Operation, ...] = (
    _operation("next", text.NextRequest, "The most probable next tokens after a text.", function="next_tokens"),
    _operation("score", text.ScoreRequest, "The log-probability of every token of a text."),
    _operation("classify", text.ClassifyRequest, "The label of a text and the probability of each.", "predictions"),
    _operation("tag", text.TagRequest, "The tags of a text.", "predictions"),
    _operation("translate", text.TranslateRequest, "The translation of a text.", "translations"),
    _operation("tokenize", text.TokenizeRequest, "The tokens of a text."),
    _operation(
        "attention", inspection.AttentionRequest, "The attention weights of a text.",
        "rows", "columns", "which", "layers", "title", "chosen", "maps", "window",
    ),
    _operation(
        "patterns", inspection.PatternsRequest, "The attention weight of each head on the positions of patterns.",
        "texts", "heads", "windows", "notes",
    ),
    _operation(
        "lens", inspection.LensRequest, "The predictions from the hidden states of each layer.",
        "tokens", "targets", "layers", "names", "probabilities", "ranks", "nats", "window", "said",
    ),
    _operation(
        "attribution", inspection.AttributionRequest, "The attribution of a logit to the words of a text.",
        "words", "positions", "target", "versus", "score", "baseline", "exact", "notes", "window", "logit", "methods",
        "bias",
    ),
    _operation(
        "senses", inspection.SensesRequest, "The words that each sense of a word promotes and suppresses.", "words"
    ),
    _operation("similar", inspection.SimilarRequest, "Similar words, or the similarity of words or occurrences."),
    _operation(
        "contributions", inspection.ContributionsRequest, "The contributions of senses to a logit of a Backpack.",
        "words", "positions", "target", "versus", "values", "constant", "centred", "bias", "bias_parts", "logit",
        "notes", "window",
    ),
    _operation("alignment", inspection.AlignmentRequest, "The alignment of a source and a translation.", "alignment"),
    _operation(
        "embeddings", inspection.EmbeddingsRequest, "A two-dimensional PCA of word vectors.", "points", "shares"
    ),
    _operation(
        "compare", evaluation.CompareRequest, "The metric of several runs on the same data, and their differences.",
        "metric", "units", "rows", "pairs", "groups", "warnings", "documents", place="long",
    ),
    _operation("evaluate", evaluation.EvaluateRequest, "The metrics of a run on data.", place="long"),
    _operation("info", information.InfoRequest, "Sizes, settings and facts of a run.", "run"),
    _operation(
        "lesson", information.LessonRequest, "The steps of a lesson.",
        "name", "title", "source", "items", "inputs", "steps",
    ),
)  # fmt: skip
