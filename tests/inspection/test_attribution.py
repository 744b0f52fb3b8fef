"""What approximations say a token adds: exact where the network is linear, complete where that is promised."""

import numpy as np
import pytest
import torch
from torch import Tensor

from satchel.errors import SettingsError
from satchel.inspection import attribution
from satchel.inspection.attribution import METHODS, Instead, Method, attribute, check_contextualise
from satchel.inspection.contributions import project
from satchel.inspection.targets import Logit, logit
from satchel.models.backpack import Backpack
from satchel.models.build import build_encoder
from satchel.models.dan import DanSettings
from satchel.models.encoder import CausalEncoder
from satchel.models.settings import Pooling
from satchel.models.transformer import Transformer, TransformerSettings
from satchel.tasks.classification import ClassificationNetwork
from satchel.tasks.language import LanguageNetwork
from satchel.tasks.tagging import TaggingNetwork
from tests.models.encoders import OF_VECTORS, SETTINGS, VOCABULARY, make
from tests.training.conftest import one_thread as one_thread

IDS = np.array([10, 3, 1, 4, 1, 5, 9, 2, 6, 5])
LONG = np.resize(IDS, 40)


def encoder(name: str, *, causal: bool = True) -> CausalEncoder:
    made = make(name, causal=causal)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made


def next_asked(name: str, versus: int | None = 5) -> Logit:
    return logit(LanguageNetwork(encoder(name)).eval(), IDS, 3, versus)


def label_asked(name: str) -> Logit:
    return logit(ClassificationNetwork(encoder(name, causal=False), 3).double().eval(), IDS, 2)


def tag_asked(name: str, ids: np.ndarray = IDS, place: int = 4) -> Logit:
    network = TaggingNetwork(encoder(name, causal=False), 4).double().eval()
    return logit(network, ids, 2, 1, place)


ASKED = {"language": next_asked, "classification": label_asked, "tagging": tag_asked}


def mean_vector(made: CausalEncoder) -> Tensor:
    return made.embedding.weight.detach().mean(dim=0)


# --- what is true ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_all_methods_are_exact_where_the_score_is_linear(method: Method) -> None:
    torch.manual_seed(0)
    made = build_encoder(DanSettings(width=12, layers=0), VOCABULARY, causal=True).double()
    network = LanguageNetwork(made).eval()
    found = attribute(logit(network, IDS, 3), method)
    with torch.no_grad():
        vectors = made.embedding(torch.from_numpy(IDS)) - mean_vector(made)
        by_hand = (vectors @ network.head.weight[3] / len(IDS)).numpy()
        score = network(torch.from_numpy(IDS)[None])[0, -1, 3].item()
    np.testing.assert_allclose(found.values, by_hand, rtol=1e-10, atol=1e-15)
    assert found.score == pytest.approx(score, rel=1e-12)
    assert found.baseline == pytest.approx((mean_vector(made) @ network.head.weight[3]).item(), rel=1e-10)
    assert found.gap == pytest.approx(0, abs=1e-15)


def test_where_words_only_add_up_occlusion_and_integrated_gradients_are_what_is_exact() -> None:
    settings = SETTINGS["uniform backpack"].model_copy(update={"senses": 1})
    torch.manual_seed(0)
    made = build_encoder(settings, VOCABULARY, causal=True).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    asked = logit(LanguageNetwork(made).eval(), IDS, 3)
    # The vocabulary is so small that all of its words are drawn: they are what centred contributions are above.
    (true,) = project([asked])
    for method in ("occlusion", "integrated"):
        found = attribute(asked, method, instead="words", steps=66 if method == "integrated" else None)
        np.testing.assert_allclose(found.values, true.centred.sum(axis=1), atol=1e-6 * np.abs(true.values).sum())
        assert found.score == pytest.approx(true.logit)
        assert found.baseline == pytest.approx(true.shared.sum())
    # Above the mean vector it is another amount, but the same for all words.
    apart = attribute(asked, "occlusion").values - true.centred.sum(axis=1)
    np.testing.assert_allclose(apart, apart[0], atol=1e-6 * np.abs(true.values).sum())


