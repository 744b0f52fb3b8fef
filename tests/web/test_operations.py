"""Operations of the JSON API: their replies equal the output of the commands and programs that they state."""

import base64
import contextlib
import io
import json
import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from satchel.cli.main import run as run_command
from satchel.text.display import finite
from tests.web.client import Server

Body = dict[str, Any]
TEXT = "The cat sat on the mat."
# (operation, request, command)
CASES: list[tuple[str, Body, str]] = [
    ("next", {"run": "ngram", "text": TEXT, "top": 3}, f"next --top 3 runs/ngram '{TEXT}'"),
    ("next", {"run": "transformer", "text": TEXT}, f"next runs/transformer '{TEXT}'"),
    ("next", {"run": "lstm", "text": "-x"}, "next -- runs/lstm -x"),
    ("score", {"run": "ngram", "text": TEXT}, f"score runs/ngram '{TEXT}'"),
    ("score", {"run": "gated", "text": TEXT, "top": 2}, f"score --top 2 runs/gated '{TEXT}'"),
    ("score", {"run": "translator", "text": "a b", "target": "b a"}, "score --target 'b a' runs/translator 'a b'"),
    ("classify", {"run": "films", "text": "a joy"}, "classify runs/films 'a joy'"),
    ("classify", {"run": "polysemy", "text": "a joy"}, "classify runs/polysemy 'a joy'"),
    ("tag", {"run": "tagger", "text": "abab"}, "tag runs/tagger abab"),
    ("translate", {"run": "translator", "text": "a b"}, "translate runs/translator 'a b'"),
    (
        "translate", {"run": "translator", "text": "a b", "beam": 2, "best": 2, "length_penalty": 0.5},
        "translate --beam 2 --best 2 --length-penalty 0.5 runs/translator 'a b'",
    ),
    (
        "translate", {"run": "translator", "text": "a b", "sample": True, "temperature": 0.5, "seed": 3},
        "translate --sample --temperature 0.5 --seed 3 runs/translator 'a b'",
    ),
    ("tokenize", {"run": "transformer", "text": TEXT}, f"tokenize runs/transformer '{TEXT}'"),
    ("attention", {"run": "transformer", "text": TEXT}, f"look attention runs/transformer '{TEXT}'"),
    (
        "attention", {"run": "transformer", "text": TEXT, "layer": 1, "head": 0, "versus": "The dog", "length": 4},
        f"look attention --layer 1 --head 0 --versus 'The dog' --length 4 runs/transformer '{TEXT}'",
    ),
    (
        "attention", {"run": "backpack", "text": TEXT, "which": "senses", "mean": True},
        f"look attention --which senses --mean runs/backpack '{TEXT}'",
    ),
    (
        "attention", {"run": "translator", "text": "a b", "target": "b a", "which": "cross"},
        "look attention --target 'b a' --which cross runs/translator 'a b'",
    ),
    (
        "patterns", {"run": "transformer", "text": TEXT, "layer": 0, "pattern": ["previous"]},
        f"look patterns --layer 0 --pattern previous runs/transformer '{TEXT}'",
    ),
    ("lens", {"run": "transformer", "text": TEXT, "start": 1}, f"look lens --start 1 runs/transformer '{TEXT}'"),
    (
        "attribution", {"run": "transformer", "text": TEXT, "method": "gradient"},
        f"look attribution --method gradient runs/transformer '{TEXT}'",
    ),
    ("attribution", {"run": "polysemy", "text": "a joy"}, "look attribution runs/polysemy 'a joy'"),
    ("contributions", {"run": "backpack", "text": TEXT}, f"look contributions runs/backpack '{TEXT}'"),
    ("alignment", {"run": "translator", "text": "a b"}, "look alignment runs/translator 'a b'"),
    (
        "senses", {"run": "backpack", "words": ["cat", "dog"], "sense": 1, "top": 3},
        "senses --sense 1 --top 3 runs/backpack cat dog",
    ),
    ("similar", {"run": "backpack", "word": "cat", "top": 3}, "similar --top 3 runs/backpack cat"),
    ("similar", {"run": "backpack", "word": "cat", "other": "dog"}, "similar runs/backpack cat dog"),
    (
        "similar", {"run": "transformer", "word": "cat", "context": ["the cat", "a cat sat"], "layer": 1},
        "similar --context 'the cat' --context 'a cat sat' --layer 1 runs/transformer cat",
    ),
    ("embeddings", {"run": "transformer", "top": 20}, "look embeddings --top 20 runs/transformer"),
    ("embeddings", {"run": "backpack", "words": ["cat", "dog"], "sense": 1},
     "look embeddings --sense 1 runs/backpack 'cat dog'"),
    ("compare", {"runs": ["ngram", "gated"]}, "compare runs/ngram runs/gated"),
    (
        "compare", {"runs": ["ngram", "gated"], "data": "data/verse.txt"},
        "compare --data data/verse.txt runs/ngram runs/gated",
    ),
    ("evaluate", {"run": "ngram"}, "evaluate runs/ngram"),
    ("evaluate", {"run": "lstm", "data": "data/verse.txt"}, "evaluate runs/lstm data/verse.txt"),
    (
        "evaluate", {"run": "films", "data": "data/films.tsv", "text_column": "text"},
        "evaluate --text-column text runs/films data/films.tsv",
    ),
    ("evaluate", {"run": "tagger"}, "evaluate runs/tagger"),
    ("evaluate", {"run": "translator", "by": "length", "beam": 1}, "evaluate --by length --beam 1 runs/translator"),
    (
        "evaluate", {"run": "backpack", "similarity": "data/ratings.tsv"},
        "evaluate --similarity data/ratings.tsv runs/backpack",
    ),
    ("info", {"run": "ngram"}, "info runs/ngram"),
    ("info", {"run": "transformer", "tensors": True}, "info --tensors runs/transformer"),
    (
        "lesson", {"name": "attention", "settings": {"sequence": "ABA", "base": 4}, "step": 2},
        "lesson attention --set sequence=ABA --set q=0,1 --set base=4 --set sharp=10 --step 2",
    ),
    (
        "generate", {"run": "gated", "prompt": TEXT, "tokens": 5, "greedy": True, "logprobs": 2},
        f"generate --tokens 5 --greedy --logprobs 2 runs/gated '{TEXT}'",
    ),
    (
        "generate",
        {"run": "ngram", "tokens": 5, "samples": 2, "stop": ["cat", "dog"], "logit_bias": {"id:3": -2.0}},
        "generate --tokens 5 --samples 2 --logit-bias id:3=-2.0 --stop cat --stop dog runs/ngram ''",
    ),
]  # fmt: skip
STATED = {"terminal", "python"}
MEASURED = {"tokens_per_second"}


