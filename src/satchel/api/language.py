"""Language models."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from satchel import config, durable
from satchel.api.model import Model
from satchel.charts import html
from satchel.data.tokens import TokenFile, decode_documents, tokenize_pieces
from satchel.errors import DataError, RunError, SettingsError
from satchel.evaluation import comparison
from satchel.evaluation.comparison import UnitCosts
from satchel.evaluation.likelihood import Likelihood, TextLikelihood, likelihood, text_likelihoods
from satchel.evaluation.recall import Distance, recall
from satchel.generation.batch import GeneratedToken, generate_tokens, most_probable
from satchel.generation.decoding import Sample, continue_text, sample_requests
from satchel.generation.sampling import Sampling
from satchel.generation.speculation import draft_table
from satchel.ngram import arpa
from satchel.ngram.smoothing import NgramSettings, estimate
from satchel.ngram.tables import Table
from satchel.predictor import Floats, Ids, Predictor, log_probabilities, position_logprobs
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.text.display import Token, visible
from satchel.text.reading import Corpus, pieces_of
from satchel.text.token_names import next_token
from satchel.text.tokenizer import Tokenizer
from satchel.text.windows import Window, pair_documents, pair_notes, select_window, whole_window
from satchel.training.defaults import MOST_COUNTED, ngram_order

if TYPE_CHECKING:
    from satchel.inspection.ablation import Measure
    from satchel.inspection.contributions import Contributions
    from satchel.inspection.gradients import GradientNorms
    from satchel.nn.inference_layers import DecodingPrecision


@dataclass(frozen=True)
class TextScore:
    """The tokens of a text with their log-probabilities.

    `notes` holds further values per token, such as the n-gram order used or the gate of an interpolated network.
    `window` are the scored tokens of the text, and `source_window` those of the source of a translation that are used.
    `top` are the most probable tokens at each position with their log-probabilities, if they have been requested.
    """

    tokens: tuple[Token, ...]
    ids: tuple[int, ...]
    logprobs: Floats
    notes: Mapping[str, Any]
    window: Window
    source_window: Window | None = None
    top: tuple[tuple[tuple[Token, float], ...], ...] = ()

    def starting_at(self, start: int | None) -> "TextScore":
        """Return the scores of the tokens from a position on; None returns all of them."""
        window = select_window(len(self.tokens), None, start)
        if start is None:
            return self
        notes = {name: values[window.part] for name, values in self.notes.items()}
        return replace(
            self,
            tokens=self.tokens[window.part],
            ids=self.ids[window.part],
            logprobs=self.logprobs[window.part],
            notes=notes,
            window=replace(self.window, start=start, tokens=self.window.tokens - start),
            top=self.top[window.part],
        )

    def document(self) -> dict[str, Any]:
        """Return the keys of `score --json`."""
        notes = {name: values.tolist() for name, values in self.notes.items()}
        # A part of a mixture may have the name of a documented key; the documented keys override it.
        tokens: list[dict[str, Any]] = [
            {
                **{name: values[position] for name, values in notes.items()},
                "text": token,
                "id": token.id,
                "role": token.role,
                "logprob": logprob,
            }
            for position, (token, logprob) in enumerate(zip(self.tokens, self.logprobs.tolist(), strict=True))
        ]
        for token, ranked in zip(tokens, self.top, strict=False):
            token["top"] = [{"text": text, "id": text.id, "logprob": logprob} for text, logprob in ranked]
        totals = {"total_logprob": self.total_logprob, "perplexity": self.perplexity}
        return {"tokens": tokens, **totals, **pair_documents(self.source_window, self.window)}

    @property
    def window_notes(self) -> tuple[str, ...]:
        """Notes on the parts of the texts that are not used."""
        return pair_notes(self.source_window, self.window)

    @property
    def total_logprob(self) -> float:
        """Log-probability of the text in nats."""
        return float(self.logprobs.sum())

    @property
    def perplexity(self) -> float:
        """Perplexity per token."""
        mean = -self.total_logprob / max(1, len(self.ids))
        return math.exp(mean) if mean < 700 else math.inf

    def _repr_html_(self) -> str:
        bits = (-self.logprobs / math.log(2)).tolist()
        total = f"{sum(bits):.2f} bits, mean {sum(bits) / max(1, len(bits)):.2f} over {len(bits):,} tokens"
        return html.tinted(self.tokens, bits, [f"{cost:.1f}" for cost in bits]) + html.lines([total])


@dataclass(frozen=True)
class Generation:
    """Continuations of a prompt. `notes` name tokens of `logit_bias` whose text equals several tokens."""

    prompt: str
    samples: tuple[Sample, ...]
    tokens_per_second: float
    window: Window  # tokens of the prompt that the first token is predicted from
    tokenizer: Tokenizer = field(repr=False, compare=False)
    notes: tuple[str, ...] = ()
    has_logprobs: bool = False

    def document(self) -> dict[str, Any]:
        """Return the keys of `generate --json`."""
        return {
            "prompt": self.prompt,
            "samples": [each.document(self.tokenizer, has_logprobs=self.has_logprobs) for each in self.samples],
            "tokens_per_second": round(self.tokens_per_second, 1),
            "window": self.window.document(),
            "speculative": self.speculative,
            "notes": list(self.notes),
        }

    @property
    def speculative(self) -> bool:
        """Whether speculative decoding has been used."""
        return any(sample.speculative for sample in self.samples)

    @property
    def text(self) -> str:
        """The first continuation."""
        return self.samples[0].text

    def _repr_html_(self) -> str:
        passages = "".join(html.passage(sample.text, self.prompt) for sample in self.samples)
        return passages + html.lines(self.window.notes)


@dataclass(frozen=True)
class NextTokens:
    """The most probable next tokens, predicted from the tokens of the prompt in `window`."""

    prompt: str
    tokens: tuple[Token, ...]
    ids: tuple[int, ...]
    probabilities: tuple[float, ...]
    window: Window

    def document(self) -> dict[str, Any]:
        """Return the keys of `next --json`."""
        tokens = [
            {"text": token, "id": token.id, "role": token.role, "probability": probability}
            for token, probability in zip(self.tokens, self.probabilities, strict=True)
        ]
        return {"prompt": self.prompt, "tokens": tokens, "window": self.window.document()}

    def _repr_html_(self) -> str:
        rows = zip(self.tokens, self.probabilities, strict=True)
        table = html.table(["token", "probability"], [(visible(token, spaces=True), f"{p:.4f}") for token, p in rows])
        return table + html.lines(self.window.notes)


class LanguageModel(Model):
    """A trained language model."""

    predictor: Predictor

    @property
    def sees_targets(self) -> bool:
        """Whether the network was trained without causal mask (model.causal=false) and sees the tokens it predicts."""
        return self.network is not None and not self.network.encoder.causal

    def facts(self) -> dict[str, str]:
        """Return the facts of the model that a notebook shows, by name."""
        mask = {"causal mask": "none (model.causal=false): the model sees its targets"} if self.sees_targets else {}
        return {**super().facts(), **mask}

    def evaluate(
        self, data: str | Path | None = None, *, reading: config.Tree | None = None, progress: Progress = silent
    ) -> Likelihood:
        """Return the likelihood of a text: a file, a folder or a built-in; without data, of the held-out text.

        `reading` changes how the file is read, for example {"encoding": "latin-1"}.
        """
        tokens = self._tokens(data, reading, progress)
        progress("scoring", None)
        return likelihood(self.predictor, tokens.ids, tokens.counts)

    def recall(
        self, data: str | Path | None = None, *, reading: config.Tree | None = None, progress: Progress = silent
    ) -> list[Distance]:
        """Return how well the last word of a document is predicted, by the distance to its earlier occurrence."""
        if self.settings.data.documents == "stream":
            raise RunError(
                "reads all text as one document, and distances are measured within documents",
                "train with --set data.documents=line",
                where=str(self.folder),
            )
        tokens = self._tokens(data, reading, progress)
        progress("predicting", None)
        distances = recall(self.predictor, self.tokenizer, decode_documents(tokens.ids, self.tokenizer))
        if not distances:
            raise DataError("found no document whose last word occurs in it before", where=str(data))
        return distances

    def score(self, text: str, top: int = 0) -> TextScore:
        """Return the log-probability of every token of a text, and of the `top` most probable tokens in its place."""
        rule = self.settings.data.documents
        tokens = _require_tokens(tokenize_pieces(pieces_of([text], rule), self.tokenizer, rule), "text")
        scores = self.predictor.score(tokens.ids)
        ids = tuple(int(id_) for id_ in tokens.ids[1:])
        window, alternatives = whole_window(len(ids)), self._most_probable(tokens.ids, top) if top else ()
        return TextScore(self.tokenizer.tokens_of(ids), ids, scores.logprobs, scores.notes, window, top=alternatives)

    def _most_probable(self, ids_T: Ids, count: int) -> tuple[tuple[tuple[Token, float], ...], ...]:
        """Return the most probable tokens in place of each token after the first, with their log-probabilities."""
        ids_T = np.asarray(ids_T, np.int64)
        starts = np.flatnonzero(ids_T[:-1] == self.tokenizer.boundary).tolist()
        documents = (ids_T[start : stop + 1] for start, stop in pairwise([*starts, len(ids_T) - 1]))
        return tuple(
            named_tokens(self.tokenizer, most_probable(logprobs_V, count))
            for document in documents
            for logprobs_V in position_logprobs(self.predictor, document)
        )

    def score_texts(self, texts: Iterable[str]) -> Iterator[TextLikelihood]:
        """Return the likelihood of each text, in order, as `score` of each text but much faster.

        Texts of similar length are scored in one batch; a bounded number of texts is read ahead.
        """
        return text_likelihoods(self.predictor, self.tokenizer, self.settings.data.documents, texts)

    def contributions(
        self,
        prefix: str,
        target: str | int | None = None,
        versus: str | int | None = None,
        start: int | None = None,
    ) -> "Contributions":
        """Return the contribution of each sense of each word to the logit of the next token, minus that of `versus`.

        The target is a word that follows the text, or a token id; by default the most probable token. It is predicted
        from the last tokens of the text, as many as the context, or from those from the token `start` on.
        """
        from satchel.inspection.contributions import contributions

        return contributions(self, prefix, target, versus, start)

    def gradients(
        self,
        text: str | None = None,
        *,
        data: str | Path | None = None,
        positions: int = 64,
        length: int | None = None,
        untrained: bool = False,
    ) -> "GradientNorms":
        """Return the norms of the gradient of a token's loss with respect to earlier input embeddings, by distance.

        Args:
            text: The text whose last token is predicted.
            data: A file instead of a text: the norms are means over predicted tokens of the file.
            positions: The number of predicted tokens of `data`, evenly spaced.
            length: The maximum distance in tokens. Default: the context of the model, or 256 if it has no maximum.
            untrained: Use the network as initialised with the seed of the run, before its training.
        """
        from satchel.inspection.gradients import gradient_norms, spread_targets

        if (text is None) == (data is None):
            raise SettingsError("expected either a text or data", "give one of them")
        ids = self._prefix_ids(text) if text is not None else self.tokens_of(str(data))
        targets = spread_targets(ids, 1 if text is not None else positions)
        network = self._untrained_network() if untrained and self.network is not None else None
        return gradient_norms(self, ids, targets, network=network, length=length)

    def _untrained_network(self) -> Any:
        """Return the network of the run as initialised with its seed."""
        from satchel.training.jobs.language import LANGUAGE
        from satchel.training.networks import Sizes

        vocabulary = self.tokenizer.size + 1
        return LANGUAGE.build(self.settings, Sizes(vocabulary, vocabulary))

    def _prefix_ids(self, text: str) -> Ids:
        """Return the boundary and the ids of a text."""
        return np.concatenate([[self.tokenizer.boundary], self.tokenizer.encode(text).ids])

    def refuse_visible_targets(self, purpose: str) -> None:
        """Raise an error if the model sees its targets, which its use for this purpose excludes."""
        if self.sees_targets:
            raise RunError(
                f"was trained without causal mask (model.causal=false) and sees its targets, so it cannot {purpose}",
                "`satchel evaluate` reports its perplexity on targets in and not in its input",
                where=str(self.folder),
            )

    def _measure(self, data: str | Path | None) -> "tuple[Measure, Callable[[Any], float]]":
        from satchel.inspection.ablation import bits_measure

        return bits_measure(self, self._tokens(data))

    def tokens_of(self, data: str | Path) -> Ids:
        """Return the token ids of a file, read with the settings of the run."""
        return self._tokens(data).ids

    def next(self, prompt: str = "", top: int = 10) -> NextTokens:
        """Return the `top` most probable tokens after a prompt."""
        if top < 1:
            raise SettingsError(f"top: found {top}, expected 1 or more")
        ids_T = self._prefix_ids(prompt)
        decoder = self.predictor.decoder()
        logprobs_V = log_probabilities(decoder, decoder.join([ids_T]))[0]
        best = [int(id_) for id_ in np.argsort(-logprobs_V, kind="stable")[:top]]
        probabilities = tuple(float(probability) for probability in np.exp(logprobs_V[best]))
        window = select_window(len(ids_T), self.context_length)
        return NextTokens(prompt, self.tokenizer.tokens_of(best), tuple(best), probabilities, window)

    @property
    def context_length(self) -> int | None:
        """Maximum number of tokens that the network reads, in a mixture the smallest one; None without a limit."""
        parts: Sequence[Any] = getattr(self.predictor, "parts", (self.predictor,))
        windows = [getattr(part, "window", None) for part in parts]
        return min((window for window in windows if window is not None), default=None)

    def generate(
        self,
        prompt: str = "",
        *,
        progress: Progress = silent,
        on_text: Callable[[str], None] = lambda text: None,
        **options: Any,
    ) -> Generation:
        """Return continuations of a prompt. Options are the fields of `Sampling`: tokens, temperature, top_k, seed, ...

        The keys of `logit_bias` are token ids or texts of tokens. `on_text` receives the text of the first continuation
        after each token.
        """
        sampling, notes = self.sampling(options)
        began = time.perf_counter()
        ids_T = self._prefix_ids(prompt)
        samples = continue_text(
            self.predictor,
            self.tokenizer,
            prompt,
            sampling,
            lambda done: progress("generating", done),
            on_text,
            prompt_ids=ids_T[1:],
        )
        tokens = sum(len(sample.ids) for sample in samples)
        rate = tokens / max(time.perf_counter() - began, 1e-9)
        window = select_window(len(ids_T), self.context_length)
        return Generation(
            prompt, tuple(samples), rate, window, self.tokenizer, tuple(notes), sampling.logprobs is not None
        )

    def stream(self, prompt: str = "", **options: Any) -> Iterator[GeneratedToken]:
        """Return an iterator over the tokens of continuations of a prompt, which generates each when it is requested.

        Options are those of `generate`. A token has the attributes `text`, `id`, `logprob`, `finish` (None before the
        last token) and `sample` (the number of the continuation).
        """
        sampling, _ = self.sampling({"logprobs": 0, **options})
        return generate_tokens(self.predictor, self.tokenizer, sample_requests(self.tokenizer, prompt, sampling))

    def sampling(self, options: Mapping[str, Any]) -> tuple[Sampling, list[str]]:
        """Return the settings of generation, and notes on the tokens of `logit_bias`."""
        notes: list[str] = []
        bias = options.get("logit_bias")
        if isinstance(bias, Mapping):
            ids = {next_token(self.tokenizer, token, notes, single=True): value for token, value in bias.items()}
            options = {**options, "logit_bias": ids}
        sampling = config.build(Sampling, options)
        if sampling.speculative == "on" and draft_table(self.predictor) is None:
            raise SettingsError(
                "speculative: found on, but the run has no n-gram model that could propose tokens",
                "use auto or off, or train a network with --set model.ngram=5",
            )
        return sampling, notes

    def decoding_bits(self, precision: "DecodingPrecision") -> tuple[float, float] | None:
        """Set the precision, and return the bits per byte of a held-out sample under the decoder in float32 and in it.

        None without held-out text.
        """
        from satchel.evaluation.decoding import decoding_bits

        self.set_precision(precision)
        tokens = self._files.valid_tokens()
        if tokens is None:
            return None
        self.set_precision("float32")
        reference = decoding_bits(self.predictor, self.tokenizer, tokens.ids)
        self.set_precision(precision)
        return reference, decoding_bits(self.predictor, self.tokenizer, tokens.ids)

    def export_arpa(self, path: str | Path, *, progress: Progress = silent) -> Path:
        """Write an n-gram model as an ARPA file and return its path."""
        if not isinstance(self.predictor, Table):
            raise RunError(
                "is not an n-gram model", "only n-gram models can be written as ARPA files", where=str(self.folder)
            )
        path = Path(path) / "model.arpa" if Path(path).is_dir() else Path(path)
        with durable.new_file(path) as handle:
            arpa.write_arpa(
                handle,
                self.predictor,
                self.tokenizer.spellings,
                self.tokenizer.unknown,
                lambda done: progress("writing", done),
            )
        return path

    def tokenize(self, corpus: Corpus, progress: Progress = silent) -> TokenFile:
        """Return the tokens of a corpus in a temporary file."""
        tokens = tokenize_pieces(
            corpus.pieces(self.settings.data.documents),
            self.tokenizer,
            self.settings.data.documents,
            lambda characters: progress("tokenizing", min(1.0, characters / max(1, corpus.size))),
        )
        return _require_tokens(tokens, corpus.name)

    def _tokens(
        self, data: str | Path | None, reading: config.Tree | None = None, progress: Progress = silent
    ) -> TokenFile:
        return self.valid_tokens() if data is None else self.tokenize(self.corpus(data, reading), progress)

    def ngram_baseline(self, progress: Progress = silent) -> Likelihood | None:
        """Return the likelihood of the held-out text under an n-gram model of the same tokens.

        None if there are too many tokens to count, or if the model sees its targets. A network that is interpolated
        with an n-gram model is compared with that one.
        """
        if self._files.tokens().counts.tokens > MOST_COUNTED or self.sees_targets:
            return None
        progress("counting n-grams for comparison", None)
        if table := getattr(self.network, "ngram", None):
            valid = self.valid_tokens()
            return likelihood(table, valid.ids, valid.counts)
        return self.ngram_likelihood(NgramSettings(order=ngram_order(self.tokenizer.kind)))

    def ngram_likelihood(self, settings: NgramSettings) -> Likelihood:
        """Return the likelihood of the held-out text under an n-gram model of the training text."""
        valid, ends = self.valid_tokens(), self.settings.data.documents != "stream"
        table = estimate(self._files.tokens().ids, self.tokenizer.size + 1, settings, ends=ends).table
        return likelihood(table, valid.ids, valid.counts)

    def validation_curve(self, *, convert: bool = True) -> tuple[str, list[tuple[int, float]]]:
        """Return the bits per byte of the validations during training; the loss in nats if they are unknown."""
        has_bits = convert and (self.folder / runs.VALID_TOKENS).exists() and not self.sees_targets
        bits = bits_by_step(self) if has_bits else []
        return ("bits per byte", bits) if bits else super().validation_curve()

    @classmethod
    def comparison_warnings(cls, models: "Sequence[LanguageModel]") -> list[str]:
        """Return warnings about tokenizers that differ, and about models that see their targets."""
        warnings = []
        if len({model.tokenizer.sha256 for model in models}) > 1:
            warnings.append("perplexity is per token, and the tokenizers differ: compare bits per byte instead")
        warnings += [
            f"{model.folder} is trained with model.causal=false: it sees its targets"
            for model in models
            if not getattr(model.settings, "is_causal", True)
        ]
        return warnings

    @classmethod
    def unit_costs(
        cls, models: "Sequence[LanguageModel]", data: str | Path | None, reading: config.Tree, progress: Progress
    ) -> tuple[str, list[UnitCosts], Iterable[str]]:
        """Return bits per byte, or nats per token if a tokenizer is lossy and all tokenizers are equal."""
        for model in models:
            model.refuse_visible_targets("be compared by the likelihood of a text")
        rules = {model.settings.data.documents for model in models}
        if len(rules) > 1:
            raise RunError(
                f"the runs divide text into documents differently: {', '.join(sorted(rules))}",
                "compare runs trained with the same data.documents",
            )
        (rule,) = rules
        texts: Iterable[str]
        if data is None:
            tokens = [shared_valid_tokens(models)] * len(models)
            bytes_U = (
                comparison.token_bytes(tokens[0], models[0].tokenizer, rule) if tokens[0].counts.lossless else None
            )
        else:
            corpus = models[0].corpus(data, reading)
            tokens = [model.tokenize(corpus, progress) for model in models]
            bytes_U = comparison.unit_bytes(corpus, rule) if all(each.counts.lossless for each in tokens) else None
        if data is None or bytes_U is None:
            texts = comparison.token_texts(tokens[0], models[0].tokenizer)
        else:
            texts = comparison.unit_texts(corpus, rule)
        if bytes_U is None and len({model.tokenizer.sha256 for model in models}) > 1:
            lossy = next(model for model, each in zip(models, tokens, strict=True) if not each.counts.lossless)
            raise RunError(
                f"the tokenizer of {lossy.folder} is lossy on this text, and the tokenizers differ: no common unit",
                "compare runs with the same tokenizer, or with char, byte, bpe or unigram tokenizers",
            )
        costs: list[UnitCosts] = []
        for model, each in zip(models, tokens, strict=True):
            progress(f"scoring with {model.folder.name}", len(costs) / len(models))
            scored = model.predictor, model.tokenizer, each
            costs.append(
                comparison.token_costs(*scored) if bytes_U is None else comparison.byte_costs(*scored, bytes_U)
            )
        return "nats_per_token" if bytes_U is None else "bits_per_byte", costs, texts


def named_tokens(tokenizer: Tokenizer, ranked: Iterable[tuple[int, float]]) -> tuple[tuple[Token, float], ...]:
    """Return ids with values as tokens with values."""
    return tuple((tokenizer.text_of(id_), value) for id_, value in ranked)


def _require_tokens(tokens: TokenFile, where: str) -> TokenFile:
    if not tokens.counts.tokens:
        raise DataError("found no text, expected at least one token", where=where)
    return tokens


def shared_valid_tokens(models: Sequence[LanguageModel]) -> TokenFile:
    """Return the held-out tokens common to all runs. A mix is skipped: it has the held-out data of its parts."""
    tokens = [model.valid_tokens() for model in models if model.settings.model.kind != "mix"]
    is_same = len({model.tokenizer.sha256 for model in models}) == 1 and bool(tokens)
    if not is_same or any(not np.array_equal(each.ids, tokens[0].ids) for each in tokens[1:]):
        raise RunError("the runs have different held-out texts", "give a text with --data")
    return tokens[0]


def cost_by_order(model: LanguageModel, orders: Sequence[int], progress: Progress = silent) -> list[Likelihood]:
    """Return the likelihood of the held-out text under n-gram models of other orders of the same training text."""
    costs = []
    for number, order in enumerate(orders):
        progress(f"counting {order}-grams", number / len(orders))
        settings = model.settings.model.model_copy(update={"order": order})
        costs.append(model.ngram_likelihood(settings))
    return costs


def bits_by_step(model: LanguageModel) -> list[tuple[int, float]]:
    """Return the bits per byte of the held-out text at each validation; empty if the tokenizer is lossy."""
    counts = model.valid_tokens().counts
    if not (counts.lossless and counts.bytes):
        return []
    _, losses = Model.validation_curve(model)
    return [(step, loss * (counts.tokens / counts.bytes / math.log(2))) for step, loss in losses]
