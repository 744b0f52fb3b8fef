"""/v1 in the form of OpenAI's API."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import satchel
from tests.web.client import Server

KINDS = ("ngram", "transformer", "gated", "lstm", "backpack")
PROMPT = "The cat sat"


@pytest.fixture(scope="module")
def models(root: Path) -> dict[str, satchel.LanguageModel]:
    """The served models, loaded in this process."""
    return {kind: satchel.load(root / "runs" / kind, task="lm") for kind in KINDS}


def test_models_are_listed_and_retrieved(server: Server) -> None:
    listing = server.get("/v1/models").json
    names = {entry["id"] for entry in listing["data"]}
    assert listing["object"] == "list"
    assert names == set(KINDS)  # neither the classifier nor the tagger
    assert server.get("/v1/models/lstm").json["id"] == "lstm"
    assert server.get("/v1/models/absent").error["type"] == "not_found_error"


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_text_and_log_probabilities_equal_those_of_generate(
    server: Server, models: dict[str, satchel.LanguageModel], kind: str
) -> None:
    expected = models[kind].generate(PROMPT, tokens=12, greedy=True, logprobs=3).samples[0]
    answer = server.complete(model=kind, prompt=PROMPT, max_tokens=12, temperature=0, logprobs=3)
    (choice,) = answer["choices"]
    assert choice["text"] == expected.text
    logprobs = choice["logprobs"]
    np.testing.assert_allclose(logprobs["token_logprobs"], expected.logprobs, atol=1e-4)
    for top, alternatives in zip(logprobs["top_logprobs"], expected.alternatives, strict=True):
        np.testing.assert_allclose(list(top.values()), [value for _, value in alternatives], atol=1e-4)
    for token, offset in zip(logprobs["tokens"], logprobs["text_offset"], strict=True):
        assert choice["text"][offset : offset + len(token)] == token or token.startswith("bytes:")
    assert answer["usage"] == {
        "prompt_tokens": len(models[kind].tokenizer.encode(PROMPT).ids),
        "completion_tokens": 12,
        "total_tokens": len(models[kind].tokenizer.encode(PROMPT).ids) + 12,
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_tokens", [0, 1])
def test_an_echoed_prompt_has_the_log_probabilities_of_score(
    server: Server, models: dict[str, satchel.LanguageModel], kind: str, max_tokens: int
) -> None:
    text = "The dog saw the cat.\nThe mat"
    answer = server.complete(model=kind, prompt=text, max_tokens=max_tokens, logprobs=1, echo=True, temperature=0)
    (choice,) = answer["choices"]
    logprobs = choice["logprobs"]
    scored = models[kind].score(text)
    count = len(scored.tokens)
    assert logprobs["tokens"][:count] == [str(token) for token in scored.tokens]
    assert len(logprobs["tokens"]) == count + max_tokens
    assert logprobs["token_logprobs"][0] is None
    assert logprobs["top_logprobs"][0] is None
    np.testing.assert_allclose(logprobs["token_logprobs"][1:count], scored.logprobs[1:], atol=1e-4)
    assert choice["text"].startswith(text)
    offsets = logprobs["text_offset"][:count]
    assert [choice["text"][offset] for offset in offsets] == [token[0] for token in logprobs["tokens"][:count]]


def test_a_prompt_that_starts_with_the_boundary_has_all_log_probabilities(
    server: Server, models: dict[str, satchel.LanguageModel]
) -> None:
    model = models["gated"]
    ids = [model.tokenizer.boundary, *map(int, model.tokenizer.encode(PROMPT).ids)]
    answer = server.complete(model="gated", prompt=ids, max_tokens=0, logprobs=0, echo=True)
    values = answer["choices"][0]["logprobs"]["token_logprobs"]
    assert values[0] is None
    np.testing.assert_allclose(values[1:], model.score(PROMPT).logprobs, atol=1e-4)


def test_texts_lists_and_ids_are_equal_prompts(server: Server, models: dict[str, satchel.LanguageModel]) -> None:
    ids = [[int(id_) for id_ in models["gated"].tokenizer.encode(text).ids] for text in (PROMPT, "The log")]
    fields = {"model": "gated", "max_tokens": 6, "temperature": 0}
    single = [server.complete(prompt=text, **fields)["choices"][0]["text"] for text in (PROMPT, "The log")]
    for prompt in ([PROMPT, "The log"], ids):
        choices = server.complete(prompt=prompt, **fields)["choices"]
        assert [choice["text"] for choice in choices] == single
        assert [choice["index"] for choice in choices] == [0, 1]
    assert server.complete(prompt=ids[0], **fields)["choices"][0]["text"] == single[0]


def test_several_choices_are_numbered_by_prompt_and_repeatable(server: Server) -> None:
    fields = {"model": "transformer", "prompt": [PROMPT, "A"], "n": 3, "max_tokens": 8, "seed": 5}
    first, second = server.complete(**fields), server.complete(**fields)
    assert [choice["index"] for choice in first["choices"]] == list(range(6))
    assert first["choices"] == second["choices"]
    assert len({choice["text"] for choice in first["choices"][:3]}) > 1
    without_seed = [server.complete(model="transformer", prompt=PROMPT, max_tokens=8)["choices"] for _ in range(4)]
    assert len({choices[0]["text"] for choices in without_seed}) > 1


def test_best_of_returns_the_most_probable_continuations(server: Server) -> None:
    fields = {"model": "transformer", "prompt": PROMPT, "max_tokens": 6, "seed": 5, "logprobs": 0}
    every = server.complete(**fields, n=6)["choices"]
    best = server.complete(**fields, n=2, best_of=6)
    means = sorted((-np.mean(choice["logprobs"]["token_logprobs"]), choice["text"]) for choice in every)
    assert [choice["text"] for choice in best["choices"]] == [text for _, text in means[:2]]
    assert best["usage"]["completion_tokens"] == 36


def test_generation_stops_at_stop_strings_and_states_the_reason(server: Server) -> None:
    fields = {"model": "ngram", "prompt": "The", "temperature": 0, "max_tokens": 40}
    text = server.complete(**fields)["choices"][0]["text"]
    stop = text[9:12]
    for value in (stop, [stop, "absent"]):
        (choice,) = server.complete(**fields, stop=value)["choices"]
        assert choice["text"] == text[: text.index(stop)]
        assert choice["finish_reason"] == "stop"
    assert server.complete(**{**fields, "max_tokens": 3})["choices"][0]["finish_reason"] == "length"


def test_biases_and_penalties_change_the_choice(server: Server, models: dict[str, satchel.LanguageModel]) -> None:
    fields = {"model": "transformer", "prompt": PROMPT, "max_tokens": 5, "temperature": 0, "logprobs": 0}
    token = int(models["transformer"].tokenizer.encode("z").ids[-1])
    biased = server.complete(**fields, logit_bias={str(token): 100})["choices"][0]
    assert biased["text"] == "zzzzz"
    penalised = server.complete(**fields, logit_bias={str(token): 20}, frequency_penalty=30)["choices"][0]
    assert penalised["text"].count("z") == 1


STREAMS: list[dict[str, Any]] = [
    {"prompt": PROMPT, "max_tokens": 10, "temperature": 0, "logprobs": 2},
    {"prompt": [PROMPT, "The"], "max_tokens": 5, "n": 2, "seed": 3, "echo": True, "logprobs": 1},
    {"prompt": PROMPT, "max_tokens": 0, "echo": True, "logprobs": 0},
    {"prompt": "The", "max_tokens": 30, "temperature": 0, "stop": ["the", "mat"]},
]


@pytest.mark.parametrize("fields", STREAMS)
@pytest.mark.parametrize("kind", ["gated", "ngram"])
def test_a_stream_has_the_parts_of_the_whole_answer(server: Server, kind: str, fields: dict[str, Any]) -> None:
    whole = server.complete(model=kind, **fields)
    body = {"model": kind, **fields, "stream": True, "stream_options": {"include_usage": True}}
    *chunks, last, end = server.stream("/v1/completions", body)
    assert end == "[DONE]"
    assert (last["choices"], last["usage"]) == ([], whole["usage"])
    for choice in whole["choices"]:
        parts = [part for chunk in chunks for part in chunk["choices"] if part["index"] == choice["index"]]
        assert "".join(part["text"] for part in parts) == choice["text"]
        assert [part["finish_reason"] for part in parts if part["finish_reason"]] == [choice["finish_reason"]]
        if "logprobs" in fields:
            for key, values in choice["logprobs"].items():
                assert [value for part in parts for value in part["logprobs"][key]] == values


INVALID: list[tuple[str, dict[str, Any]]] = [
    ("suffix", {"suffix": "end"}),
    ("n", {"n": 0}),
    ("n", {"n": 10**6}),
    ("n", {"n": True}),
    ("n", {"prompt": ["a"] * 100, "n": 2}),
    ("best_of", {"n": 3, "best_of": 2}),
    ("best_of", {"n": 1, "best_of": 2, "stream": True}),
    ("max_tokens", {"max_tokens": 10**9}),
    ("max_tokens", {"max_tokens": -1}),
    ("max_tokens", {"max_tokens": 1.5}),
    ("temperature", {"temperature": -1}),
    ("temperature", {"temperature": "hot"}),
    ("top_p", {"top_p": 0}),
    ("logprobs", {"logprobs": 10**4}),
    ("stop", {"stop": ["a", "b", "c", "d", "e"]}),
    ("stop", {"stop": ""}),
    ("seed", {"seed": 2**80}),
    ("logit_bias", {"logit_bias": {"the": 1}}),
    ("logit_bias", {"logit_bias": {"99999": 1}}),
    ("logit_bias", {"logit_bias": {"1": 1e6}}),
    ("prompt", {"prompt": []}),
    ("prompt", {"prompt": 5}),
    ("prompt", {"prompt": [[]]}),
    ("prompt", {"prompt": ["a"] * 1000}),
    ("prompt", {"prompt": [99999]}),
    ("prompt", {"prompt": [-1]}),
    ("prompt", {"prompt": "the " * 100}),
    ("stream_options", {"stream_options": {"include_usage": True}}),
    ("temprature", {"temprature": 1}),
]


@pytest.mark.parametrize(
    ("field", "changes"), INVALID, ids=[f"{field}-{number}" for number, (field, _) in enumerate(INVALID)]
)
def test_invalid_fields_are_answered_with_400_and_their_name(
    server: Server, field: str, changes: dict[str, Any]
) -> None:
    reply = server.post("/v1/completions", {"model": "transformer", "prompt": "a", **changes})
    assert reply.status == 400, reply.content
    assert (reply.error["param"], reply.error["type"]) == (field, "invalid_request_error")


@pytest.mark.parametrize("constant", [b"NaN", b"Infinity", b"1e309"])
def test_numbers_that_are_not_finite_are_refused(server: Server, constant: bytes) -> None:
    body = b'{"model": "transformer", "prompt": "a", "temperature": ' + constant + b"}"
    reply = server.post("/v1/completions", body, headers={"Content-Type": "application/json"})
    assert (reply.status, reply.error["param"]) == (400, "temperature")


def test_a_prompt_longer_than_the_context_is_refused_with_the_context_length(server: Server) -> None:
    error = server.post("/v1/completions", {"model": "transformer", "prompt": "the cat " * 60}).error
    assert error["code"] == "context_length_exceeded"
    assert "64 tokens" in error["message"]


def test_generation_slides_beyond_the_context(server: Server, models: dict[str, satchel.LanguageModel]) -> None:
    end = str(models["transformer"].tokenizer.boundary)
    answer = server.complete(model="transformer", prompt=PROMPT, max_tokens=100, seed=1, logit_bias={end: -100})
    assert answer["usage"]["completion_tokens"] == 100


def test_an_unknown_model_is_answered_with_404(server: Server) -> None:
    for model in ("absent", "../runs/lstm", "/etc/passwd", "lstm/../lstm"):
        reply = server.post("/v1/completions", {"model": model, "prompt": "a"})
        assert (reply.status, reply.error["type"]) == (404, "not_found_error")
    assert "films" in server.post("/v1/completions", {"model": "films", "prompt": "a"}).error["message"]


def test_chat_completions_explain_what_to_use(server: Server) -> None:
    reply = server.post("/v1/chat/completions", {"model": "lstm", "messages": []})
    assert reply.status == 404
    assert "/v1/completions" in reply.error["message"]


# --- tokenizer routes -----------------------------------------------------------------------------------


def test_tokenizer_routes_return_ids_and_texts(server: Server, models: dict[str, satchel.LanguageModel]) -> None:
    tokenizer = models["gated"].tokenizer
    info = server.get("/tokenizer_info?model=gated").json
    assert info["eos_token_id"] == tokenizer.boundary
    for text in (PROMPT, "", "naïve 🙂", f"{info['eos_token']} "):
        ids = server.post("/tokenize", {"model": "gated", "prompt": text, "add_special_tokens": False}).json["tokens"]
        assert ids == [int(id_) for id_ in tokenizer.encode(text).ids]
        assert server.post("/detokenize", {"model": "gated", "tokens": ids}).json["prompt"] == text
    started = server.post("/tokenize", {"model": "gated", "prompt": PROMPT, "add_special_tokens": True}).json["tokens"]
    assert started[0] == tokenizer.boundary


def test_only_the_whole_end_token_is_the_boundary(server: Server, models: dict[str, satchel.LanguageModel]) -> None:
    boundary = models["gated"].tokenizer.boundary
    end = server.get("/tokenizer_info?model=gated").json["eos_token"]
    assert server.post("/tokenize", {"model": "gated", "prompt": end}).json["tokens"] == [boundary]
    assert boundary not in server.post("/tokenize", {"model": "gated", "prompt": f"a {end}"}).json["tokens"]
    answer = server.complete(model="gated", prompt=end, echo=True, max_tokens=0, logprobs=0)
    assert len(answer["choices"][0]["logprobs"]["tokens"]) > 1


def test_a_server_of_several_models_asks_for_the_name(server: Server) -> None:
    reply = server.get("/tokenizer_info")
    assert (reply.status, reply.error["param"]) == (400, "model")


def test_texts_of_tokens_are_unique(server: Server, models: dict[str, satchel.LanguageModel]) -> None:
    size = models["gated"].tokenizer.size
    answer = server.complete(model="gated", prompt=PROMPT, max_tokens=1, logprobs=100, temperature=0)
    (top,) = answer["choices"][0]["logprobs"]["top_logprobs"]
    assert len(top) == min(100, size + 1)
    assert math.isclose(max(top.values()), answer["choices"][0]["logprobs"]["token_logprobs"][0])


# --- /api/generate --------------------------------------------------------------------------------------


def _without_rate(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != "tokens_per_second"}


def test_generate_streams_tokens_and_the_whole_reply(server: Server) -> None:
    fields = {"run": "gated", "prompt": PROMPT, "tokens": 8, "samples": 2, "seed": 4, "logprobs": 2}
    whole = server.post("/api/generate", fields).json
    first, *tokens, last = server.stream("/api/generate", {**fields, "stream": True})
    assert first["window"] == whole["window"]
    assert _without_rate(last) == _without_rate(whole)
    for number, sample in enumerate(whole["samples"]):
        assert "".join(event["text"] for event in tokens if event["sample"] == number) == sample["text"]


def test_generate_reads_the_last_tokens_of_a_long_prompt(server: Server) -> None:
    reply = server.post("/api/generate", {"run": "transformer", "prompt": "the cat " * 60, "tokens": 2})
    window = reply.json["window"]
    assert (window["tokens"], window["start"]) == (64, window["total"] - 64)


def test_generate_names_invalid_fields(server: Server) -> None:
    for field, value in (("tokens", 0), ("samples", 1000), ("logit_bias", {"a": 1e9}), ("speculative", "maybe")):
        reply = server.post("/api/generate", {"run": "gated", field: value})
        assert (reply.status, reply.error["param"]) == (422, field)
    assert "no n-gram" in server.post("/api/generate", {"run": "lstm", "speculative": "on"}).error["message"]
