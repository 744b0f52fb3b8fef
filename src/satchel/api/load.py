"""From a run folder, or from a file of another tool, to a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from satchel import config, durable, tensors
from satchel.api.classification import Classifier
from satchel.api.language import LanguageModel
from satchel.api.tagging import Tagger
from satchel.api.translation import Translator
from satchel.errors import RunError
from satchel.generation.mixing import Mix
from satchel.ngram import arpa
from satchel.ngram.classes import class_tables_from_arrays
from satchel.ngram.tables import Table, table_from_arrays
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.text.reading import Corpus, file_source, lines
from satchel.text.tokenizer import KINDS, Tokenizer, char_tokenizer, load_tokenizer, word_tokenizer
from satchel.training.run_settings import ClassifierSettings, LanguageSettings, MixRunSettings, build_settings

if TYPE_CHECKING:
    from satchel.training.networks import NetworkSettings, TranslationSettings


def load(run: str | Path, *, model: Any = None) -> Any:
    """Return the model of a run folder, once all of it is known to be sound: what it is depends on the run's task.

    Where it was trained with an encoder of your own, give that again as `model`.
    """
    return load_model(run, model)


AnyModel = LanguageModel | Classifier | Tagger | Translator


def load_model(run: str | Path, own: Any = None) -> AnyModel:
    """Return the model of a run folder."""
    folder = Path(run)
    described = runs.read_config(folder)
    settings = read_settings(described, folder)
    tokenizer = runs.read_run_tokenizer(folder, described)
    path = folder / runs.MODEL
    arrays, metadata = tensors.read(path)
    if metadata.get("tokenizer") != tokenizer.sha256:
        raise RunError("belongs to another run: its tokenizer is another one", where=str(path))
    model: AnyModel
    if settings.task == "translate":
        model = _translator(settings, tokenizer, arrays, described, folder)
    elif isinstance(settings, ClassifierSettings):
        size, labels = tokenizer.size + 1, described.labels
        labeller = class_tables_from_arrays(arrays, size, settings.model, len(labels), str(path))
        model = Classifier(labeller, tokenizer, settings, described, folder)
    elif isinstance(settings, MixRunSettings):
        mix = _mix(folder, arrays, settings.model.parts, tokenizer)
        model = LanguageModel(mix, tokenizer, settings, described, folder)
    elif not isinstance(settings, LanguageSettings):
        model = _network_model(settings, tokenizer, arrays, described, folder, own)
    else:
        table = table_from_arrays(arrays, tokenizer.size + 1, settings.model.order, str(path))
        model = LanguageModel(table, tokenizer, settings, described, folder)
    if runs.read_config(folder) != described:
        raise RunError("was replaced while it was being loaded", "load it again", where=str(folder))
    return model


def _translator(
    settings: "TranslationSettings",
    tokenizer: Tokenizer,
    arrays: dict[str, tensors.Array],
    described: runs.RunConfig,
    folder: Path,
) -> Translator:
    from satchel.training.networks import load_translator

    tokenizers = runs.read_source_tokenizer(folder, described) or tokenizer, tokenizer
    network = load_translator(folder, settings, tokenizers, arrays)
    return Translator(network, tokenizers, settings, described, folder)


def _network_model(
    settings: "NetworkSettings",
    tokenizer: Tokenizer,
    arrays: dict[str, tensors.Array],
    described: runs.RunConfig,
    folder: Path,
    own: Any,
) -> LanguageModel | Classifier | Tagger:
    from satchel.tasks.language import NetworkPredictor
    from satchel.tasks.predictors import predictor_of
    from satchel.training.networks import load_network

    network = load_network(folder, settings, tokenizer, len(described.labels), arrays, own)
    predictor = predictor_of(network, tokenizer.boundary)
    if isinstance(predictor, NetworkPredictor):
        return LanguageModel(predictor, tokenizer, settings, described, folder)
    kind = Classifier if settings.task == "classify" else Tagger
    return kind(predictor, tokenizer, settings, described, folder)


# What a model is called, what to use on it, and what makes one.
WORDS = {
    LanguageModel: ("a language model", "`satchel generate` and `score` are for it", "train one on a text"),
    Classifier: ("a classifier", "use `satchel classify` on it", "train one on a table with labels and texts"),
    Tagger: ("a tagger", "use `satchel tag` on it", "train one on a table with texts and tags"),
    Translator: ("a translator", "use `satchel translate` on it", "train one on a table with sources and targets"),
}

M = TypeVar("M", LanguageModel, Classifier, Tagger, Translator)


def load_as(run: str | Path, kind: type[M]) -> M:
    """Return the model of a run folder, if it is of this kind."""
    model = load_model(run)
    if not isinstance(model, kind):
        found, use, _ = WORDS[type(model)]
        expected, _, make = WORDS[kind]
        raise RunError(f"is {found}, expected {expected}", f"{use}; or {make}", where=str(run))
    return model


def load_language_model(run: str | Path) -> LanguageModel:
    """Return the language model of a run folder."""
    return load_as(run, LanguageModel)


def load_classifier(run: str | Path) -> Classifier:
    """Return the classifier of a run folder."""
    return load_as(run, Classifier)


def load_tagger(run: str | Path) -> Tagger:
    """Return the tagger of a run folder."""
    return load_as(run, Tagger)


def load_translator(run: str | Path) -> Translator:
    """Return the translator of a run folder."""
    return load_as(run, Translator)


def read_settings(
    described: runs.RunConfig, folder: Path
) -> "LanguageSettings | MixRunSettings | ClassifierSettings | NetworkSettings | TranslationSettings":
    """Return the settings of a run by its task and the kind of its model."""
    where = str(folder / runs.CONFIG)
    model = described.settings.get("model")
    if described.settings.get("task") != described.task:
        raise RunError("its task is not that of its settings", where=where)
    if isinstance(model, dict) and model.get("kind") == "mix":
        return config.build(MixRunSettings, described.settings, where)
    return build_settings(described.settings, where)


def _mix(folder: Path, arrays: dict[str, tensors.Array], names: tuple[str, ...], tokenizer: Tokenizer) -> Mix:
    weights = arrays.get("weights", np.empty(0))
    where = str(folder / runs.MODEL)
    if list(arrays) != ["weights"] or weights.dtype != np.float64 or weights.shape != (len(names),) or not names:
        raise RunError(f"found other tensors than the weights of {len(names)} parts", where=where)
    if (weights < 0).any() or abs(float(weights.sum()) - 1) > 1e-9:
        raise RunError("its weights are not shares that sum to one", where=where)
    parts = [load_language_model(folder / runs.PARTS / str(number)) for number in range(len(names))]
    if any(part.tokenizer.sha256 != tokenizer.sha256 for part in parts):
        raise RunError("a part has another tokenizer than the mix", where=str(folder / runs.PARTS))
    return Mix(tuple(part.predictor for part in parts), weights, names)


def import_arpa(
    path: str | Path,
    out: str | Path,
    *,
    tokenizer: str | Path = "word",
    force: bool = False,
    progress: Progress = silent,
) -> LanguageModel:
    """Make a run of an ARPA file and return its model.

    `tokenizer` says what its words are: `word`, `char`, or the run or tokenizer.json it was made with.
    """
    source = file_source(Path(path))
    corpus = Corpus(str(path), (source,))
    table, spellings, unknown = arpa.read_arpa(
        lines(corpus.texts(source)), source.where, lambda stage: progress(stage, None)
    )
    made = _tokenizer_of(spellings, unknown, str(tokenizer))
    table = _renumbered(table, spellings, unknown, made, str(path))
    rule = "line" if table.levels[0].probabilities[-1] > 0 else "stream"
    settings = config.build(
        LanguageSettings,
        {
            "data": {"documents": rule},
            "tokenizer": {"kind": made.kind if made.kind in KINDS else "word"},
            "model": {"order": table.order, "smoothing": "imported"},
        },
    )
    target = Path(out)
    described = runs.describe(
        settings, made, source.name, corpus.identity(), {"imported": source.name, "ngrams": table.sizes}
    )
    with durable.new_folder(target, runs.is_run if force else None) as folder:
        progress("writing", None)
        runs.write_model(folder, described, made, table.arrays())
    return LanguageModel(table, made, settings, described, target)


def _tokenizer_of(spellings: list[str], unknown: int | None, choice: str) -> Tokenizer:
    known = [spelling for index, spelling in enumerate(spellings) if index != unknown]
    if choice == "word":
        return word_tokenizer(known)
    if choice == "char":
        return char_tokenizer(known)
    return load_tokenizer(Path(choice))


def _renumbered(table: Table, spellings: list[str], unknown: int | None, tokenizer: Tokenizer, where: str) -> Table:
    """Return the table with the tokenizer's ids for its words; ids that it lacks have no probability."""
    ids = {spelling: id_ for id_, spelling in enumerate(tokenizer.spellings)}
    moved = []
    for index, spelling in enumerate(spellings):
        id_ = tokenizer.unknown if index == unknown else ids.get(spelling)
        if id_ is None:
            raise RunError(
                f"the tokenizer has no token {spelling!r}",
                "give the tokenizer the file was made with: --tokenizer char, word, a run or a tokenizer.json",
                where=where,
            )
        moved.append(id_)
    return table.renumbered([*moved, tokenizer.boundary], tokenizer.size + 1)
