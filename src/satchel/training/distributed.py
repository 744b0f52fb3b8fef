"""More than one process: each learns from its part of every batch, all of them make the same step, one of them writes.

`torchrun --nproc-per-node 2 -m satchel train ...` starts them. What a batch holds does not depend on their number.
"""

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from satchel.torchrun import Launch, launch

T = TypeVar("T")


@dataclass(frozen=True)
class Team(Launch):
    """The processes of a training, and what they do together."""

    def added(self, *numbers: float) -> list[float]:
        """Return the sums over all processes of some numbers."""
        if self.size == 1:
            return list(numbers)
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        sums = torch.tensor(numbers, dtype=torch.float64, device=device)
        dist.all_reduce(sums)
        return sums.tolist()

    def told(self, what: T) -> T:
        """Return what the first process says. Whoever is here first waits for the others."""
        if self.size == 1:
            return what
        said = [what]
        dist.broadcast_object_list(said, src=0)
        return said[0]

    def shared(self, module: nn.Module) -> nn.Module:
        """Return a module so that the gradients of all processes are averaged wherever one goes backward."""
        if self.size == 1:
            return module
        return DistributedDataParallel(module, gradient_as_bucket_view=True)


def apart(module: nn.Module) -> AbstractContextManager[None]:
    """Within this the gradients of a shared module stay where they are: there is more to add to them."""
    if isinstance(module, DistributedDataParallel):
        alone: AbstractContextManager[None] = module.no_sync()
        return alone
    return contextlib.nullcontext()


ALONE = Team()


@contextlib.contextmanager
def joined() -> Iterator[Team]:
    """Return the processes that torchrun started, and part from them at the end; most often there is one."""
    found = launch()
    if found.size == 1:
        yield ALONE
        return
    on_cards = torch.cuda.device_count() > found.local_rank
    if on_cards:
        torch.cuda.set_device(found.local_rank)
    # The store outlives processes that are started again: they must not find each other's old addresses in it.
    store, rank, size = next(rendezvous("env://"))
    store = dist.PrefixStore(f"start-{found.restarts}", store)  # type: ignore[attr-defined]
    dist.init_process_group("nccl" if on_cards else "gloo", store=store, rank=rank, world_size=size)
    try:
        yield Team(**asdict(found))
    finally:
        dist.destroy_process_group()
