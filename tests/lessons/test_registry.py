"""All lessons: their steps and answers for default and extreme settings, and the errors for invalid settings."""

import math
import re
import shlex
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from satchel.api import plan
from satchel.config import parse_assignments
from satchel.errors import SettingsError
from satchel.lessons import LESSONS
from satchel.lessons import positions as positions_lesson
from satchel.lessons.arithmetic import format_cell
from satchel.lessons.items import ITEMS
from satchel.lessons.steps import format_setting, load_texts, text_lines

# Settings at the limits of their ranges, or with other branches than the defaults.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("api", {"words": "a b", "kind": "rnn"}),
    ("attention", {"sequence": "B", "base": 2.5}),
    ("block", {"words": "a b", "width": 2, "hidden": 1, "heads": 1}),
    ("classifier", {"text": "never dull", "positions": False, "padding": 0}),
    ("counting", {"text": "a b", "order": 5}),
    ("dan", {"context": "a b"}),
    ("encoder-decoder", {"query": "previous", "reduction": "mean"}),
    ("encoder-decoder", {"current": (3, -1), "reduction": "max"}),
    ("heads", {"width": 6, "heads": 2}),
    ("masking", {"words": "a b", "seed": 3}),
    ("perplexity", {"probabilities": [0.5, 1]}),
    ("positions", {"words": "a b", "width": 2, "length": 2}),
    ("rnn", {"sequence": [3, -3], "only": 3}),
    ("scaling", {"width": 1, "heads": 1}),
    ("self-attention", {"sequence": "BA", "base": 3, "sharp": 1e300}),
    ("sense-selection", {"b": 1, "scale": False}),
    ("training-pairs", {"text": "a b c d", "length": 3}),
]


@pytest.mark.item(104)
@pytest.mark.parametrize(("name", "settings"), [*((name, {}) for name in LESSONS), *VARIANTS])
def test_every_lesson_has_steps_and_its_printed_answers_are_correct(name: str, settings: dict[str, Any]) -> None:
    steps = LESSONS[name].run(**settings)
    assert len(steps) > 2
    for step in steps:
        assert step.title
        assert all(text_lines(matrix) for matrix in step.matrices)
        assert bool(step.question) == bool(step.answer)
        assert not step.answer or step.is_correct(" ".join(map(format_cell, step.answer)))


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_the_steps_depend_on_the_settings_only(name: str, settings: dict[str, Any]) -> None:
    lesson = LESSONS[name]
    assert lesson.run(**settings) == lesson.run(**settings) != lesson.run()


@pytest.mark.parametrize("name", LESSONS)
def test_every_text_belongs_to_a_step(name: str) -> None:
    texts = load_texts(name)
    assert len(LESSONS[name].run()) == len(texts["steps"]) + ("training_result" in texts)


def test_every_lesson_covers_items_of_the_lectures() -> None:
    assert all(lesson.items and set(lesson.items) <= set(ITEMS) for lesson in LESSONS.values())


