"""Autoregressive decoding of a batch of continuations, which start and end independently of each other.

Shapes: B rows, T tokens, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from satchel.generation.noise import Noise
from satchel.generation.sampling import Sampler, Sampling
from satchel.generation.speculation import Drafter, State, draft_table, is_speculative
from satchel.generation.stopping import EndOfDocument, Finish, StopCondition, StopStrings, TokenLimit
from satchel.generation.transforms import History
from satchel.predictor import Floats, Ids, Logits, Predictor, log_probabilities
from satchel.text.incremental import IncrementalDecoder
from satchel.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Request:
    """A continuation to generate: the prompt, its ids after the boundary, and the number of the sample."""

    prompt: str
    prompt_ids: Ids
    sampling: Sampling
    sample: int = 0


@dataclass(frozen=True)
class GeneratedToken:
    """A generated token. `alternatives` are the most probable tokens at its position with their log-probabilities.

    `text` is the new text of the continuation that later tokens cannot change; a stop string is not part of it.
    `logprob` is the log-probability of the token under the model; None if it has not been requested.
    """

    continuation: "Continuation"
    id: int
    text: str
    finish: Finish | None
    logprob: float | None = None
    alternatives: tuple[tuple[int, float], ...] = ()

    @property
    def sample(self) -> int:
        """The number of the sample."""
        return self.continuation.request.sample


@dataclass(eq=False)
class Continuation:
    """A continuation of a prompt: its ids without the boundary, and its text.

    `speculative` states whether proposals of an n-gram model have been verified.
    """

    request: Request
    tokenizer: Tokenizer
    finish: Finish | None = None
    speculative: bool = False
    logprobs: list[float] = field(default_factory=list)
    alternatives: list[tuple[tuple[int, float], ...]] = field(default_factory=list)
    # State of the n-gram model that proposes tokens, after the appended tokens; None after a step without proposals.
    draft_state: State | None = None

    def __post_init__(self) -> None:
        sampling, tokenizer = self.request.sampling, self.tokenizer
        self.history = History(np.asarray(self.request.prompt_ids, np.int64))
        excluded = () if tokenizer.unknown is None else (tokenizer.unknown,)
        self._sampler = Sampler(sampling, excluded)
        self.noise = Noise(np.random.default_rng([sampling.seed, self.request.sample]))
        self._decoder = IncrementalDecoder(tokenizer, self.request.prompt)
        self._text = StopStrings(sampling.stop)
        # In this order: a token can meet several conditions.
        self._conditions: list[StopCondition] = [
            EndOfDocument(tokenizer.boundary),
            self._text,
            TokenLimit(sampling.tokens),
        ]

    @property
    def accepts_probabilities(self) -> bool:
        """Whether `choose` returns the same token for probabilities as for their logarithms."""
        return self._sampler.accepts_probabilities

    @property
    def ids(self) -> list[int]:
        """The generated ids."""
        return self.history.generated

    @property
    def text(self) -> str:
        """The generated text; while it is generated, the part that later tokens cannot change."""
        return "".join(self._text.released)

    def choose(self, scores_V: Logits, logprobs_V: Floats | None) -> GeneratedToken:
        """Choose the next token; `logprobs_V` are the log-probabilities of the model if they are to be returned."""
        id_ = self._sampler.choose(scores_V, self.history, self.noise)
        released = len(self._text.released)
        text = self._decoder.add(id_)
        self.finish = next((finish for each in self._conditions if (finish := each(id_, text))), None)
        if self.finish != "end":
            self.history.append(id_)
        if self.finish in ("end", "length"):
            self._text.finish(self._decoder.finish())
        logprob: float | None = None
        alternatives: tuple[tuple[int, float], ...] = ()
        if logprobs_V is not None:
            logprob, alternatives = (
                float(logprobs_V[id_]),
                most_probable(logprobs_V, self.request.sampling.logprobs or 0),
            )
            if self.finish != "end":
                self.logprobs.append(logprob)
                self.alternatives.append(alternatives)
        return GeneratedToken(self, id_, "".join(self._text.released[released:]), self.finish, logprob, alternatives)


def most_probable(logprobs_V: Floats, count: int) -> tuple[tuple[int, float], ...]:
    """Return the `count` most probable ids with their log-probabilities."""
    count = min(count, len(logprobs_V))
    if not count:
        return ()
    best = np.argpartition(-logprobs_V, count - 1)[:count]
    best = best[np.lexsort((best, -logprobs_V[best]))]
    return tuple((int(id_), float(logprobs_V[id_])) for id_ in best)


class DecodingBatch:
    """Generates continuations together. They can be added and removed between two steps."""

    def __init__(self, predictor: Predictor, tokenizer: Tokenizer) -> None:
        self._tokenizer, self._decoder = tokenizer, predictor.decoder()
        self._drafter = Drafter(table) if (table := draft_table(predictor)) else None
        self._rows: list[Continuation] = []  # in the order of the rows of the decoder
        # Scores of the next token (B, V), or the tokens that have been chosen and not been appended.
        self._scores_BV: Logits | None = None
        self._chosen: list[int] = []

    @property
    def continuations(self) -> list[Continuation]:
        """The continuations that are not finished."""
        return [row for row in self._rows if row.finish is None]

    def add(self, requests: Sequence[Request]) -> list[Continuation]:
        """Add continuations and return them. Successive requests with the same prompt share its encoding."""
        if not requests:
            return []
        self._advance()
        prompts: list[Ids] = []
        numbers: list[int] = []
        for request in requests:
            if not prompts or not np.array_equal(prompts[-1], request.prompt_ids):
                prompts.append(request.prompt_ids)
            numbers.append(len(prompts) - 1)
        boundary, rows = [self._tokenizer.boundary], len(self._rows)
        scores_PV = self._decoder.join([np.concatenate([boundary, prompt]) for prompt in prompts])
        if len(prompts) < len(requests):
            self._decoder.keep(np.array([*range(rows), *(rows + number for number in numbers)]))
            scores_PV = scores_PV[numbers]
        self._scores_BV = scores_PV if self._scores_BV is None else np.concatenate([self._scores_BV, scores_PV])
        added = [Continuation(request, self._tokenizer) for request in requests]
        self._rows += added
        return added

    def remove(self, continuation: Continuation) -> None:
        """Stop a continuation before it is finished."""
        self._advance()
        self._keep([number for number, row in enumerate(self._rows) if row is not continuation])

    def step(self) -> list[GeneratedToken]:
        """Return the next token of each continuation; with speculative decoding, one or more of each."""
        if self._chosen and (count := self._proposals()):
            return self._verify(count)
        self._advance()
        if self._scores_BV is None:
            return []
        tokens = self._choose(self._rows, self._scores_BV)
        self._scores_BV, self._chosen = None, [token.id for token in tokens]
        return tokens

    def _advance(self) -> None:
        """Remove finished continuations, and append the chosen tokens of the others."""
        if not self._chosen:
            return
        chosen = self._remove_finished()
        if chosen:
            self._scores_BV = self._decoder.step(np.array(chosen))
        for row in self._rows:
            row.draft_state = None

    def _remove_finished(self) -> list[int]:
        """Remove finished continuations, and return the chosen tokens of the others, which are to be appended."""
        chosen, self._chosen = dict(zip(self._rows, self._chosen, strict=True)), []
        self._keep([number for number, row in enumerate(self._rows) if row.finish is None])
        return [chosen[row] for row in self._rows]

    def _keep(self, kept: list[int]) -> None:
        """Keep these rows. The last rows replace those that are removed, so that few are moved."""
        order = kept.copy()
        for target in range(len(order)):
            if order[target] != target and order[-1] > target:
                order.insert(target, order.pop())
        if order != list(range(len(self._rows))):
            self._decoder.keep(np.array(order, np.int64))
            self._rows = [self._rows[number] for number in order]
            self._scores_BV = None if self._scores_BV is None else self._scores_BV[order]
        if not self._rows:
            self._scores_BV = None

    def _choose(self, rows: list[Continuation], scores_BV: Logits) -> list[GeneratedToken]:
        """Choose the next token of each row."""
        wanted = [row.request.sampling.logprobs is not None for row in rows]
        logprobs_BV = log_probabilities(self._decoder, scores_BV) if any(wanted) else None
        if self._decoder.gives_probabilities and not all(row.accepts_probabilities for row in rows):
            with np.errstate(divide="ignore"):
                scores_BV = np.log(scores_BV)
        return [
            row.choose(scores_V, logprobs_BV[number] if logprobs_BV is not None and wanted[number] else None)
            for number, (row, scores_V) in enumerate(zip(rows, scores_BV, strict=True))
        ]

    # --- speculative decoding

    def _proposals(self) -> int:
        """Return the number of tokens to propose for each row; 0 for a plain step."""
        rows = self.continuations
        if self._drafter is None or not is_speculative([row.request.sampling.speculative for row in rows]):
            return 0
        # Neither beyond the windows of the network nor beyond the last token.
        room = self._decoder.room
        remaining = max(row.request.sampling.tokens - len(row.ids) for row in rows)
        return max(0, min(self._drafter.count, remaining - 1, room - 1 if room is not None else remaining))

    def _verify(self, count: int) -> list[GeneratedToken]:
        """Append the chosen tokens and `count` proposals, and return the tokens that are verified."""
        assert self._drafter is not None
        chosen = self._remove_finished()
        proposals = []
        for row, id_ in zip(self._rows, chosen, strict=True):
            new_ids = row.history.last(self._drafter.context) if row.draft_state is None else [id_]
            row.draft_state = self._drafter.advance(row.draft_state or self._drafter.start, new_ids)
            sampling = row.request.sampling
            noise = None if sampling.is_greedy else row.noise
            proposals.append(self._drafter.propose(row.draft_state, count, noise, sampling.temperature))
        ids_BT = np.array([[id_, *proposed] for id_, proposed in zip(chosen, proposals, strict=True)])
        scores_BTV = self._decoder.extend(ids_BT)
        tokens: list[GeneratedToken] = []
        rewinds: list[int] = []
        for row, proposed, scores_TV in zip(self._rows, proposals, scores_BTV, strict=True):
            accepted, row.speculative = 0, True
            while True:
                (token,) = self._choose([row], scores_TV[accepted, None])
                tokens.append(token)
                if token.finish is not None or accepted == count or token.id != proposed[accepted]:
                    break
                accepted += 1
            if row.draft_state is not None:
                row.draft_state = self._drafter.advance(row.draft_state, proposed[:accepted])
            self._chosen.append(token.id)
            rewinds.append(count - accepted)
            self._drafter.adapt(accepted, count)
        self._decoder.rewind(np.array(rewinds))
        return tokens


def generate_tokens(
    predictor: Predictor, tokenizer: Tokenizer, requests: Sequence[Request]
) -> Iterator[GeneratedToken]:
    """Yield the tokens of the continuations of one or more prompts as they are generated."""
    batch = DecodingBatch(predictor, tokenizer)
    batch.add(requests)
    while batch.continuations:
        yield from batch.step()
