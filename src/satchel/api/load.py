"""Load the model of a run folder, or import an ARPA file."""

from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from satchel import config, durable
from satchel.api.classification import Classifier
from satchel.api.keywords import suggest_keywords
from satchel.api.language import LanguageModel
from satchel.api.tagging import Tagger
from satchel.api.tasks import TASKS, AnyModel, CustomEncoder, check_task, new_model, read_settings
from satchel.api.translation import Translator
from satchel.errors import RunError
from satchel.generation.mixing import Mix
from satchel.ngram import arpa
from satchel.ngram.tables import Table
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.runs.folder import RunFolder
from satchel.text.reading import Corpus, lines
from satchel.text.sources import file_source
from satchel.text.tokenizer import KINDS, Tokenizer
from satchel.text.tokenizer_files import load_tokenizer
from satchel.text.tokenizer_training import char_tokenizer, word_tokenizer
from satchel.training.settings import NgramRunSettings


@overload
def load(run: str | Path, *, task: Literal["lm"], model: CustomEncoder = None) -> LanguageModel: ...
@overload
def load(run: str | Path, *, task: Literal["classify"], model: CustomEncoder = None) -> Classifier: ...
@overload
def load(run: str | Path, *, task: Literal["tag"], model: CustomEncoder = None) -> Tagger: ...
@overload
def load(run: str | Path, *, task: Literal["translate"], model: CustomEncoder = None) -> Translator: ...
@overload
def load(run: str | Path, *, task: None = None, model: CustomEncoder = None) -> AnyModel: ...
@suggest_keywords
def load(run: str | Path, *, task: str | None = None, model: CustomEncoder = None) -> AnyModel:
    """Load the model of a run folder. All files of the run are validated first; no code in it is executed.

    Args:
        run: The run folder, as written by `train` or `satchel train`.
        task: The expected task: "lm", "classify", "tag" or "translate". A run for another task raises an error.
            With this argument, editors and type checkers know the class of the model.
        model: The encoder, if the run was trained with an encoder of your program; see `train`.

    Returns:
        A LanguageModel, Classifier, Tagger or Translator, according to the task of the run.
    """
    files = runs.open_run(Path(run))
    check_task(files.config, task, run)
    settings = read_settings(files.config, files.path)
    if settings.model.kind == "mix":
        predictor: Any = _load_mix(files, settings.model.parts)
    else:
        predictor = TASKS[settings.task].family(settings.model.kind).load(files, settings, model)
    if runs.read_config(files.path) != files.config:
        raise RunError("was replaced while it was being loaded", "load it again", where=str(run))
    return new_model(predictor, files)


def _load_mix(run: RunFolder, names: tuple[str, ...]) -> Mix:
    """Return the mix of the language models in a run."""
    arrays, where = run.arrays(), str(run.path / runs.MODEL)
    weights = arrays.get("weights", np.empty(0))
    if list(arrays) != ["weights"] or weights.dtype != np.float64 or weights.shape != (len(names),) or not names:
        raise RunError(f"found other tensors than the weights of {len(names)} models", where=where)
    if (weights < 0).any() or abs(float(weights.sum()) - 1) > 1e-9:
        raise RunError("the weights are negative or do not sum to 1", where=where)
    folders = runs.part_folders(run.path)
    if [folder.name for folder in folders] != [str(number) for number in range(len(names))]:
        raise RunError(f"found {len(folders)} models, expected {len(names)}", where=str(run.path / runs.PARTS))
    models = [load(folder, task="lm") for folder in folders]
    if any(model.tokenizer.sha256 != run.tokenizer.sha256 for model in models):
        raise RunError("a model has another tokenizer than the mix", where=str(run.path / runs.PARTS))
    return Mix(tuple(model.predictor for model in models), weights, names)


def import_arpa(
    path: str | Path,
    out: str | Path,
    *,
    tokenizer: str | Path = "word",
    force: bool = False,
    progress: Progress = silent,
) -> LanguageModel:
    """Write an ARPA file as a run and return its model.

    `tokenizer` is the tokenizer of the file's words: `word`, `char`, a run, or a tokenizer.json.
    """
    source = file_source(Path(path))
    corpus = Corpus(str(path), (source,))
    table, spellings, unknown = arpa.read_arpa(
        lines(corpus.texts(source)), source.where, lambda stage: progress(stage, None)
    )
    arpa_tokenizer = _arpa_tokenizer(spellings, unknown, str(tokenizer))
    table = _renumber(table, spellings, unknown, arpa_tokenizer, str(path))
    settings = config.build(
        NgramRunSettings,
        {
            "data": {"documents": "line" if table.levels[0].probabilities[-1] > 0 else "stream"},
            "tokenizer": {"kind": arpa_tokenizer.kind if arpa_tokenizer.kind in KINDS else "word"},
            "model": {"order": table.order, "smoothing": "imported"},
        },
    )
    facts = {"imported": source.name, "ngrams": table.sizes}
    run_config = runs.new_config(settings, arpa_tokenizer, source.name, corpus.identity(), facts)
    with durable.new_folder(Path(out), runs.check_replaceable if force else None) as folder:
        progress("writing", None)
        runs.write_model(folder, run_config, arpa_tokenizer, table.arrays())
    return LanguageModel(table, settings, RunFolder(Path(out), run_config, arpa_tokenizer, arpa_tokenizer))


def _arpa_tokenizer(spellings: list[str], unknown: int | None, choice: str) -> Tokenizer:
    known = [spelling for index, spelling in enumerate(spellings) if index != unknown]
    if choice == "word":
        return word_tokenizer(known)
    if choice == "char":
        return char_tokenizer(known)
    return load_tokenizer(Path(choice))


def _renumber(table: Table, spellings: list[str], unknown: int | None, tokenizer: Tokenizer, where: str) -> Table:
    """Return the table with the ids of the tokenizer; ids that are not in the table have probability 0."""
    ids = {spelling: id_ for id_, spelling in enumerate(tokenizer.spellings)}
    new_ids = []
    for index, spelling in enumerate(spellings):
        id_ = tokenizer.unknown if index == unknown else ids.get(spelling)
        if id_ is None:
            raise RunError(
                f"the tokenizer has no token {spelling!r}",
                "give the tokenizer of the file: --tokenizer char, word, a run or a tokenizer.json",
                where=where,
            )
        new_ids.append(id_)
    return table.renumbered([*new_ids, tokenizer.boundary], tokenizer.size + 1)