@pytest.mark.parametrize(
    ("name", "settings", "cause"),
    [
        ("api", {"words": "alone"}, "words: found 1 word, expected 2 to 12"),
        ("api", {"words": "a " * 13}, "words: found 13 words"),
        ("api", {"kind": "perceptron"}, "kind: found 'perceptron', expected one of dan, window"),
        ("api", {"seed": -1}, "seed: found -1, expected 0 to 4294967295"),
        ("api", {"seed": 1 << 32}, "seed: found 4294967296"),
        ("attention", {"sequence": "ABC"}, "sequence: found 'ABC', expected 1 to 12 letters A or B"),
        ("attention", {"sequence": "A" * 13}, "expected 1 to 12 letters A or B"),
        ("attention", {"base": 1.0}, "base: found 1, expected a number above 1"),
        ("block", {"words": "alone"}, "words: found 1 word"),
        ("block", {"words": "a " * 13}, "words: found 13 words"),
        ("block", {"width": 1}, "width: found 1, expected 2 to 64"),
        ("block", {"width": 65}, "width: found 65"),
        ("block", {"hidden": 0}, "hidden: found 0, expected 1 to 512"),
        ("block", {"hidden": 1000}, "hidden: found 1000"),
        ("block", {"heads": 0}, "heads: found 0, expected a divisor of the width 8"),
        ("block", {"heads": 3}, "heads: found 3"),
        ("classifier", {"text": "good"}, "text: found 1 word, expected 2 to 12"),
        ("classifier", {"text": "a " * 13}, "text: found 13 words"),
        ("classifier", {"padding": -1}, "padding: found -1, expected 0 to 12"),
        ("classifier", {"padding": 13}, "padding: found 13"),
        ("counting", {"text": " . . "}, "text: found 0 words"),
        ("counting", {"text": "a " * 201}, "text: found 201 words, expected 1 to 200"),
        ("counting", {"order": 0}, "order: found 0, expected 1 to 5"),
        ("counting", {"order": 6}, "order: found 6"),
        ("dan", {"context": ""}, "context: found 0 words, expected 2 to 5"),
        ("dan", {"context": "one"}, "context: found 1 word"),
        ("dan", {"context": "a b c d e f"}, "context: found 6 words"),
        ("encoder-decoder", {"current": (1,)}, "current: found 1, expected 2 numbers"),
        ("encoder-decoder", {"previous": (1, 2000)}, "previous: found 1, 2000, expected 2 numbers"),
        ("heads", {"width": 0}, "width: found 0, expected 1 to 1000000"),
        ("heads", {"width": 10**7}, "width: found 10000000"),
        ("heads", {"heads": 0}, "heads: found 0"),
        ("heads", {"heads": 7}, "heads: found 7, expected a divisor of the width 256"),
        ("masking", {"words": ""}, "words: found 0 words, expected 2 to 12"),
        ("masking", {"words": "alone"}, "words: found 1 word"),
        ("masking", {"words": "a " * 13}, "words: found 13 words"),
        *(
            ("perplexity", {"probabilities": values}, "probabilities: found .*, expected 1 to 20 numbers .*infinite")
            for values in ((), (0.0,), (1.5, 0.5), (-0.1,), (math.nan,), (0.5,) * 21, (1e-13,))
        ),
        ("positions", {"words": ""}, "words: found 0 words"),
        ("positions", {"words": "alone"}, "words: found 1 word"),
        ("positions", {"words": "a " * 13}, "words: found 13 words"),
        ("positions", {"width": 0}, "width: found 0, expected an even number from 2 to 1024"),
        ("positions", {"width": 5}, "width: found 5"),
        ("positions", {"width": 2000}, "width: found 2000"),
        ("positions", {"length": 3}, "length: found 3, expected 4 to 64"),
        ("positions", {"length": 100}, "length: found 100"),
        ("rnn", {"sequence": ()}, "sequence: found 0 numbers, expected 1 to 20"),
        ("rnn", {"sequence": (1.0,) * 21}, "sequence: found 21 numbers"),
        ("rnn", {"sequence": (1, 2.5)}, "sequence: found 2.5, expected integers"),
        ("rnn", {"sequence": (1, 1e9)}, r"sequence: found 1e\+09"),
        ("rnn", {"sequence": (math.nan,)}, "sequence: found nan"),
        ("rnn", {"only": 0.5}, "only: found 0.5, expected integers"),
        ("scaling", {"width": 0}, "width: found 0, expected 1 to 1024"),
        ("scaling", {"width": 2000}, "width: found 2000"),
        ("scaling", {"heads": 0}, "heads: found 0"),
        ("scaling", {"width": 8, "heads": 3}, "heads: found 3, expected a divisor of the width 8"),
        ("self-attention", {"sequence": ""}, "sequence: found '', expected 1 to 16 letters A or B"),
        ("self-attention", {"sequence": "AAC"}, "sequence: found 'AAC'"),
        ("self-attention", {"sequence": "A" * 17}, "sequence: found"),
        ("self-attention", {"base": 1.0}, "base: found 1, expected a number above 1"),
        ("self-attention", {"base": -3.0}, "base: found -3"),
        ("self-attention", {"base": math.inf}, "base: found inf"),
        ("self-attention", {"sharp": 0.0}, "sharp: found 0, expected a number above 0"),
        *(
            ("sense-selection", {"b": b}, "b: found .*, expected a number above 0 and at most")
            for b in (0.0, -1.0, 1e7, math.inf, math.nan)
        ),
        ("training-pairs", {"text": "one"}, "text: found 1 word, expected 2 to 200"),
        ("training-pairs", {"text": "a " * 201}, "text: found 201 words"),
        ("training-pairs", {"length": 0}, "length: found 0, expected 1 to 200"),
        ("training-pairs", {"length": 10**9}, "length: found 1000000000"),
    ],
)
def test_a_setting_out_of_range_is_named_with_a_remedy(name: str, settings: dict[str, Any], cause: str) -> None:
    with pytest.raises(SettingsError, match=cause) as caught:
        LESSONS[name].function(**settings)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("name", "settings", "cause"),
    [
        ("attention", {"q": [1, 2, 3]}, "q: found"),
        ("attention", {"bse": 3}, "did you mean base?"),
        ("attention", {"sharp": "x"}, "sharp: found"),
        ("block", {"seed": "zero"}, "seed: found"),
        ("counting", {"order": "two"}, "order: found"),
        ("encoder-decoder", {"query": "next"}, "query: found"),
        ("heads", {"heads": "many"}, "heads: found"),
        ("positions", {"length": "long"}, "length: found"),
        ("rnn", {"sequence": ["a"]}, "sequence.0: found"),
        ("rnn", {"sequence": "a,b"}, "sequence: found"),
        ("scaling", {"width": 1.5}, "width: found"),
        ("self-attention", {"sharp": "ten"}, "sharp: found"),
        ("sense-selection", {"scale": "no"}, "scale: found"),
        ("training-pairs", {"length": 2.5}, "length: found"),
        ("self-attention", {"base": math.inf}, "base: found"),
    ],
)
def test_the_types_and_names_of_settings_are_checked(name: str, settings: dict[str, Any], cause: str) -> None:
    with pytest.raises(SettingsError) as caught:
        LESSONS[name].run(**settings)
    assert cause in str(caught.value)


