"""Training on one device or many: this process among those that train together, and their seeds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from lbnn.base.errors import LbnnError


@dataclass(frozen=True)
class Processes:
    """This process among those that train together; alone unless the model is in DistributedDataParallel."""

    rank: int = 0
    world: int = 1
    group: dist.ProcessGroup | None = None

    def part(self, rows: Tensor) -> Tensor:
        """Every world-th row, from this process' own."""
        return rows[self.rank :: self.world]

    def mean(self, values: list[float], device: torch.device) -> list[float]:
        """The mean of each value over the processes."""
        if self.group is None:
            return values
        sums = torch.tensor(values, dtype=torch.float64, device=device)
        dist.all_reduce(sums, group=self.group)
        return [float(v) / self.world for v in sums]


def processes_of(model: nn.Module) -> Processes:
    """Those that share the model's gradients."""
    inner = getattr(model, "_orig_mod", model)
    if not isinstance(inner, DistributedDataParallel):
        return Processes()
    group = inner.process_group
    return Processes(dist.get_rank(group), dist.get_world_size(group), group)


def device_of(model: nn.Module) -> torch.device:
    """Where the model's parameters are."""
    for parameter in itertools.chain(model.parameters(), model.buffers()):
        return parameter.device
    raise LbnnError("the model has no parameters to train")


@dataclass(frozen=True)
class Generators:
    """The sources of random numbers of a training, seeded alike in every process."""

    data: torch.Generator  # on the CPU, so that the order of the data does not depend on the device
    kl: torch.Generator


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[Generators]:
    """Seeded generators, and a seeded global state for DataLoaders and dropout that is put back at the end."""
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.manual_seed(seed)
        yield Generators(
            data=torch.Generator().manual_seed(seed),
            kl=torch.Generator(device=device).manual_seed(seed + 1),
        )
