"""Invalid input: exit code 2, a message that names the problem, nothing on stdout, no files left behind."""

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import ROWS, TEXT, Cli, tree
from tests.conftest import VERSE

HERE = "The cat sat on the mat."

FILES = {
    "empty.txt": "",
    "blank.txt": "\n  \n\n",
    "verse.txt": VERSE * 20,
    "one-line.txt": "one\n",
    "two-lines.txt": "eins\nzwei\n",
    "films.tsv": "label\ttext\n" + "".join(f"{label}\t{text}\n" for label, text in ROWS * 4),
    "one.tsv": "label\ttext\ngood\ta\n",
    "blank.tsv": "label\ttext\ngood\ta\n \tb\n",
    "wide.tsv": "label\ttext\ngood\ta\nbad\tb\tc\n",
    "films.csv": "label,text\ngood\n",
    "empty.tsv": "",
    "header.tsv": "label\ttext\n",
    "void.tsv": "label\ttext\ngood\t\nbad\t\n",
    "other.csv": "body\na\n",
    "lines.csv": 'id,text\n1,"two\nlines"\n',
    "tags.tsv": "text\ttags\na b\tX Y\n",
    "short-tags.tsv": "text\ttags\na dog ran\tD N V\nthe dog\tD\n",
    "one-tag.tsv": "text\ttags\na dog\tX X\n",
    "heads.toml": '[model]\nkind = "transformer"\nheads = 5\n',
    "window.toml": '[model]\nkind = "transformer"\nwindow = 5\n',
}

