"""ARPA files: export, import, error messages, and agreement with KenLM."""

import io
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import satchel
from satchel import api
from satchel.data.tokens import tokenize_pieces
from satchel.datasets.corpora import open_corpus
from satchel.errors import DataError, RunError
from satchel.ngram.arpa import escape, read_arpa, unescape, write_arpa
from satchel.ngram.smoothing import NgramSettings, Smoothing, estimate
from satchel.ngram.tables import Table
from satchel.text.reading import DataSettings, lines
from satchel.text.tokenizer_training import word_tokenizer

from .test_smoothing import zipf

VALID = """\\data\\
ngram 1=4
ngram 2=2

\\1-grams:
-99\t<s>\t-0.3
-0.5\t</s>
-0.4\ta\t-0.2
-0.6\t<unk>

\\2-grams:
-0.1\t<s> a
-0.2\ta </s>

\\end\\
"""


@given(st.text())
def test_escaping_is_reversible_and_leaves_no_white_space(token: str) -> None:
    word = escape(token)
    assert unescape(word) == token
    assert len(word.split()) == (1 if token else 0)
    assert word.casefold() not in ("<s>", "</s>", "<unk>")


@pytest.mark.parametrize(
    "token", ["<s>", "</S>", "<unk>", " ", "\\u{20}", "a\u3000b", "\x00", "\\\\u{5c}u{20}", "\x1f"]
)
def test_reserved_words_white_space_and_escape_sequences_are_escaped(token: str) -> None:
    assert escape(token) != token
    assert unescape(escape(token)) == token


def test_ordinary_words_are_not_escaped() -> None:
    assert [escape(word) for word in ("word", "Ġthe", "a\\b", "<eos>")] == ["word", "Ġthe", "a\\b", "<eos>"]


@pytest.mark.parametrize("smoothing", ["kneser-ney", "witten-bell", "add-k"])
@pytest.mark.parametrize("prune", [(0,), (0, 0, 1)])
@pytest.mark.parametrize("order", [1, 2, 4])
def test_reading_a_written_model_gives_the_same_scores(
    smoothing: Smoothing, prune: tuple[int, ...], order: int
) -> None:
    ids = zipf(3_000, 80)
    table = estimate(ids, 80, NgramSettings(order=order, smoothing=smoothing, prune=prune), ends=True).table
    words = [f"w{index}" for index in range(79)]
    handle = io.BytesIO()
    write_arpa(handle, table, words, 78, lambda done: None)
    imported, spellings, unknown = read_arpa(lines([handle.getvalue().decode()]), "memory", lambda stage: None)
    assert spellings[:78] == words[:78]
    assert unknown == 78
    test = zipf(1_000, 80, seed=5)
    assert imported.score(test).logprobs == pytest.approx(table.score(test).logprobs, abs=1e-7)


def test_an_exported_and_imported_run_gives_the_same_scores(verse: Path, tmp_path: Path) -> None:
    for tokenizer in ("char", "word", "bpe:300"):
        for rule in ("stream", "line"):
            run = tmp_path / f"{tokenizer.partition(':')[0]}-{rule}"
            model = satchel.train(
                verse, model="ngram", tokenizer=tokenizer, settings={"data.documents": rule}, out=run, task="lm"
            )
            model.export_arpa(tmp_path / "model.arpa")
            imported = api.import_arpa(tmp_path / "model.arpa", tmp_path / f"{run.name}-imported", tokenizer=run)
            text = "The cat saw the log.\nAnd the <unk> dog <s> too\n"
            assert imported.score(text).logprobs == pytest.approx(model.score(text).logprobs, abs=1e-6)
            assert imported.settings.data.documents == rule
            assert satchel.load(tmp_path / f"{run.name}-imported", task="lm").score(text).ids == model.score(text).ids


