"""What torchrun says of this process, read without torch. A process that it did not start is the first of one."""

import os
from dataclasses import dataclass

NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Launch:
    """Which of how many processes this one is, in all and on this machine, and how often they were started again."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    restarts: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this is the one that writes and prints."""
        return self.rank == 0


def launch() -> Launch:
    """Return how this process was started."""
    if not all(name in os.environ for name in NEEDED):
        return Launch()
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT")
    usual = ("0", "1", "0", "1", "0")
    return Launch(*(int(os.environ.get(name, default)) for name, default in zip(names, usual, strict=True)))
