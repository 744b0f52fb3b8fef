"""Generated data: examples depend on the seed only, and no example is in two splits."""

import random

from satchel.datasets.generated import SPLITS, draw_examples, split_of


def draw(rng: random.Random) -> str:
    return f"{rng.randrange(500)} plus {rng.randrange(500)}"


def test_the_same_arguments_give_the_same_examples() -> None:
    for split in SPLITS:
        first = list(draw_examples(draw, 200, 1, split))
        random.seed(5)
        assert list(draw_examples(draw, 200, 1, split)) == first
        assert list(draw_examples(draw, 200, 2, split)) != first


def test_a_larger_data_set_begins_with_the_smaller_one() -> None:
    assert list(draw_examples(draw, 400, 1))[:200] == list(draw_examples(draw, 200, 1))


def test_splits_have_their_sizes_and_share_no_example() -> None:
    examples = {split: list(draw_examples(draw, 3000, 0, split)) for split in SPLITS}
    assert [len(examples[split]) for split in SPLITS] == [3000, 300, 300]
    for one in SPLITS:
        assert {split_of(example) for example in examples[one]} == {one}
        for other in SPLITS:
            assert one == other or set(examples[one]).isdisjoint(examples[other])
    assert len(list(draw_examples(draw, 1, 0, "test"))) == 1


def test_about_eighty_percent_of_the_keys_belong_to_the_train_split() -> None:
    counts = [sum(split_of(str(number)) == split for number in range(10_000)) for split in SPLITS]
    assert 7800 < counts[0] < 8200
    assert 850 < counts[1] < 1150
    assert 850 < counts[2] < 1150