@pytest.mark.parametrize("name", ["rnn", "scaling", "block", "positions"])
def test_results_of_trained_models_are_called_stored_and_name_the_command_that_produced_them(name: str) -> None:
    *_, step = LESSONS[name].run()
    assert step.stored
    assert (
        f"Stored results: this table is not computed when the lesson runs. It was produced by: {step.stored}"
        in step.text
    )
    script = re.match(r"python (bench/[a-z]+.py) --only ([a-z-]+)", step.stored)
    if script is None:
        assert step.stored == "satchel lesson positions --set train=true"
    else:
        assert f'"{script[2]}": (' in (Path(__file__).parents[2] / script[1]).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["rnn", "scaling", "block"])
def test_the_training_command_of_stored_results_is_valid(name: str) -> None:
    text = LESSONS[name].run()[-1].text
    options = shlex.split(text.partition("One of the trainings: ")[2].partition("\n")[0].partition(". ")[0].rstrip("."))
    assert options[:2] == ["satchel", "train"]
    settings = parse_assignments(options[at + 1] for at, option in enumerate(options) if option == "--set")
    model, steps = (options[options.index(option) + 1] for option in ("--model", "--steps"))
    plan(options[2] if options[2].startswith("@") else "@python-docs", model=model, steps=int(steps), settings=settings)


@pytest.mark.item(74)
def test_positions_are_compared_on_letter_counting_and_the_ab_language() -> None:
    table = LESSONS["positions"].run()[-1].matrices[0]
    assert table.columns == ("none", "learned", "sinusoidal")
    counting, strings, _ = table.values
    assert float(counting[0]) < 70 < 99 < float(counting[1])
    assert strings == (16, 16, 16)


@pytest.mark.item(74)
def test_the_models_of_the_positions_lesson_are_trained_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        positions_lesson, "train_models", partial(positions_lesson.train_models, counting_steps=1, ab_steps=1)
    )
    step = LESSONS["positions"].run(train="True")[-1]
    assert step.stored == ""
    assert "The models were trained on this machine when the lesson ran." in step.text
    (table,) = step.matrices
    assert all(0 <= float(accuracy) <= 100 for accuracy in table.values[0])
    assert table.values != LESSONS["positions"].run()[-1].matrices[0].values


@pytest.mark.slow
@pytest.mark.item(74)
def test_the_stored_results_of_the_positions_lesson_are_reproduced() -> None:
    trained, stored = (LESSONS["positions"].run(train=train)[-1].matrices[0].values for train in (True, False))
    for row, expected, tolerance in zip(trained, stored, (1.5, 0, 0.02), strict=True):
        assert [float(value) for value in row] == pytest.approx([float(value) for value in expected], abs=tolerance)


# --- settings of the command line -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "assignments", "settings"),
    [
        ("classifier", {"positions": "True"}, {"positions": True}),
        ("classifier", {"positions": "FALSE"}, {"positions": False}),
        ("perplexity", {"probabilities": "1/4,1/3"}, {"probabilities": (0.25, 1 / 3)}),
        ("perplexity", {"probabilities": "(1/4, 25%)"}, {"probabilities": (0.25, 0.25)}),
        ("perplexity", {"probabilities": "1/2"}, {"probabilities": (0.5,)}),
        ("attention", {"base": "e", "q": "0,ln(3)"}, {"base": math.e, "q": (0, math.log(3))}),
        ("attention", {"sharp": "sqrt(2)"}, {"sharp": 2**0.5}),
        ("heads", {"width": "2^6"}, {"width": 64}),
        ("counting", {"text": "1984, 1985. 1984", "order": "1"}, {"text": "1984, 1985. 1984", "order": 1}),
    ],
)
def test_settings_given_as_text_have_the_types_of_the_lesson(
    name: str, assignments: dict[str, object], settings: dict[str, object]
) -> None:
    assert dict(LESSONS[name].run(**assignments).settings).items() >= settings.items()


@pytest.mark.parametrize("name", LESSONS)
def test_default_settings_given_as_text_give_the_same_steps(name: str) -> None:
    defaults = LESSONS[name].run()
    assert LESSONS[name].run(**{key: format_setting(value) for key, value in defaults.settings}) == defaults


def test_punctuation_is_a_token_with_and_without_a_space_before_it() -> None:
    default = LESSONS["classifier"].run()
    assert LESSONS["classifier"].run(text="not bad, a lovely film") == default
    assert LESSONS["classifier"].run(text="not bad , a lovely film") == default


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("classifier", {"positions": "maybe"}, "positions: found 'maybe', expected true or false"),
        (
            "attention",
            {"base": "three"},
            "base: found 'three', expected a number\na number can be written as 0.25, 1/4",
        ),
        ("perplexity", {"probabilities": "1/4,1/0"}, "probabilities: found '1/0', expected a number"),
        ("heads", {"width": "1/2"}, "width: found 0.5, expected an integer"),
    ],
)
def test_a_setting_that_is_not_a_number_names_the_accepted_forms(
    name: str, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        LESSONS[name].run(**settings)
    assert message in str(caught.value)
