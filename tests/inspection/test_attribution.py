"""Attribution: exact for linear networks, complete for integrated gradients, and compared with exact contributions."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from satchel.errors import SettingsError
from satchel.evaluation.similarity import spearman
from satchel.inspection import attribution
from satchel.inspection.attribution import METHODS, Instead, Method, attribute, check_contextualise, compare_methods
from satchel.inspection.contributions import project
from satchel.inspection.targets import Logit, find_logit, logit
from satchel.models.build import build_encoder
from satchel.models.dan import DanSettings
from satchel.models.encoder import CausalEncoder
from satchel.models.settings import Pooling
from satchel.models.transformer import Transformer, TransformerSettings
from satchel.tasks.classification import ClassificationNetwork
from satchel.tasks.language import LanguageNetwork
from satchel.tasks.tagging import TaggingNetwork
from tests.inspection.conftest import enlarge
from tests.models.encoders import OF_VECTORS, SETTINGS, VOCABULARY, make
from tests.training.conftest import one_thread as one_thread

IDS = np.array([10, 3, 1, 4, 1, 5, 9, 2, 6, 5])
LONG = np.resize(IDS, 40)


def large(name: str, *, causal: bool = True) -> CausalEncoder:
    return enlarge(make(name, causal=causal))


def next_token_logit(name: str, versus: int | None = 5) -> Logit:
    return logit(LanguageNetwork(large(name)).eval(), IDS, 3, versus)


def label_logit(name: str) -> Logit:
    return logit(ClassificationNetwork(large(name, causal=False), 3).double().eval(), IDS, 2)


def tag_logit(name: str, ids: np.ndarray = IDS, position: int = 4) -> Logit:
    network = TaggingNetwork(large(name, causal=False), 4).double().eval()
    return logit(network, ids, 2, 1, position)


LOGITS = {"language": next_token_logit, "classification": label_logit, "tagging": tag_logit}


def mean_embedding(encoder: CausalEncoder) -> Tensor:
    return encoder.embedding.weight.detach().mean(dim=0)


# --- exact and complete cases ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_all_methods_are_exact_if_the_logit_is_linear_in_the_embeddings(method: Method) -> None:
    torch.manual_seed(0)
    encoder = build_encoder(DanSettings(width=12, layers=0), VOCABULARY, causal=True).double()
    network = LanguageNetwork(encoder).eval()
    attributions = attribute(logit(network, IDS, 3), method)
    with torch.no_grad():
        vectors = encoder.embedding(torch.from_numpy(IDS)) - mean_embedding(encoder)
        by_hand = (vectors @ network.head.weight[3] / len(IDS)).numpy()
        score = network(torch.from_numpy(IDS)[None])[0, -1, 3].item()
    np.testing.assert_allclose(attributions.values, by_hand, rtol=1e-10, atol=1e-15)
    assert attributions.score == pytest.approx(score, rel=1e-12)
    assert attributions.baseline == pytest.approx((mean_embedding(encoder) @ network.head.weight[3]).item(), rel=1e-10)
    assert attributions.gap == pytest.approx(0, abs=1e-15)


def test_occlusion_and_integrated_gradients_equal_the_exact_contributions_of_an_additive_network() -> None:
    settings = SETTINGS["uniform backpack"].model_copy(update={"senses": 1})
    torch.manual_seed(0)
    encoder = enlarge(build_encoder(settings, VOCABULARY, causal=True).double())
    # A difference of two logits: contributions to a single logit leave out the mean logit of the vocabulary.
    explained = logit(LanguageNetwork(encoder).eval(), IDS, 3, 5)
    # The sample contains the whole vocabulary, whose mean sense centred contributions subtract.
    (exact,) = project([explained])
    for method in ("occlusion", "integrated"):
        attributions = attribute(explained, method, instead="words", steps=66 if method == "integrated" else None)
        np.testing.assert_allclose(
            attributions.values, exact.centred.sum(axis=1), atol=1e-6 * np.abs(exact.values).sum()
        )
        assert attributions.score == pytest.approx(exact.logit)
        assert attributions.baseline == pytest.approx(exact.bias)
    # With the mean embedding as reference, the values differ by the same constant for all words.
    difference = attribute(explained, "occlusion").values - exact.centred.sum(axis=1)
    np.testing.assert_allclose(difference, difference[0], atol=1e-6 * np.abs(exact.values).sum())


@pytest.mark.parametrize("task", LOGITS)
@pytest.mark.parametrize("name", OF_VECTORS)
def test_integrated_gradients_are_complete_for_every_encoder(name: str, task: str) -> None:
    explained = LOGITS[task](name)
    check_contextualise(explained)
    attributions = attribute(explained, steps=256)
    assert abs(attributions.gap) <= 0.01 * abs(attributions.score - attributions.baseline)
    assert np.abs(attributions.values).sum() > 1e-6
    automatic = attribute(explained)
    whole = abs(automatic.score - automatic.baseline)
    assert abs(automatic.gap) <= max(0.01 * whole, 0.001 * np.abs(automatic.values).sum())
    assert automatic.steps is not None
    assert automatic.steps <= 256


@pytest.mark.parametrize("name", ["usual", "backpack", "gru"])
def test_integrated_gradients_from_sampled_words_are_complete(name: str) -> None:
    attributions = attribute(next_token_logit(name), instead="words", steps=64)
    assert abs(attributions.gap) <= 0.01 * abs(attributions.score - attributions.baseline)
    assert attribute(next_token_logit(name), instead="words").is_complete


def test_more_integration_steps_reduce_the_completeness_gap() -> None:
    explained = next_token_logit("window")
    gaps = [abs(attribute(explained, steps=steps).gap) for steps in (1, 8, 256)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert attribute(explained, steps=3).steps == 3
    whole = attribute(explained)
    assert whole.is_complete
    assert whole.steps is not None
    assert whole.steps > attribution.FIRST_STEPS
    assert not attribute(explained, steps=whole.steps // 2).is_complete


def test_gradients_equal_finite_differences() -> None:
    explained = next_token_logit("rotary")
    encoder = explained.encoder
    attributions = attribute(explained, "gradient")
    with torch.no_grad():
        vectors = encoder.embed(explained.ids_T[None])
        for position in range(len(IDS)):
            ahead, behind = vectors.clone(), vectors.clone()
            for rows, step in ((ahead, 1e-6), (behind, -1e-6)):
                rows[0, position] += step * (vectors[0, position] - mean_embedding(encoder))  # type: ignore[arg-type]
            slope = (attribution._values(explained, ahead) - attribution._values(explained, behind)).item() / 2e-6
            assert attributions.values[position] == pytest.approx(slope, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("name", ["dan", "window", "lstm", "rotary", "backpack", "lstm backpack"])
def test_occlusion_equals_the_logits_of_texts_with_another_token(name: str) -> None:
    network = LanguageNetwork(large(name)).eval()
    attributions = attribute(logit(network, IDS, 3), "occlusion", instead="words")

    def score(ids: np.ndarray) -> float:
        with torch.no_grad():
            return float(network(torch.from_numpy(ids)[None])[0, -1, 3])

    for position in (0, 4, 9):
        decreases = []
        for other in range(VOCABULARY):
            changed = IDS.copy()
            changed[position] = other
            decreases.append(score(IDS) - score(changed))
        assert attributions.values[position] == pytest.approx(np.mean(decreases), rel=1e-9, abs=1e-12)


# --- tokens without influence ------------------------------------------------------------------------------


@pytest.mark.parametrize("instead", ["mean", "words"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tokens_outside_the_window_have_zero_attribution(method: Method, instead: Instead, dtype: torch.dtype) -> None:
    network = LanguageNetwork(large("window").to(dtype)).eval()
    attributions = attribute(logit(network, IDS, 3), method, instead=instead)
    assert not attributions.values[:-3].any()
    assert attributions.values[-3:].all()


@pytest.mark.parametrize("method", METHODS)
def test_tokens_that_a_tag_does_not_depend_on_have_zero_attribution(method: Method) -> None:
    near = attribute(tag_logit("window", position=4), method)
    assert not near.values[[0, 8, 9]].any()  # the window has three tokens on each side
    assert near.values[1:8].any()
    # A long text is encoded in windows of the context, 16 tokens.
    far = attribute(tag_logit("rotary", LONG, position=20), method)
    assert not far.values[:16].any()
    assert far.values[16:32].all()
    assert not far.values[32:].any()


# --- logits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_the_attribution_of_a_difference_of_logits_is_the_difference_of_the_attributions(method: Method) -> None:
    network = LanguageNetwork(large("backpack")).eval()
    steps = 8 if method == "integrated" else None
    first, second, both = (attribute(logit(network, IDS, *of), method, steps=steps) for of in ((3,), (5,), (3, 5)))
    np.testing.assert_allclose(both.values, first.values - second.values, rtol=1e-9, atol=1e-12)
    assert both.score == pytest.approx(first.score - second.score)
    assert both.baseline == pytest.approx(first.baseline - second.baseline)


@pytest.mark.parametrize("pooling", ["mean", "root"])
@pytest.mark.parametrize("ids", [IDS[:1], IDS, LONG], ids=["one", "ten", "long"])
@pytest.mark.parametrize("name", ["dan", "pairs", "window", "gru", "rotary", "backpack", "uniform backpack"])
def test_the_score_equals_the_logit_of_the_network_in_a_padded_batch(
    name: str, ids: np.ndarray, pooling: Pooling
) -> None:
    classifier = ClassificationNetwork(large(name, causal=False).float(), 3, pooling).eval()
    tagger = TaggingNetwork(large(name, causal=False).float(), 4).eval()
    batch, keep = torch.zeros(2, 45, dtype=torch.long), torch.zeros(2, 45, dtype=torch.bool)
    batch[0], keep[0] = 1, True
    batch[1, : len(ids)], keep[1, : len(ids)] = torch.from_numpy(ids), True
    with torch.no_grad():
        labels, tags = classifier(batch, keep)[1], tagger(batch, keep)[1, len(ids) - 1]
    of_label = logit(classifier, ids, 2, versus=0)
    of_tag = logit(tagger, ids, 3, position=len(ids) - 1)
    for explained, score in ((of_label, labels[2] - labels[0]), (of_tag, tags[3])):
        check_contextualise(explained)
        attributions = attribute(explained, "gradient")
        assert attributions.score == pytest.approx(score.item(), rel=1e-4, abs=1e-5)
        assert len(attributions.values) == len(ids)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["dan", "gru", "rotary", "backpack"])
def test_the_batch_size_does_not_change_the_values(name: str, method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    explained = next_token_logit(name)
    whole = attribute(explained, method, instead="words")
    monkeypatch.setattr(attribution, "BATCH_TOKENS", 30)
    assert attribution._batch_rows(torch.empty(10, 1)) == 3
    parts = attribute(explained, method, instead="words")
    np.testing.assert_allclose(parts.values, whole.values, rtol=1e-9, atol=1e-13)


def test_attribution_keeps_the_mode_of_the_network_and_works_in_inference_mode() -> None:
    network = LanguageNetwork(large("backpack")).train()
    explained = logit(network, IDS, 3)
    with torch.inference_mode():
        within = attribute(explained).values
    assert network.encoder.training
    assert all(parameter.grad is None for parameter in network.parameters())
    np.testing.assert_allclose(within, attribute(explained).values, rtol=1e-12)


def test_dropout_is_disabled() -> None:
    torch.manual_seed(0)
    settings = TransformerSettings(width=12, layers=1, heads=3, context=16, dropout=0.5)
    network = LanguageNetwork(build_encoder(settings, VOCABULARY, causal=True)).train()
    explained = logit(network, IDS, 3)
    np.testing.assert_array_equal(attribute(explained, "occlusion").values, attribute(explained, "occlusion").values)


# --- encoders that are not supported --------------------------------------------------------------------


class Reversing(Transformer):
    """An encoder that encodes ids in another order than their embeddings."""

    def encode(self, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        return super().encode(ids_BT.flip(1), keep_BT)


class IdsOnly(Transformer):
    """An encoder that does not encode embeddings."""

    def encode(self, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        return self.embedding(ids_BT)  # type: ignore[no-any-return]

    def contextualise(self, x_BTD: Tensor, keep_BT: Tensor | None = None, memory: object = None) -> Tensor:
        raise NotImplementedError("it encodes ids")


@pytest.mark.parametrize(
    ("kind", "message"), [(Reversing, "encodes embeddings differently"), (IdsOnly, "cannot encode embeddings")]
)
def test_an_encoder_that_does_not_encode_embeddings_like_ids_is_an_error(kind: type[Transformer], message: str) -> None:
    settings = SETTINGS["rotary"]
    assert isinstance(settings, TransformerSettings)
    explained = logit(LanguageNetwork(kind(settings, VOCABULARY, causal=True)).eval(), IDS, 3)
    for check in (check_contextualise, attribute):
        with pytest.raises(SettingsError, match=message):
            check(explained)


def test_a_table_of_senses_is_an_error_that_names_contributions() -> None:
    with pytest.raises(SettingsError, match="sense_source=table") as caught:
        attribute(logit(LanguageNetwork(make("table of senses")).eval(), IDS, 3))
    assert "contributions" in caught.value.remedy


# --- words ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_the_value_of_a_word_is_the_sum_over_its_tokens(lstm: Any, method: str) -> None:
    attributions = lstm.attributions("The cats saw the", "cat", method=method)
    assert attributions.words[1:] == ("The", " cats", " saw", " the")
    stop = 0
    for word, value in zip(attributions.words, attributions.values, strict=True):
        start, stop = stop, stop + 1
        while "".join(attributions.tokens[start:stop]).strip() != word.strip():
            stop += 1
        assert value == pytest.approx(attributions.token_values[start:stop].sum())
    assert stop == len(attributions.tokens) > len(attributions.words)
    whole = attributions.score - attributions.baseline
    assert attributions.values.sum() == pytest.approx(whole + attributions.gap)
    assert (attributions.method, attributions.target, attributions.versus) == (method, " cat", None)
    assert attributions.check().startswith(f"{method}: sum")


def test_a_large_completeness_gap_is_noted(lstm: Any) -> None:
    complete = lstm.attributions("The cat sat on the")
    assert complete.method == "integrated"
    assert complete.is_complete
    assert f"{complete.steps} steps" in complete.check()
    assert complete.notes == ()
    coarse = lstm.attributions("The cat sat on the", "mat", steps=1)
    assert coarse.steps == 1
    assert any("completeness gap is large" in note for note in coarse.notes)


# --- comparison of methods ------------------------------------------------------------------------------


@pytest.mark.parametrize("instead", ["mean", "words"])
def test_methods_are_compared_with_the_exact_contributions_of_a_backpack(bpe_backpack: Any, instead: Any) -> None:
    text = "The cat saw the dog, and the dogs"
    compared = bpe_backpack.compare_attributions(text, "saw", "sat", instead=instead)
    exact = bpe_backpack.contributions(text, "saw", "sat")
    assert compared.words == exact.words
    np.testing.assert_allclose(compared.exact, exact.centred.sum(axis=1), atol=1e-6 * np.abs(exact.values).sum())
    assert compared.exact.sum() + compared.bias == pytest.approx(compared.score, abs=1e-5)
    assert compared.score == pytest.approx(exact.logit, abs=1e-5)
    from_mean = bpe_backpack.attributions(text, "saw", "sat", "gradient")
    assert (compared.baseline == pytest.approx(from_mean.baseline)) == (instead == "mean")
    assert [each.method for each in compared.methods] == list(METHODS)
    for each in compared.methods:
        assert compared.correlations[each.method] == spearman(each.values, compared.exact)
        alone = bpe_backpack.attributions(text, "saw", "sat", each.method, instead=instead)
        np.testing.assert_array_equal(alone.values, each.values)


def test_a_comparison_is_a_table_lines_of_text_and_a_document(bpe_backpack: Any) -> None:
    compared = bpe_backpack.compare_attributions("The cat saw", "the", "sat")
    assert compared.columns == ["word", *METHODS, "exact"]
    rows = compared.rows()
    assert [row[0] for row in rows][1:3] == ["The", "␣cat"]
    assert [float(row[-1]) for row in rows] == pytest.approx(compared.exact, abs=1e-4)
    checks = "\n".join(compared.checks())
    for part in ("␣the minus that of ␣sat", "occlusion: sum", "gap", "rank correlation", "exact: sum"):
        assert part in checks
    document = compared.document()
    assert set(document["methods"]) == set(METHODS)
    assert document["methods"]["occlusion"]["rank_correlation"] == compared.correlations["occlusion"]
    assert document["exact"] == compared.exact.tolist()
    assert "<table>" in compared._repr_html_()


@pytest.mark.parametrize("versus", [None, "sat"])
def test_attributions_and_contributions_explain_the_same_logit(bpe_backpack: Any, versus: str | None) -> None:
    text, target = "The cat saw the cat", "the"
    contributions = bpe_backpack.contributions(text, target, versus)
    compared = bpe_backpack.compare_attributions(text, target, versus)
    np.testing.assert_allclose(compared.exact, contributions.centred.sum(axis=1))
    assert compared.bias == pytest.approx(contributions.bias)
    assert compared.score == pytest.approx(contributions.logit, abs=1e-4)
    document, explained = compared.document(), contributions.document()
    assert document["positions"] == explained["positions"] == list(range(6))
    assert document["logit"] == pytest.approx(explained["logit"], abs=1e-4)
    assert explained["bias"] == pytest.approx(sum(explained["bias_parts"].values()))
    # In the table, the sum of the words and the rest minus the gap are the logit, for every method.
    sums = {name: np.array(values, float) for name, *values in compared.sums()}
    words, rest, gap, score = sums.values()
    assert list(sums) == ["(sum of words)", "(baseline; exact: bias)", "(completeness gap)", "(logit)"]
    np.testing.assert_allclose(words + rest - gap, score, atol=3e-4)
    assert gap[-1] == pytest.approx(0, abs=1e-4)
    raw = compare_methods(find_logit(bpe_backpack, text, target, versus), ("gradient",), raw=True)
    assert raw.exact is not None
    np.testing.assert_allclose(raw.exact, contributions.values.sum(axis=1))
    assert raw.bias == contributions.constant == 0


def test_without_senses_there_are_no_exact_values(lstm: Any) -> None:
    compared = compare_methods(find_logit(lstm, "The <b>", "cat"), ("gradient",))
    assert compared.exact is None
    assert compared.correlations == {}
    assert compared.columns == ["word", "gradient"]
    assert len(compared.checks()) == 2
    assert "&lt;" in compared._repr_html_()
    assert "<b>" not in compared._repr_html_()
