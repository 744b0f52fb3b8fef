"""Continuations of one prompt as texts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from satchel.generation.batch import Continuation, Request, generate_tokens
from satchel.generation.sampling import Sampling
from satchel.generation.stopping import Finish
from satchel.predictor import Ids, Predictor
from satchel.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Sample:
    """A continuation: text, ids, and the finish reason (token limit, stop string or end of document).

    The text starts with the space after the prompt, if there is one. With `logprobs`, each id has its log-probability
    under the model, and the most probable ids at its position with theirs. `speculative` states whether it has been
    decoded speculatively.
    """

    text: str
    ids: tuple[int, ...]
    finish: Finish
    logprobs: tuple[float, ...] = ()
    alternatives: tuple[tuple[tuple[int, float], ...], ...] = ()
    speculative: bool = field(default=False, compare=False)

    def document(self, tokenizer: Tokenizer, *, has_logprobs: bool = False) -> dict[str, Any]:
        """Return the keys of a sample in `generate --json`, with the log-probabilities of its tokens or without."""
        document = {"text": self.text, "tokens": len(self.ids), "finish": self.finish}
        if not has_logprobs:
            return document
        alternatives = [
            [{"text": tokenizer.text_of(id_), "id": id_, "logprob": logprob} for id_, logprob in each]
            for each in self.alternatives
        ]
        tokens = tokenizer.tokens_of(self.ids)
        return {**document, "token_texts": tokens, "logprobs": self.logprobs, "top_logprobs": alternatives}


def sample_requests(
    tokenizer: Tokenizer, prompt: str, sampling: Sampling, prompt_ids: Ids | None = None
) -> list[Request]:
    """Return one request per sample; `prompt_ids` are the ids of the prompt after the boundary, if they are known."""
    prompt_ids = tokenizer.encode(prompt).ids if prompt_ids is None else prompt_ids
    return [Request(prompt, prompt_ids, sampling, number) for number in range(sampling.samples)]


def continue_text(
    predictor: Predictor,
    tokenizer: Tokenizer,
    prompt: str,
    sampling: Sampling,
    progress: Callable[[float], None] = lambda done: None,
    on_text: Callable[[str], None] = lambda text: None,
    *,
    prompt_ids: Ids | None = None,
) -> list[Sample]:
    """Return continuations of a prompt. Sample i depends on the seed and on i, not on the number of samples.

    `on_text` receives the text of the first sample after each token, without parts that may still change. `prompt_ids`
    are the ids of the prompt after the boundary, if they are known already.
    """
    requests = sample_requests(tokenizer, prompt, sampling, prompt_ids)
    continuations: dict[int, Continuation] = {}
    streamed: list[str] = []
    for token in generate_tokens(predictor, tokenizer, requests):
        continuation = token.continuation
        continuations[token.sample] = continuation
        if token.sample == 0:
            streamed.append(token.text)
            on_text("".join(streamed).rstrip("\ufffd"))
            progress(len(continuation.ids) / sampling.tokens)
    return [
        Sample(
            each.text,
            tuple(each.ids),
            each.finish or "length",
            tuple(each.logprobs),
            tuple(each.alternatives),
            each.speculative,
        )
        for _, each in sorted(continuations.items())
    ]
