"""Random numbers for the choice of tokens. Shapes: V vocabulary."""

import numpy as np
import numpy.typing as npt


class Noise:
    """Random numbers of a continuation: for each position, an exponential variable per token.

    The token with the largest ratio of probability and variable is a draw from the distribution. Draws from similar
    distributions with the same noise are often equal, which speculative decoding uses.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._arrays: list[npt.NDArray[np.float32]] = []  # of the next positions

    def peek(self, offset: int, size: int) -> npt.NDArray[np.float32]:
        """Return the variables (V) of a later position."""
        while len(self._arrays) <= offset:
            noise_V = self._rng.standard_exponential(size, dtype=np.float32)
            noise_V += np.finfo(np.float32).tiny  # a ratio with 0 would not be a number
            self._arrays.append(noise_V)
        return self._arrays[offset]

    def next(self, size: int) -> npt.NDArray[np.float32]:
        """Return the variables (V) of the next position, and move to the position after it."""
        noise_V = self.peek(0, size)
        del self._arrays[0]
        return noise_V
