"""Default settings by amount of data, budget and task, with reasons."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from satchel import api
from satchel.cli.main import run as run_command
from satchel.training import defaults
from satchel.training.defaults import SHAPES, Budget, time_budget


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("It was a dark and stormy night; the rain fell in torrents.\n" * 2000)
    return path


def planned(text: Path, **options: Any) -> Any:
    return api.plan(text, minutes=1, **options).settings


def test_more_time_never_means_a_smaller_network() -> None:
    for vocabulary in (100, 8000):
        places = [SHAPES.index(time_budget(minutes).shape(vocabulary)) for minutes in (0.1, 1, 5, 20, 100, 1000)]
        assert places == sorted(places)
        assert places[0] < places[-1]
        read = [SHAPES.index(Budget(tokens=count).shape(vocabulary)) for count in (1e4, 1e6, 1e8, 1e10)]
        assert read == sorted(read)


def test_twice_the_threads_give_the_settings_of_twice_the_time(text: Path) -> None:
    one, two = (
        api.plan(text, minutes=minutes, threads=threads).settings.model for minutes, threads in ((8, 1), (4, 2))
    )
    assert one == two
    assert one != api.plan(text, minutes=8, threads=64).settings.model


def test_each_shape_has_more_parameters_than_the_previous_one() -> None:
    work = [shape.parameters(1000) for shape in SHAPES]
    assert all(1.5 < b / a < 5 for a, b in pairwise(work))


def test_the_same_data_and_budget_give_the_same_settings_with_reasons(text: Path) -> None:
    first, again = (api.plan(text, minutes=2) for _ in range(2))
    assert first == again
    for key in ("tokenizer.size", "model.width", "model.layers", "model.heads", "model.ngram", "training.batch_tokens"):
        assert key in first.chosen
        assert any(reason.startswith(f"{key}=") for reason in first.reasons)


def test_many_epochs_add_dropout_and_noise(text: Path) -> None:
    plans: list[Any] = [api.plan(text, tokenizer="char", epochs=epochs).settings for epochs in (1, 4, 15, 100)]
    once, twice, often, ever = plans
    assert (once.model.dropout, once.training.noise) == (0, 0)
    assert often.model.dropout > twice.model.dropout > 0 == often.training.noise
    assert min(ever.model.dropout, ever.training.noise) > 0


def test_only_the_default_kind_is_interpolated_with_an_ngram_model(text: Path) -> None:
    assert planned(text).model.ngram == 5
    assert planned(text, tokenizer="char").model.ngram == 7
    assert planned(text, model="transformer").model.ngram == 0


def test_given_settings_are_not_changed(text: Path) -> None:
    given = {
        "model.width": 32,
        "model.ngram": 3,
        "training.noise": 0.3,
        "training.batch_tokens": 77,
        "tokenizer.size": 300,
    }
    settings: Any = api.plan(text, minutes=1, settings=given).settings
    assert (settings.model.width, settings.model.layers) == (32, 4), "nobody guesses the depth of a given width"
    assert (settings.model.ngram, settings.training.noise, settings.training.batch_tokens) == (3, 0.3, 77)
    assert settings.tokenizer.size == 300
    sized: Any = api.plan(text, minutes=1, size="tiny").settings
    assert (sized.model.width, sized.model.layers) == (256, 5)
    recipe: Any = api.plan(text, recipe="shakespeare-char")
    assert not {key for key in recipe.chosen if key.startswith(("model.", "tokenizer."))}


def test_networks_for_generated_data_use_no_ngram_model() -> None:
    settings: Any = api.plan("@ab", minutes=1).settings
    assert (settings.model.ngram, settings.training.noise, settings.model.dropout) == (0, 0, 0)


def test_no_ngram_model_is_counted_for_a_very_long_text(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults, "MOST_COUNTED", 1000)
    assert planned(text).model.ngram == 0


def test_a_dry_run_prints_the_chosen_settings_and_the_reasons(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["train", str(text), "--minutes", "2", "--dry-run"]) == 0
    told = capsys.readouterr()
    assert "model.ngram=5: interpolation with an n-gram model lowers the loss" in told.err
    assert "model.ngram = 5" in told.out


# --- classifiers


def table(path: Path, text: str, rows: int = 300) -> Path:
    path.write_text("label\ttext\n" + "".join(f"{'good' if n % 2 else 'bad'}\t{text} {n}\n" for n in range(rows)))
    return path


def test_a_classifier_uses_words_and_bigrams_and_few_epochs(tmp_path: Path) -> None:
    settings: Any = api.plan(table(tmp_path / "films.tsv", "a film about nothing much"), minutes=2).settings
    assert (settings.model.kind, settings.tokenizer.kind, settings.tokenizer.split) == ("dan", "word", "punctuation")
    assert settings.model.bigrams >= 1 << 15
    assert (settings.training.minutes, settings.training.epochs) == (2, 4), "whichever comes first"
    assert 64 * 4 <= settings.training.batch_tokens <= 64 * 8


def test_texts_without_spaces_do_not_get_a_word_tokenizer(tmp_path: Path) -> None:
    settings: Any = api.plan(table(tmp_path / "films.tsv", "这部电影没有什么意思" * 4)).settings
    assert settings.tokenizer.kind == "bpe"


def test_a_given_model_setting_disables_the_defaults_of_a_classifier(tmp_path: Path) -> None:
    films = table(tmp_path / "films.tsv", "a film about nothing much")
    settings: Any = api.plan(films, settings={"model.width": 50}).settings
    assert (settings.model.width, settings.model.bigrams, settings.training.epochs) == (50, 0, None)
    stepped: Any = api.plan(films, steps=10).settings
    assert (stepped.training.steps, stepped.training.epochs) == (10, None)
    pieces: Any = api.plan(films, tokenizer="bpe:300").settings
    assert (pieces.tokenizer.kind, pieces.tokenizer.split) == ("bpe", "space")


def test_a_translator_of_few_pairs_is_small_for_any_budget() -> None:
    def width(tokens: float, minutes: float) -> int:
        return defaults.pair_shape(time_budget(minutes, threads=2), 2000, tokens).width

    assert width(20, 1000) == defaults.PAIR_SHAPES[0].width
    for minutes in (5, 20):
        widths = [width(tokens, minutes) for tokens in (20, 2_000, 20_000, 100_000)]
        assert widths == sorted(widths)
    # With more pairs, an epoch takes longer, and the budget limits the size.
    assert width(100_000, 5) < width(100_000, 20)
    assert width(1_000_000, 5) <= width(100_000, 5)
