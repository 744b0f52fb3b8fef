"""Held-out pairs share no sentence with the training pairs."""

import numpy as np

from satchel.data.splits import held_out_pairs
from satchel.text.tables import TextPair


def pairs(*rows: tuple[str, str]) -> list[TextPair]:
    return [TextPair(source, target, line) for line, (source, target) in enumerate(rows, start=1)]


def test_no_source_or_target_is_in_both_parts_of_the_split() -> None:
    rng = np.random.default_rng(0)
    rows = pairs(*((f"s{rng.integers(400)}", f"t{rng.integers(600)}") for _ in range(500)))
    mask = held_out_pairs(rows, 0.1, 3)
    assert 30 <= mask.sum() <= 50
    for side in ("source", "target"):
        held_out = {getattr(row, side) for row, is_held_out in zip(rows, mask, strict=True) if is_held_out}
        train = {getattr(row, side) for row, is_held_out in zip(rows, mask, strict=True) if not is_held_out}
        assert not held_out & train
    assert (held_out_pairs(rows, 0.1, 3) == mask).all()
    assert (held_out_pairs(rows, 0.1, 4) != mask).any()


def test_training_pairs_always_remain() -> None:
    assert held_out_pairs(pairs(("a", "b")), 0.5, 0).sum() == 0
    assert held_out_pairs(pairs(("a", "b"), ("c", "d")), 0.1, 0).sum() == 1


def test_a_group_of_pairs_with_a_common_source_is_not_split() -> None:
    assert held_out_pairs(pairs(*(("a", f"b{row}") for row in range(50))), 0.2, 0).sum() == 0
