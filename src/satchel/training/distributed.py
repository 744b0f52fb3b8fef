"""Data-parallel training: every process computes the gradients of a shard of each batch, rank 0 writes.

`torchrun --nproc-per-node 2 -m satchel train ...` starts the processes. Batches do not depend on their number.
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
    """The processes of a training. With a single process, all operations return their arguments."""

    def all_reduce(self, *values: float) -> list[float]:
        """Return the sum of each value over all processes."""
        if self.size == 1:
            return list(values)
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        sums = torch.tensor(values, dtype=torch.float64, device=device)
        dist.all_reduce(sums)
        return sums.tolist()

    def broadcast(self, value: T) -> T:
        """Return the value of rank 0."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]

    def barrier(self) -> None:
        """Wait until all processes have reached this call."""
        self.broadcast(None)

    def data_parallel(self, module: nn.Module) -> nn.Module:
        """Return a module whose gradients are averaged over all processes in the backward pass."""
        if self.size == 1:
            return module
        return DistributedDataParallel(module, gradient_as_bucket_view=True)


def no_sync(module: nn.Module) -> AbstractContextManager[None]:
    """Return a context in which gradients are accumulated without being averaged over the processes."""
    if isinstance(module, DistributedDataParallel):
        context: AbstractContextManager[None] = module.no_sync()
        return context
    return contextlib.nullcontext()


SINGLE_PROCESS = Team()


@contextlib.contextmanager
def process_group() -> Iterator[Team]:
    """Join the processes started by torchrun, and leave them at the end; without torchrun, a single process."""
    process = launch()
    if process.size == 1:
        yield SINGLE_PROCESS
        return
    has_gpu = torch.cuda.device_count() > process.local_rank
    if has_gpu:
        torch.cuda.set_device(process.local_rank)
    # The store survives restarts; the prefix hides the addresses that the previous processes stored.
    store, rank, size = next(rendezvous("env://"))
    store = dist.PrefixStore(f"start-{process.restarts}", store)  # type: ignore[attr-defined]
    dist.init_process_group("nccl" if has_gpu else "gloo", store=store, rank=rank, world_size=size)
    try:
        yield Team(**asdict(process))
    finally:
        dist.destroy_process_group()
