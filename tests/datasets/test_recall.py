"""`@recall`: a name, filler, and the same name."""

from satchel.datasets.corpora import open_corpus
from satchel.text.reading import DataSettings


def test_each_line_begins_and_ends_with_the_same_name_at_distances_of_5_to_200_words() -> None:
    lines = [piece.text.split() for piece in open_corpus("@recall", DataSettings(size=400)).pieces("line")]
    assert len(lines) == 400
    distances = [len(words) - 1 for words in lines]
    assert all(words[0] == words[-1] and words[0] not in words[1:-1] for words in lines)
    assert all(words[-4:-1] == ["someone", "said", "Hi"] for words in lines)
    assert 5 <= min(distances) < 8
    assert 150 < max(distances) <= 200
