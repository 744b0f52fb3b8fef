"""Environment variables set by torchrun, read without importing torch."""

import os
from dataclasses import dataclass

NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Launch:
    """Rank and world size of this process, globally and on this machine, and the number of restarts."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    restarts: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, the only process that writes and prints."""
        return self.rank == 0


def launch() -> Launch:
    """Return the torchrun environment; rank 0 of 1 for a process that torchrun did not start."""
    if not all(name in os.environ for name in NEEDED):
        return Launch()
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT")
    defaults = ("0", "1", "0", "1", "0")
    return Launch(*(int(os.environ.get(name, default)) for name, default in zip(names, defaults, strict=True)))