def test_importing_a_word_model_needs_no_tokenizer(verse: Path, tmp_path: Path) -> None:
    model = satchel.train(
        verse, model="ngram", tokenizer="word", settings={"data.documents": "line"}, out=tmp_path / "a", task="lm"
    )
    model.export_arpa(tmp_path / "a.arpa")
    imported = api.import_arpa(tmp_path / "a.arpa", tmp_path / "b")
    assert imported.evaluate(verse).perplexity == pytest.approx(model.evaluate(verse).perplexity, rel=1e-6)


def test_importing_with_a_tokenizer_that_lacks_a_word_is_refused(verse: Path, tmp_path: Path) -> None:
    satchel.train(verse, model="ngram", tokenizer="word", out=tmp_path / "a", task="lm").export_arpa(
        tmp_path / "a.arpa"
    )
    satchel.train(verse, model="ngram", tokenizer="char", out=tmp_path / "characters", task="lm")
    with pytest.raises(RunError, match="has no token"):
        api.import_arpa(tmp_path / "a.arpa", tmp_path / "b", tokenizer=tmp_path / "characters")
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\data\\", "hello", "before"),
        ("ngram 1=4", "ngram 1=5", "found 4 1-grams, expected 5"),
        ("ngram 2=2", "ngram 3=2", "expected 'ngram 2"),
        ("-0.4\ta", "x\ta", "is not a number"),
        ("-0.4\ta", "0.4\ta", "expected a number of at most 0"),
        ("-0.4\ta", "nan\ta", "expected a number of at most 0"),
        ("-0.1\t<s> a", "-0.1\t<s> b", "is missing in the 1-grams"),
        ("-0.1\t<s> a", "-0.1\t<s> a b c", "columns"),
        ("-0.1\t<s> a", "-0.2\ta </s>", "twice"),
        ("-0.6\t<unk>", "-0.6\ta", "twice"),
        ("-99\t<s>\t-0.3", "-99\tq\t-0.3", "<s> is missing"),
        ("\\2-grams:", "\\3-grams:", "expected"),
        ("ngram 1=4\nngram 2=2\n", "", "expected 'ngram 1"),
        (VALID[7:], "", "found 0 orders"),
    ],
)
def test_an_invalid_file_is_refused_with_the_line_number(old: str, new: str, message: str) -> None:
    assert old in VALID
    with pytest.raises(DataError, match="line") as error:
        read_arpa(lines([VALID.replace(old, new)]), "bad.arpa", lambda stage: None)
    assert message in str(error.value)


def test_a_valid_file_is_read() -> None:
    table, words, unknown = read_arpa(lines([VALID]), "valid.arpa", lambda stage: None)
    assert (words, unknown) == (["a", "<unk>"], 1)
    scores = table.score(np.array([2, 0, 2, 1])).logprobs / np.log(10)
    assert scores.tolist() == pytest.approx([-0.1, -0.2, -0.3 - 0.6])


# --- KenLM ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wikitext(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Train a word model of order 5 on WikiText-2; yield the folder of its run and ARPA file, and the data folder."""
    shared: Path = request.getfixturevalue("shared")
    folder = tmp_path_factory.mktemp("wikitext")
    data = shared / "wikitext-2"
    satchel.train(
        data / "wiki.train.tokens.gz",
        model="ngram",
        tokenizer="word",
        settings={"data.documents": "line", "model.order": 5},
        out=folder / "run",
        task="lm",
    ).export_arpa(folder / "satchel.arpa")
    yield folder, data
    shutil.rmtree(folder)