@pytest.fixture
def folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the server runs, as the current one."""
    monkeypatch.chdir(root)
    return root


def _post(server: Server, operation: str, body: Body) -> dict[str, Any]:
    reply = server.post(f"/api/{operation}", body)
    assert reply.status == 200, reply.content
    document: dict[str, Any] = json.loads(reply.content, parse_constant=pytest.fail)
    return document


def _check_equal(found: Any, expected: Any, path: str = "") -> None:
    """Check that two documents are equal up to rounding."""
    if isinstance(expected, dict):
        assert isinstance(found, dict), path
        assert set(found) == set(expected), path
        for key, value in expected.items():
            _check_equal(found[key], value, f"{path}.{key}")
    elif isinstance(expected, list | tuple):
        assert isinstance(found, list), path
        assert len(found) == len(expected), path
        for index, (one, other) in enumerate(zip(found, expected, strict=True)):
            _check_equal(one, other, f"{path}[{index}]")
    elif isinstance(expected, float) and isinstance(found, float | int):
        assert math.isclose(found, expected, rel_tol=1e-4, abs_tol=1e-5), path
    else:
        assert found == expected, path


def _result_of(program: str) -> dict[str, Any]:
    """Return what a program prints, as JSON."""
    values: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(program, values)
    text = json.dumps(finite(values["result"]), default=lambda value: value.tolist())
    document: dict[str, Any] = json.loads(text.replace('"runs/', '"'))
    return document


def _without(document: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


@pytest.mark.parametrize(("operation", "body", "command"), CASES)
def test_a_reply_equals_the_output_of_its_command_and_of_its_program(
    server: Server, folder: Path, capsys: pytest.CaptureFixture[str], operation: str, body: Body, command: str
) -> None:
    reply = _post(server, operation, body)
    found = _without(reply, STATED | MEASURED)
    stated = shlex.split(reply["terminal"])
    assert stated[0] == "satchel"
    assert [word for word in stated[1:] if word != "--json"] == shlex.split(command)
    code = run_command(stated[1:])
    printed, messages = capsys.readouterr()
    assert code == 0, messages
    # A request names runs by their ids, and a command by their paths.
    expected = json.loads(printed.replace('"runs/', '"'))
    _check_equal(found, _without(expected, MEASURED | {"schema_version"}))
    _check_equal(found, _without(_result_of(reply["python"]), MEASURED))


BATCHES = [
    ("next", "ngram", ["The", "cat sat"]),
    ("score", "gated", ["The cat", "The dog sat"]),
    ("tokenize", "ngram", ["The cat", ""]),
    ("classify", "films", ["a joy", "a waste"]),
    ("tag", "tagger", ["ab", "aab"]),
    ("translate", "translator", ["a b", "b"]),
]


@pytest.mark.parametrize(("operation", "run", "texts"), BATCHES)
def test_several_texts_have_the_results_of_single_ones(
    server: Server, folder: Path, capsys: pytest.CaptureFixture[str], operation: str, run: str, texts: list[str]
) -> None:
    reply = _post(server, operation, {"run": run, "texts": texts})
    (key,) = set(reply) - STATED
    singles = [_without(_post(server, operation, {"run": run, "text": text}), STATED) for text in texts]
    expected = singles if key == "results" else [single[key][0] for single in singles]
    shared = {name for each in reply[key] for name in each}  # the alignment of one translation only
    _check_equal(reply[key], [{name: each[name] for name in shared} for each in expected])
    _check_equal(reply[key], _result_of(reply["python"])[key])
    lines = reply["terminal"].splitlines()
    assert [shlex.split(line)[-1] for line in lines] == texts


def test_generation_reads_the_last_tokens_and_states_them(server: Server) -> None:
    body = {"run": "transformer", "prompt": "The cat sat. " * 40, "tokens": 3, "greedy": True, "logprobs": 2}
    reply = _post(server, "generate", body)
    window = reply["window"]
    assert window["tokens"] == 64
    assert window["start"] + 64 == window["total"]
    *events, last = server.stream("/api/generate", {**body, "stream": True})
    assert events[0]["window"] == window
    tokens = [event["token"] for event in events[1:]]
    assert [token["logprob"] for token in tokens] == last["samples"][0]["logprobs"]
    for token in tokens:
        assert {"text", "id", "logprob"} == set(token["top"][0])
    assert "".join(event["text"] for event in events[1:]) == last["samples"][0]["text"]
    _check_equal(_without(last, MEASURED), _without(reply, MEASURED))


def test_weights_and_thumbnails_can_be_arrays(server: Server) -> None:
    body = {"run": "transformer", "text": TEXT}
    document = _post(server, "attention", {**body, "layer": 1, "head": 1})
    reply = server.post("/api/attention", {**body, "layer": 1, "head": 1, "format": "float16"})
    shape = [int(size) for size in reply.headers["x-shape"].split(",")]
    values = np.frombuffer(reply.content, reply.headers["x-dtype"]).reshape(shape)
    np.testing.assert_allclose(values, document["maps"][0]["weights"], atol=1e-3)
    overview = _post(server, "attention", {**body, "thumbnails": True, "size": 4})
    thumbnails = overview["thumbnails"]
    assert thumbnails["shape"] == [2, 2, 4, 4]
    assert len(base64.b64decode(thumbnails["data"])) == 64
    assert {"layer", "head", "pattern"} <= set(overview["chosen"])
    reply = server.post("/api/attention", {**body, "thumbnails": True, "size": 4, "format": "uint8"})
    assert reply.content == base64.b64decode(thumbnails["data"])


def test_a_word_that_occurs_twice_has_contributions_by_position(server: Server) -> None:
    reply = _post(server, "classify", {"run": "polysemy", "text": "The drink was so so cold"})
    entries = reply["predictions"][0]["contributions"]
    assert {"word", "sense", "label", "value", "centred", "position", "role"} <= set(entries[0])
    assert len({entry["position"] for entry in entries if entry["word"].strip() == "so"}) == 2
    document = _post(server, "contributions", {"run": "backpack", "text": "The cat saw The cat"})
    assert len(document["positions"]) == len(document["words"]) == len(set(document["positions"]))
    assert document["word_roles"][0] == "start"


def test_the_documents_that_differ_most_have_their_text_and_values(server: Server) -> None:
    documents = _post(server, "compare", {"runs": ["ngram", "gated"], "data": "data/verse.txt"})["documents"]
    assert {"index", "bytes", "text", "values"} <= set(documents[0])
    assert len(documents[0]["values"]) == 2
    assert len(documents[0]["text"]) <= 500


# (operation, request, field named in the error)
INVALID: list[tuple[str, Body, str | None]] = [
    ("next", {"run": "ngram"}, None),
    ("next", {"text": "a"}, "run"),
    ("next", {"run": "ngram", "text": "a", "top": 0}, "top"),
    ("next", {"run": "ngram", "text": 3}, "text"),
    ("next", {"run": "ngram", "text": "a", "tops": 3}, "tops"),
    ("next", {"run": "films", "text": "a"}, None),
    ("score", {"run": "translator", "text": "a"}, "target"),
    ("score", {"run": "ngram", "texts": ["a"], "targets": ["a", "b"]}, None),
    ("classify", {"run": "films", "texts": []}, "texts"),
    ("translate", {"run": "translator", "text": "a", "beam": 1, "best": 2}, None),
    ("attention", {"run": "ngram", "text": "a"}, None),
    ("attention", {"run": "transformer", "text": "a", "layer": 7}, None),
    ("attention", {"run": "transformer", "text": "The cat. " * 50_000}, "text"),
    ("embeddings", {"run": "transformer", "words": ["a b"]}, "words"),
    ("evaluate", {"run": "ngram", "beam": 2}, "beam"),
    ("compare", {"runs": ["ngram"]}, "runs"),
    ("lesson", {"name": "atention"}, "name"),
    ("lesson", {"name": "positions", "settings": {"train": True}}, "settings"),
    ("generate", {"run": "ngram", "temperature": -1}, "temperature"),
    ("generate", {"run": "ngram", "tokens": 1.5}, "tokens"),
    ("runs/start", {"run": "../x", "data": "data/verse.txt"}, "run"),
    ("runs/start", {"run": "x", "data": "data/verse.txt", "settings": {"model.name": "m:f"}}, "settings"),
    ("runs/delete", {"run": "ngram", "confirm": "other"}, "confirm"),
    ("plan", {"data": "data/verse.txt", "settings": {"training.steps": "many"}}, "settings"),
]


@pytest.mark.parametrize(("operation", "body", "field"), INVALID)
def test_invalid_requests_are_refused_and_name_the_field(
    server: Server, operation: str, body: Body, field: str | None
) -> None:
    reply = server.post(f"/api/{operation}", body)
    assert reply.status == 422, reply.content
    assert reply.error["param"] == field
    assert reply.error["message"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"run": "\xff"}', b"null", b"[" * 100_000])
def test_bodies_that_are_no_objects_are_refused(server: Server, content: bytes) -> None:
    assert server.post("/api/next", content).status in (400, 422)
    assert server.post("/api/next", {"run": "ngram", "text": "a"}).status == 200


def test_unknown_runs_and_data_are_not_found(server: Server) -> None:
    for body in ({"run": "absent"}, {"run": "ngram", "data": "absent.txt"}, {"run": "ngram", "data": "data/../data"}):
        reply = server.post("/api/evaluate", body)
        assert reply.status == 404
        assert "lists" in reply.error["remedy"]
    assert server.post("/api/data", {"valid": "absent.txt"}).status == 404
