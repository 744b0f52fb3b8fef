"""Default settings: derived from the amount of data, the time budget and the task, with reasons."""

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from satchel import api
from satchel.cli.main import run as run_command
from satchel.nn.precision import has_bfloat16, instruction_sets
from satchel.training import defaults
from satchel.training.defaults import SHAPES, Budget, time_budget


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Return the path of a text of 2,000 lines."""
    path = tmp_path / "text.txt"
    path.write_text("It was a dark and stormy night; the rain fell in torrents.\n" * 2000)
    return path


def plan(text: Path, **options: Any) -> Any:
    """Return the settings for one minute of training."""
    return api.plan(text, minutes=1, **options).settings


def test_more_time_or_more_tokens_never_give_a_smaller_network() -> None:
    for kind, vocabulary in product(("transformer", "lstm", "rnn", "dan"), (100, 8000)):
        minutes = (0.1, 1, 5, 20, 100, 1000)
        by_time = [time_budget(each, 1.4e11).size(kind, vocabulary).parameters for each in minutes]
        assert by_time == sorted(by_time)
        assert by_time[0] < by_time[-1]
        by_tokens = [Budget(tokens=count).size(kind, vocabulary).parameters for count in (1e4, 1e6, 1e8, 1e10)]
        assert by_tokens == sorted(by_tokens)


def test_bfloat16_gives_the_size_of_twice_the_time_on_a_processor_with_avx512_bf16(text: Path) -> None:
    if not has_bfloat16(instruction_sets("cpu")):
        pytest.skip("the processor has no bfloat16 instructions")

    def width(minutes: float, precision: str) -> int:
        size: int = api.plan(text, minutes=minutes, settings={"training.precision": precision}).settings.model.width
        return size

    in_float32 = [width(minutes, "float32") for minutes in (2, 4, 8, 16, 32, 64)]
    assert [width(minutes, "auto") for minutes in (1, 2, 4, 8, 16, 32)] == in_float32
    assert [width(minutes, "auto") for minutes in (2, 4, 8, 16, 32, 64)] != in_float32


def test_doubling_the_threads_has_the_same_effect_as_doubling_the_time(text: Path) -> None:
    one, two = (
        api.plan(text, minutes=minutes, threads=threads).settings.model for minutes, threads in ((8, 1), (4, 2))
    )
    assert one == two
    assert one != api.plan(text, minutes=8, threads=64).settings.model


def test_each_shape_has_1_5_to_5_times_the_parameters_of_the_previous_one() -> None:
    parameters = [shape.parameters(1000) for shape in SHAPES]
    assert all(1.5 < b / a < 5 for a, b in pairwise(parameters))


def test_the_same_data_and_time_give_the_same_settings_with_reasons(text: Path) -> None:
    first, second = (api.plan(text, minutes=2) for _ in range(2))
    assert first == second
    for key in ("tokenizer.size", "model.width", "model.layers", "model.heads", "model.ngram", "training.batch_tokens"):
        assert key in first.chosen
        assert any(reason.startswith(f"{key}=") for reason in first.reasons)


def test_dropout_and_noise_increase_with_the_number_of_epochs(text: Path) -> None:
    plans: list[Any] = [api.plan(text, tokenizer="char", epochs=epochs).settings for epochs in (1, 4, 15, 100)]
    one, four, fifteen, hundred = plans
    assert (one.model.dropout, one.training.noise) == (0, 0)
    assert fifteen.model.dropout > four.model.dropout > 0 == fifteen.training.noise
    assert min(hundred.model.dropout, hundred.training.noise) > 0


def test_an_ngram_model_is_added_only_if_no_kind_of_model_is_given(text: Path) -> None:
    assert plan(text).model.ngram == 5
    assert plan(text, tokenizer="char").model.ngram == 7
    assert plan(text, model="transformer").model.ngram == 0


def test_given_settings_are_not_changed(text: Path) -> None:
    given = {
        "model.width": 32,
        "model.ngram": 3,
        "training.noise": 0.3,
        "training.batch_tokens": 77,
        "tokenizer.size": 300,
    }
    settings: Any = api.plan(text, minutes=1, settings=given).settings
    assert (settings.model.width, settings.model.layers) == (32, 4), "the depth is not derived from a given width"
    assert (settings.model.ngram, settings.training.noise, settings.training.batch_tokens) == (3, 0.3, 77)
    assert settings.tokenizer.size == 300
    sized: Any = api.plan(text, minutes=1, size="tiny").settings
    assert (sized.model.width, sized.model.layers) == (256, 5)
    recipe: Any = api.plan(text, recipe="shakespeare-char")
    assert not {key for key in recipe.chosen if key.startswith(("model.", "tokenizer."))}


def test_generated_data_gets_no_ngram_model_noise_or_dropout() -> None:
    settings: Any = api.plan("@ab", minutes=1).settings
    assert (settings.model.ngram, settings.training.noise, settings.model.dropout) == (0, 0, 0)


def test_a_text_above_the_size_limit_gets_no_ngram_model(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults, "MOST_COUNTED", 1000)
    assert plan(text).model.ngram == 0


def test_a_dry_run_prints_settings_and_reasons(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["train", str(text), "--minutes", "2", "--dry-run"]) == 0
    output = capsys.readouterr()
    assert "model.ngram=5: interpolation with an n-gram model lowers the loss" in output.err
    assert "model.ngram = 5" in output.out


# --- classifiers


def write_table(path: Path, text: str, rows: int = 300) -> Path:
    """Write a table with two labels and return its path."""
    path.write_text("label\ttext\n" + "".join(f"{'good' if n % 2 else 'bad'}\t{text} {n}\n" for n in range(rows)))
    return path


def test_the_default_classifier_is_a_dan_with_bigrams_and_four_epochs(tmp_path: Path) -> None:
    settings: Any = api.plan(write_table(tmp_path / "films.tsv", "a film about nothing much"), minutes=2).settings
    assert (settings.model.kind, settings.tokenizer.kind, settings.tokenizer.split) == ("dan", "word", "punctuation")
    assert settings.model.bigrams >= 1 << 15
    assert (settings.training.minutes, settings.training.epochs) == (2, 4), (
        "training ends with the first of the two limits"
    )
    assert 64 * 4 <= settings.training.batch_tokens <= 64 * 8


def test_texts_without_spaces_get_a_bpe_tokenizer(tmp_path: Path) -> None:
    settings: Any = api.plan(write_table(tmp_path / "films.tsv", "这部电影没有什么意思" * 4)).settings
    assert settings.tokenizer.kind == "bpe"


def test_a_classifier_with_given_model_settings_gets_no_bigrams_or_epochs(tmp_path: Path) -> None:
    films = write_table(tmp_path / "films.tsv", "a film about nothing much")
    settings: Any = api.plan(films, settings={"model.width": 50}).settings
    assert (settings.model.width, settings.model.bigrams, settings.training.epochs) == (50, 0, None)
    with_steps: Any = api.plan(films, steps=10).settings
    assert (with_steps.training.steps, with_steps.training.epochs) == (10, None)
    bpe: Any = api.plan(films, tokenizer="bpe:300").settings
    assert (bpe.tokenizer.kind, bpe.tokenizer.split) == ("bpe", "space")


def test_a_translator_of_few_pairs_is_small_for_any_time_budget() -> None:
    def width(tokens: float, minutes: float) -> int:
        return defaults.pair_shape(time_budget(minutes, 1.4e11), 2000, tokens).width

    assert width(20, 1000) == defaults.PAIR_SHAPES[0].width
    for minutes in (5, 20):
        widths = [width(tokens, minutes) for tokens in (20, 2_000, 20_000, 100_000)]
        assert widths == sorted(widths)
    # With many pairs, the time limits the size.
    assert width(100_000, 5) < width(100_000, 20)
    assert width(1_000_000, 5) <= width(100_000, 5)