def test_kenlm_computes_the_same_probability_of_every_token_of_wikitext(wikitext: tuple[Path, Path]) -> None:
    kenlm = pytest.importorskip("kenlm", reason="the kenlm module is not installed")
    folder, data = wikitext
    model = satchel.load(folder / "run", task="lm")
    test = data / "wiki.test.tokens.gz"
    tokens = tokenize_pieces(open_corpus(test, DataSettings(documents="line")).pieces(), model.tokenizer, "line")
    ours = model.predictor.score(tokens.ids).logprobs / np.log(10)
    assert np.exp(-ours.mean() * np.log(10)) == pytest.approx(224.81, abs=0.005)
    words = [*map(escape, model.tokenizer.spellings), ""]
    reference = kenlm.Model(str(folder / "satchel.arpa"))
    theirs: list[float] = []
    start = 1
    ids = tokens.ids.tolist()
    for end in (np.flatnonzero(tokens.ids[1:] == model.tokenizer.boundary) + 1).tolist():
        sentence = " ".join(words[id_] for id_ in ids[start:end])
        theirs += [logprob for logprob, _, _ in reference.full_scores(sentence)]
        start = end + 1
    assert len(theirs) == len(ours)
    assert np.abs(np.array(theirs) - ours).max() < 1e-4


def test_the_estimates_equal_those_of_lmplz(wikitext: tuple[Path, Path]) -> None:
    lmplz = shutil.which("lmplz")
    if lmplz is None:
        pytest.skip("KenLM's lmplz is not on PATH")
    folder, data = wikitext
    settings = DataSettings(documents="line")
    corpus = open_corpus(data / "wiki.train.tokens.gz", settings)
    text = "".join(" ".join(map(escape, piece.text.split())) + "\n" for piece in corpus.pieces())
    subprocess.run(
        [lmplz, "-o", "5", "-S", "30%", "--arpa", str(folder / "lmplz.arpa")],
        input=text.encode(),
        check=True,
        capture_output=True,
    )
    theirs, words, unknown = read_arpa(
        lines([(folder / "lmplz.arpa").read_bytes().decode()]), "lmplz.arpa", lambda stage: None
    )
    tokenizer = word_tokenizer([word for index, word in enumerate(words) if index != unknown])
    model = satchel.load(folder / "run")
    indices = {word: index for index, word in enumerate(words)}
    assert unknown is not None
    new_ids = [indices.get(word, unknown) for word in model.tokenizer.spellings[: model.tokenizer.unknown]]
    assert isinstance(model.predictor, Table)
    ours = model.predictor.renumbered([*new_ids, unknown, len(words)], len(words) + 1)
    assert tokenizer.size == len(words)
    assert ours.sizes == theirs.sizes
    for a, b in zip(ours.levels, theirs.levels, strict=True):
        assert np.array_equal(a.keys, b.keys)
        assert np.abs(np.log10(a.probabilities) - np.log10(b.probabilities)).max() < 1e-4
        if len(a.weights):
            assert np.abs(np.log10(a.weights) - np.log10(b.weights)).max() < 1e-4


@pytest.mark.parametrize("rule", ["stream", "line"])
@pytest.mark.parametrize("tokenizer", ["char", "byte", "word", "bpe:300", "unigram:300"])
def test_kenlm_reads_a_model_of_any_tokenizer(tokenizer: str, rule: str, verse: Path, tmp_path: Path) -> None:
    kenlm = pytest.importorskip("kenlm", reason="the kenlm module is not installed")
    model = satchel.train(
        verse,
        model="ngram",
        tokenizer=tokenizer,
        settings={"data.documents": rule, "model.order": 5},
        out=tmp_path / "run",
        task="lm",
    )
    model.export_arpa(tmp_path / "model.arpa")
    reference = kenlm.Model(str(tmp_path / "model.arpa"))
    for text in ("The cat saw the log.", "dog dog <s> \u00e9", "The\tmat"):
        ours = model.score(text)
        words = [escape(model.tokenizer.spellings[id_]) for id_ in ours.ids if id_ < model.tokenizer.size]
        theirs = reference.full_scores(" ".join(words), bos=True, eos=rule == "line")
        assert [logprob for logprob, _, _ in theirs] == pytest.approx(ours.logprobs / np.log(10), abs=1e-4)
