"""Trains small networks from three data sources, alone or as one of two processes: ddp_train.py FOLDER RANK."""

import gc
import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from lbnn import nn as bnn
from lbnn.train.fit import fit
from lbnn.train.processes import Processes, joined
from lbnn.train.together import import_before_joining


def data(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(rows, 1, generator=generator, dtype=torch.float64)
    return x, torch.sin(3 * x) + 0.1 * torch.randn(rows, 1, generator=generator, dtype=torch.float64)


def draw(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.rand(7, 1, generator=generator, dtype=torch.float64)
    return x, x + 0.1 * torch.randn(7, 1, generator=generator, dtype=torch.float64)


def loader() -> DataLoader:
    """Sharded by its own sampler: every process sees half of each batch of 8."""
    dataset = TensorDataset(*data(32, 1))
    if not dist.is_initialized():
        return DataLoader(dataset, 8)
    return DataLoader(dataset, 4, sampler=DistributedSampler(dataset, shuffle=False))


# 33 rows in batches of 8 leave a last batch of one row: the second process trains on none.
SOURCES: dict[str, Any] = {
    "pair": lambda: (data(33, 1), {"batch_size": 8}),
    "sampler": lambda: (draw, {"steps_per_epoch": 4}),
    "loader": lambda: (loader(), {}),
}


WAYS = ("wrapped", "joined", "joined, layer by layer", "joined, with a sampled prior")
"""By DistributedDataParallel, or by lbnn itself: as two vectors, or layer by layer where a Gaussian is not trained."""


def train(source: str, way: str) -> dict[str, Any]:
    """The history and the final weights."""
    many = dist.is_initialized()
    torch.manual_seed(dist.get_rank() if many else 0)  # all begin with the weights of the first nevertheless
    model = bnn.Sequential(bnn.Linear(1, 4), bnn.LeakyReLU(0.1), bnn.Linear(4, 1)).double()
    model[2].bias_mu.requires_grad_("layer by layer" not in way)
    wrapped = DistributedDataParallel(model) if many and way == "wrapped" else model
    batches, options = SOURCES[source]()
    prior = "spike_slab" if "prior" in way else "gaussian"
    processes = Processes(dist.get_rank(), 2, dist.group.WORLD) if many and way != "wrapped" else Processes()
    with joined(processes):
        result = fit(
            wrapped, batches, epochs=6, validation=data(50, 2), patience=3, progress=False, prior=prior, **options
        )
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    validation = [value for _, value in result.validation]
    weight = [e.kl_weight for e in result.epochs]
    return {"loss": result.loss, "validation": validation, "kl_weight": weight, "weights": flat.tolist()}


def thread_names() -> list[str]:
    return [task.joinpath("comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]


if __name__ == "__main__":
    folder, rank = Path(sys.argv[1]), int(sys.argv[2])
    import_before_joining()
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    histories = {f"{source}, {way}": train(source, way) for source in SOURCES for way in WAYS}
    (folder / f"rank{rank}.json").write_text(json.dumps(histories))
    gc.collect()  # wrapped models are cycles
    dist.destroy_process_group()
    left = [name for name in thread_names() if "gloo" in name]
    assert not left, f"threads that outlive the group and may abort the interpreter's end: {left}"