@pytest.mark.parametrize("task", ASKED)
@pytest.mark.parametrize("name", OF_VECTORS)
def test_integrated_gradients_are_complete_on_every_encoder(name: str, task: str) -> None:
    asked = ASKED[task](name)
    check_contextualise(asked)
    found = attribute(asked, steps=256)
    assert abs(found.gap) <= 0.01 * abs(found.score - found.baseline)
    assert np.abs(found.values).sum() > 1e-6
    chosen = attribute(asked)
    small = max(0.01 * abs(chosen.score - chosen.baseline), 0.001 * np.abs(chosen.values).sum())
    assert abs(chosen.gap) <= small
    assert chosen.steps is not None
    assert chosen.steps <= 256


@pytest.mark.parametrize("name", ["usual", "backpack", "gru"])
def test_integrated_gradients_from_drawn_words_are_complete_too(name: str) -> None:
    found = attribute(next_asked(name), instead="words", steps=64)
    assert abs(found.gap) <= 0.01 * abs(found.score - found.baseline)
    assert attribute(next_asked(name), instead="words").is_complete


def test_as_many_steps_are_taken_as_one_says_and_more_of_them_come_nearer() -> None:
    asked = next_asked("window")
    gaps = [abs(attribute(asked, steps=steps).gap) for steps in (1, 8, 256)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert attribute(asked, steps=3).steps == 3
    whole = attribute(asked)
    assert whole.is_complete
    assert whole.steps is not None
    assert whole.steps > attribution.FIRST_STEPS
    assert not attribute(asked, steps=whole.steps // 2).is_complete


def test_gradients_are_slopes() -> None:
    asked = next_asked("rotary")
    made = asked.encoder
    found = attribute(asked, "gradient")
    with torch.no_grad():
        vectors = made.embed(asked.ids_T[None])
        for place in range(len(IDS)):
            ahead, behind = vectors.clone(), vectors.clone()
            for rows, step in ((ahead, 1e-6), (behind, -1e-6)):
                rows[0, place] += step * (vectors[0, place] - mean_vector(made))  # type: ignore[arg-type]
            slope = (attribution._values(asked, ahead) - attribution._values(asked, behind)).item() / 2e-6
            assert found.values[place] == pytest.approx(slope, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("name", ["dan", "window", "lstm", "rotary", "backpack", "lstm backpack"])
def test_occlusion_is_what_the_network_says_of_a_text_with_another_word(name: str) -> None:
    network = LanguageNetwork(encoder(name)).eval()
    found = attribute(logit(network, IDS, 3), "occlusion", instead="words")

    def score(ids: np.ndarray) -> float:
        with torch.no_grad():
            return float(network(torch.from_numpy(ids)[None])[0, -1, 3])

    for place in (0, 4, 9):
        lost = []
        for other in range(VOCABULARY):
            changed = IDS.copy()
            changed[place] = other
            lost.append(score(IDS) - score(changed))
        assert found.values[place] == pytest.approx(np.mean(lost), rel=1e-9, abs=1e-12)


# --- what cannot matter ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("instead", ["mean", "words"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_lies_outside_of_the_window_adds_exactly_nothing(
    method: Method, instead: Instead, dtype: torch.dtype
) -> None:
    network = LanguageNetwork(encoder("window").to(dtype)).eval()
    found = attribute(logit(network, IDS, 3), method, instead=instead)
    assert not found.values[:-3].any()
    assert found.values[-3:].all()


@pytest.mark.parametrize("method", METHODS)
def test_a_tag_owes_nothing_to_words_it_is_not_read_with(method: Method) -> None:
    near = attribute(tag_asked("window", place=4), method)
    assert not near.values[[0, 8, 9]].any()  # three words on each side are seen
    assert near.values[1:8].any()
    # A long text is read in windows of the context, 16.
    far = attribute(tag_asked("rotary", LONG, place=20), method)
    assert not far.values[:16].any()
    assert far.values[16:32].all()
    assert not far.values[32:].any()


# --- what is asked -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_contrast_is_the_difference_of_two_scores(method: Method) -> None:
    network = LanguageNetwork(encoder("backpack")).eval()
    steps = 8 if method == "integrated" else None
    first, second, both = (attribute(logit(network, IDS, *of), method, steps=steps) for of in ((3,), (5,), (3, 5)))
    np.testing.assert_allclose(both.values, first.values - second.values, rtol=1e-9, atol=1e-12)
    assert both.score == pytest.approx(first.score - second.score)
    assert both.baseline == pytest.approx(first.baseline - second.baseline)


@pytest.mark.parametrize("pooling", ["mean", "root"])
@pytest.mark.parametrize("ids", [IDS[:1], IDS, LONG], ids=["one", "ten", "long"])
@pytest.mark.parametrize("name", ["dan", "pairs", "window", "gru", "rotary", "backpack", "uniform backpack"])
def test_the_score_is_what_the_network_says_also_in_a_batch_with_padding(
    name: str, ids: np.ndarray, pooling: Pooling
) -> None:
    classifier = ClassificationNetwork(encoder(name, causal=False).float(), 3, pooling).eval()
    tagger = TaggingNetwork(encoder(name, causal=False).float(), 4).eval()
    batch, keep = torch.zeros(2, 45, dtype=torch.long), torch.zeros(2, 45, dtype=torch.bool)
    batch[0], keep[0] = 1, True
    batch[1, : len(ids)], keep[1, : len(ids)] = torch.from_numpy(ids), True
    with torch.no_grad():
        labels, tags = classifier(batch, keep)[1], tagger(batch, keep)[1, len(ids) - 1]
    of_label = logit(classifier, ids, 2, versus=0)
    of_tag = logit(tagger, ids, 3, position=len(ids) - 1)
    for asked, score in ((of_label, labels[2] - labels[0]), (of_tag, tags[3])):
        check_contextualise(asked)
        found = attribute(asked, "gradient")
        assert found.score == pytest.approx(score.item(), rel=1e-4, abs=1e-5)
        assert len(found.values) == len(ids)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["dan", "gru", "rotary", "backpack"])
def test_how_many_rows_are_read_at_once_changes_nothing(
    name: str, method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = next_asked(name)
    whole = attribute(asked, method, instead="words")
    monkeypatch.setattr(attribution, "BATCH_TOKENS", 30)
    assert attribution._batch_rows(torch.empty(10, 1)) == 3
    parts = attribute(asked, method, instead="words")
    np.testing.assert_allclose(parts.values, whole.values, rtol=1e-9, atol=1e-13)


def test_asking_leaves_nothing_behind_and_works_for_those_who_learn_nothing() -> None:
    network = LanguageNetwork(encoder("backpack")).train()
    asked = logit(network, IDS, 3)
    with torch.inference_mode():
        within = attribute(asked).values
    assert network.encoder.training
    assert all(parameter.grad is None for parameter in network.parameters())
    np.testing.assert_allclose(within, attribute(asked).values, rtol=1e-12)


def test_dropout_is_off_while_one_asks() -> None:
    torch.manual_seed(0)
    settings = TransformerSettings(width=12, layers=1, heads=3, context=16, dropout=0.5)
    network = LanguageNetwork(build_encoder(settings, VOCABULARY, causal=True)).train()
    asked = logit(network, IDS, 3)
    np.testing.assert_array_equal(attribute(asked, "occlusion").values, attribute(asked, "occlusion").values)


# --- what cannot be asked ------------------------------------------------------------------------------------------


class Backwards(Transformer):
    """An encoder that does with words what it does not do with vectors."""

    def encode(self, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        return super().encode(ids_BT.flip(1), keep_BT)


class Wordy(Transformer):
    """An encoder that makes nothing of vectors."""

    def encode(self, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        return self.embedding(ids_BT)  # type: ignore[no-any-return]

    def contextualise(self, x_BTD: Tensor, keep_BT: Tensor | None = None, memory: object = None) -> Tensor:
        raise NotImplementedError("it reads words")


@pytest.mark.parametrize(("kind", "said"), [(Backwards, "encodes embeddings differently"), (Wordy, "it reads words")])
def test_an_encoder_that_is_not_what_it_makes_of_vectors_is_told(kind: type[Transformer], said: str) -> None:
    torch.manual_seed(0)
    settings = SETTINGS["rotary"]
    assert isinstance(settings, TransformerSettings)
    asked = logit(LanguageNetwork(kind(settings, VOCABULARY, causal=True)).eval(), IDS, 3)
    with pytest.raises(SettingsError, match=said):
        check_contextualise(asked)


def test_senses_of_a_table_have_no_vectors_to_ask() -> None:
    made = make("table of senses")
    assert isinstance(made, Backpack)
    with pytest.raises(SettingsError, match="table") as caught:
        check_contextualise(logit(LanguageNetwork(made).eval(), IDS, 3))
    assert "contributions" in caught.value.remedy