TRAIN = [
    (["train"], "expected either DATA or --resume"),
    (["train", "verse.txt", "--resume", "lm"], "expected either DATA or --resume"),
    (["train", "--resume", "lm", "--steps", "3"], "--steps cannot be combined with --resume"),
    (["train", "--resume", "lm", "--text-column", "a"], "--text-column cannot be combined with --resume"),
    (["train", "--resume", "lm", "--force"], "--force cannot be combined with --resume"),
    (["train", "--resume", "missing", "--json"], "run not found"),
    (["train", "missing.txt", "--model", "ngram"], "missing.txt: there is no such file"),
    (["train", "empty.txt", "--model", "ngram"], "found no text"),
    (["train", "blank.txt", "--model", "ngram", "--set", "data.documents=line"], "found no text"),
    (["train", "latin.txt", "--model", "ngram"], "latin.txt, line 2: byte 0xe9 at offset 9 is not valid utf-8"),
    (["train", "utf16.txt", "--model", "ngram"], "use --encoding utf-16"),
    (["train", "folder", "--model", "ngram"], "none of them .txt"),
    (["train", "tags.tsv", "--model", "ngram"], "--model=ngram has no output per token"),
    (["train", "verse.txt", "--model", "ngram", "--set", "model.order=0"], "model.order: found 0"),
    (["train", "verse.txt", "--model", "ngram", "--set", "model.order=11"], "model.order: found 11"),
    (["train", "verse.txt", "--model", "ngram", "--set", "model.ordr=3"], "did you mean model.order?"),
    (["train", "verse.txt", "--model", "ngram", "--set", "model.order"], "expected key=value"),
    (["train", "verse.txt", "--model", "transformr"], "--model: found"),
    (["train", "verse.txt", "--model", "ngram", "--tokenizer", "bpe:10"], "above 256"),
    (["train", "verse.txt", "--model", "ngram", "--tokenizer", "letters"], "is neither a kind of tokenizer"),
    (["train", "verse.txt", "--model", "ngram", "--valid", "1.5"], "fraction"),
    (["train", "verse.txt", "--model", "ngram", "--valid", "nowhere.txt"], "nowhere.txt: there is no such file"),
    (["train", "verse.txt", "--model", "ngram", "--encoding", "klingon"], "expected a text encoding"),
    (["train", "verse.txt", "--model", "ngram", "--recipe", "missing.toml"], "missing.toml: cannot be read"),
    (["train", "verse.txt", "--model", "ngram", "-o", "verse.txt/run"], "cannot be written"),
    (["train", "verse.txt", "--model", "ngram", "--forse"], "did you mean --force?"),
    (["train", "verse.txt", "--model", "ngram", "--text", "a"], "did you mean --text-column?"),
    (["train", "@nothing", "--model", "ngram"], "@nothing is not a built-in data set"),
    (["train", "one.tsv", "--model", "ngram"], "found 1 rows with 1 label, expected two or more"),
    (["train", "blank.tsv", "--model", "ngram"], "blank.tsv: 1 row has no label: line 3"),
    (["train", "wide.tsv", "--model", "ngram"], "line 3: found 3 columns, expected 2 (label, text)"),
    (["train", "films.csv", "--model", "ngram"], "line 2: found 1 column, expected 2"),
    (["train", "empty.tsv", "--model", "ngram", "--task", "classify"], "is empty"),
    (["train", "header.tsv", "--model", "ngram", "--task", "classify"], "found 0 rows"),
    (["train", "void.tsv", "--model", "ngram"], "found only empty texts"),
    (["train", "films.tsv", "--label-column", "kind", "--task", "classify"], "has no column kind, only label, text"),
    (["train", "films.tsv", "--task", "rank"], "task: found 'rank', expected lm, tag, classify"),
    (["train", "films.tsv", "--valid", "0.01"], "data.valid=0.01: no row would be held out"),
    (["train", "films.tsv", "--set", "model.background=1"], "model.background: found 1, expected a number less than 1"),
    (["train", "verse.txt", "--set", "model.background=0.1"], "unknown setting model.background"),
    (["train", "films.tsv", "--model", "ngram", "--recipe", "imbd-ngram"], "recipe imbd-ngram not found"),
    (["train", "short-tags.tsv"], "short-tags.tsv, line 3: found 1 tag for 2 words"),
    (["train", "one-tag.tsv"], "found 1 rows with 1 tag, expected two or more"),
    (["train", "one-tag.tsv", "--from", "nowhere"], "nowhere"),
    (["train", "one-tag.tsv", "--device", "abacus"], "--device: found"),
]  # fmt: skip
EVALUATE = [
    (["evaluate", "missing"], "run not found"),
    (["evaluate", "folder"], "is not a run"),
    (["evaluate", "lm", "missing.txt"], "there is no such file"),
    (["evaluate", "lm", "empty.txt"], "found no text"),
    (["evaluate", "lm"], "has no held-out data"),
    (["evaluate", "lm", "verse.txt", "--errors", "wrong.tsv"], "--errors does not apply to the task lm"),
    (["evaluate", "lm", "verse.txt", "--beam", "2"], "--beam does not apply to the task lm"),
    (["evaluate", "lm", "verse.txt", "--by", "length"], "expected distance"),
    (["evaluate", "films", "header.tsv"], "found no rows"),
    (["evaluate", "films", "films.tsv", "--errors", "wrong.xls"], "has the extension '.xls'"),
    (["evaluate", "films", "lines.csv"], "has no column label"),
    (["evaluate", "tagger", "--by", "distance"], "--by distance is not available for the task tag"),
    (["evaluate", "tagger", "short-tags.tsv"], "short-tags.tsv, line 3: found 1 tag for 2 words"),
    (["evaluate", "dates", "--by", "distance"], "expected length or position"),
    (["evaluate", "dates", "--errors", "wrong.tsv"], "--errors does not apply to the task translate"),
    (["evaluate", "dates", "one-line.txt,two-lines.txt"], "has 1 lines, fewer than"),
    (["evaluate", "dates", "films.tsv"], "has no column source or target, only label, text"),
    (["evaluate", "backpack", "--similarity", "nowhere"], "nowhere"),
    (["evaluate", "backpack", "verse.txt", "--similarity", "pairs.tsv"], "cannot be combined with DATA"),
    (["compare", "lm", "--data", "verse.txt"], "two or more"),
    (["compare", "lm", "nowhere", "--data", "verse.txt"], "run not found"),
    (["compare", "lm", "lm", "--data", "nowhere.txt"], "there is no such file"),
    (["compare", "lm", "lm"], "has no held-out data"),
    (["compare", "lm", "lm", "--data", "verse.txt", "-o", "x.pdf"], "use .csv, .md, .tex"),
    (["compare", "films", "lm", "--data", "films.tsv"], "the runs are for different tasks: classify, lm"),
    (["mix", "lm", "lm", "--data", "verse.txt", "-o", "lm"], "already exists"),
    (["mix", "films", "films", "--data", "films.tsv", "-o", "mixed"], "is a classifier, expected a language model"),
]  # fmt: skip
PREDICT = [
    (["score", "lm", ""], "found no text"),
    (["score", "films", "a"], "is a classifier, expected a language model"),
    (["generate", "lm", "--tokens", "0"], "tokens: found 0"),
    (["generate", "lm", "--temperature", "nan"], "temperature"),
    (["generate", "lm", "--top-p", "2"], "top_p: found 2"),
    (["generate", "films", "a"], "is a classifier, expected a language model"),
    (["generate", "tagger", "a"], "is a tagger, expected a language model"),
    (["generate", "dates", "x"], "is a translator, expected a language model"),
    (["classify", "lm", "a"], "is a language model, expected a classifier"),
    (["classify", "tagger", "a"], "is a tagger, expected a classifier"),
    *[([verb, "films", "a", "--jsonl"], "found more than one of TEXT, --input and --jsonl")
      for verb in ("classify", "tag", "translate")],
    *[([verb, "films", "a", "-o", "out.csv"], "-o requires --input") for verb in ("classify", "tag", "translate")],
    (["classify", "films", "--input", "missing.csv", "-o", "out.csv"], "there is no such file"),
    (["classify", "films", "--input", "films.tsv", "-o", "films.tsv"], "is the input file"),
    (["classify", "films", "--input", "films.tsv", "-o", "out.xls"], "has the extension '.xls'"),
    (["classify", "films", "--input", "lines.csv", "-o", "out.tsv"], "write .csv or .jsonl instead"),
    (["classify", "films", "--input", "other.csv", "-o", "out.csv"], "has no column text, only body"),
    (["classify", "films", "--input", "wide.tsv", "-o", "out.csv"], "line 3: found 3 columns"),
    (["translate", "dates", "x", "--best", "5"], "best=5 is larger than beam=4"),
    (["translate", "dates", "x", "--beam", "0"], "beam"),
    (["translate", "dates", "x", "--top-k", "3"], "--top-p have no effect on beam search"),
]  # fmt: skip
INSPECT = [
    (["senses", "backpack"], "expected either WORDS or --all"),
    (["senses", "backpack", "cat", "--all"], "expected either WORDS or --all"),
    (["senses", "backpack", "--all"], "--all prints the whole vocabulary"),
    (["senses", "backpack", "cat", "--sense", "3"], "expected 0 to 2"),
    (["senses", "backpack", "cat", "--sense", "-1"], "the model has 3 senses"),
    (["senses", "backpack", " "], "expected a word"),
    (["senses", "backpack", "x" * 400], "expected at most 32"),
    (["senses", "backpack", "cat", "-o", "x.csv"], "expected .jsonl"),
    (["senses", "lm", "cat"], "has no sense vectors"),
    (["similar", "backpack", ""], "expected a word"),
    (["similar", "lines/transformer", "dog", "--context", HERE], "The cat sat on the mat ."),
    (["similar", "backpack", "cat", "dog", "--context", HERE], "--context compares occurrences of one word"),
    (["similar", "backpack", "cat", "--by", "sense", "--context", HERE], "--context compares occurrences"),
    (["similar", "backpack", "cat", "--layer", "1"], "--layer requires --context"),
    (["similar", "lines/transformer", "cat", "--layer", "3", "--context", HERE], "0 (embedded) to 2 (encoded)"),
    (["similar", "backpack", "cat", "--by", "sound"], "expected sense, embedding"),
    (["similar", "transformer", "cat", "--by", "sense"], "has no sense vectors"),
    (["similar", "lm", "cat"], "has no embeddings"),
    (["similar", "lm", "cat", "--context", HERE], "has no embeddings"),
    (["probe", "lm", "lines/tags.tsv"], "has no embeddings"),
    (["probe", "transformer", "verse.txt"], "is not a table"),
    (["probe", "transformer", "lines/tags.tsv", "--leave-out", "n"], "with 1 tag; expected 2 or more"),
    (["probe", "transformer", "lines/tags.tsv", "--tags-column", "sense"], "has no column sense"),
    (["probe", "transformer", "nowhere.tsv"], "nowhere.tsv"),
]  # fmt: skip
LOOK = [
    (["look", "attic", "lm", TEXT], "expected attention, surprise"),
    (["look", "attention", "transformer", TEXT, "--layer", "9"], "expected layers 0 to 1"),
    (["look", "attention", "transformer", TEXT, "--head", "1"], "give the layer too"),
    (["look", "attention", "transformer", TEXT, "--form", "pie"], "expected matrix, lines, grid"),
    (["look", "attention", "transformer", TEXT, "--target", "mat"], "target"),
    (["look", "attention", "transformer", TEXT, "--leyer", "1"], "did you mean --layer?"),
    (["look", "attention", "transformer", TEXT, "--which", "x"], "--which x: unknown value"),
    (["look", "attention", "transformer", TEXT, "--which", "cross"], "this model has no cross-attention"),
    (["look", "attention", "transformer", TEXT, "-o", "map.bmp"], "unsupported file extension '.bmp'"),
    (["look", "attention", "transformer", TEXT, "-o", "map.svg", "--width", "wide"], "wide"),
    (["look", "attention", "transformer", TEXT, "-o", "map.svg", "--theme", "pink"], "pink"),
    (["look", "attention", "lm", TEXT], "has no self-attention"),
    (["look", "surprise", "transformer", TEXT, "--versus", "mat"], "its options are --target, --source, --start"),
    (["look", "senses", "backpack", TEXT, "--target", "cat"], "No such option: --target"),
    (["look", "training", "transformer", TEXT], "unexpected extra argument"),
    (["look", "training", "lm"], "is not trained in steps"),
    (["look", "order", "transformer", TEXT], "no n-gram model"),
    (["look", "patterns", "transformer", TEXT, "--pattern", "stripes"], "stripes"),
    (["look", "patterns", "transformer", TEXT, "--data", "verse.txt"], "exclude each other"),
    (["look", "patterns", "transformer", "--data", "blank.txt"], "found no text"),
    (["look", "attribution", "transformer", TEXT, "--instead", "zeros"], "expected mean, words"),
    (["look", "attribution", "transformer", TEXT, "--method", "exact"], "expected occlusion, gradient, integrated"),
    (["look", "attribution", "tagger", "a cat", "--target", "cat"], "the index of a word"),
    (["look", "embeddings", "lm"], "has no embeddings"),
    (["look", "lens", "backpack", TEXT], "contributions"),
    (["look", "contributions", "transformer", TEXT], "has no sense vectors"),
    (["look", "contributions", "backpack", "the", "--versus", "dog"], "without a target"),
    (["look", "contributions", "backpack", "the", "--data", "x.txt"], "exclude each other"),
    (["look", "contributions", "backpack", "the", "-o", "x.bmp"], "expected .svg"),
    (["look", "contributions", "polarity", "the", "--target", "mixed"], "unknown label mixed"),
    (["look", "contributions", "dates", "x"], "use `satchel look alignment`"),
    (["look", "contributions", "tagger", "x"], "has no sense vectors"),
    (["look", "alignment", "dates", "5/3/21", "--layer", "7"], "layer 7 does not exist; expected layers 0 to 0"),
]  # fmt: skip
OTHERS = [
    (["trian", "verse.txt"], "Did you mean 'train'"),
    (["tokenize", "folder"], "is not a run"),
    (["tokenize", "verse.txt"], "is not JSON"),
    (["export", "lm", "--to", "pdf", "-o", "x"], "--to pdf: unknown value"),
    (["export", "films", "--to", "arpa", "-o", "x.arpa"], "is a classifier, expected a language model"),
    (["import", "verse.txt", "-o", "x"], "expected an ARPA language model"),
    (["data", "missing.txt"], "there is no such file"),
    (["data", "a.txt,b.txt"], "there is no such file"),
    (["data", "wide.tsv"], "wide.tsv, line 3: found 3 columns, expected 2 (label, text)"),
    (["info", "missing.toml"], "cannot be read"),
    (["info", "heads.toml"], "expected heads to divide width (5 does not divide 128)"),
    (["info", "window.toml"], "is not a setting of model.kind=transformer, only of window"),
    (["info", "--tensors"], "--tensors needs a run"),
    (["info", "heads.toml", "--tensors"], "is not a run"),
    (["info", "gpt3-huge"], "preset gpt3-huge not found"),
    (["report", "lm", "-o", "page.txt"], "expected .html"),
]


