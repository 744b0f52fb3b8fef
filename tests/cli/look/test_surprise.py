"""`satchel look surprise`: surprisal of tokens."""

from pathlib import Path

import numpy as np

import satchel
from tests.cli.conftest import (
    TEXT,
    Cli,
)


def test_surprisal_is_printed_below_each_token(cli: Cli, runs: dict[str, Path]) -> None:
    for name in ("ngram", "transformer"):
        code, printed, messages = cli("look", "surprise", runs[name], TEXT)
        assert (code, "over 3 tokens" in messages) == (0, True)
        bits = -satchel.load(runs[name], task="lm").score(TEXT).logprobs / np.log(2)
        assert printed.split("\n")[1].split() == [f"{value:.1f}" for value in bits]