@pytest.fixture(scope="module")
def workspace(
    tmp_path_factory: pytest.TempPathFactory,
    runs: dict[str, Path],
    line_runs: Path,
    backpack: Path,
    backpack_classifier: Path,
    tagger: Path,
    translator: Path,
) -> Path:
    """A folder with invalid files and a run of every kind."""
    from satchel.cli.main import run

    folder = tmp_path_factory.mktemp("workspace")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    (folder / "latin.txt").write_bytes(b"good\ncaf?\xe9\n")
    (folder / "utf16.txt").write_text("hello", encoding="utf-16")
    (folder / "folder").mkdir()
    for data, target in (("verse.txt", "lm"), ("films.tsv", "films")):
        arguments = ["--model", "ngram", "--tokenizer", "char", "-o", str(folder / target)]
        assert run(["train", str(folder / data), *arguments]) == 0
    copies = {"lines": line_runs, "backpack": backpack, "polarity": backpack_classifier, "tagger": tagger}
    for name, path in {**copies, "dates": translator, "transformer": runs["transformer"]}.items():
        shutil.copytree(path, folder / name)
    return folder


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [*TRAIN, *EVALUATE, *PREDICT, *INSPECT, *LOOK, *OTHERS],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_invalid_input_is_reported_in_one_message_and_writes_nothing(
    arguments: list[str], expected: str, cli: Cli, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace)
    before = tree(workspace)
    code, printed, messages = cli(*arguments)
    assert (code, printed) == (2, ""), messages
    assert "satchel: " in messages
    assert expected in messages
    assert "Traceback" not in messages
    assert tree(workspace) == before
