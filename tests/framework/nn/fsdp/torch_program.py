"""The steps of a rank of PyTorch's, over gloo: torch_program.py KIND RANK SIZE FOLDER.

The folder has what all begin with; rank 0 adds the losses, and the weights at the end.
"""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from tests.framework.nn.parallel_program import ROWS, batch


class TinyGPT(nn.Module):
    """That of `parallel_program`."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.places = nn.Embedding(5, 8)
        self.block = nn.TransformerEncoderLayer(
            8, 4, 16, dropout=0.0, batch_first=True, norm_first=True
        )
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        embedded = self.tokens(x) + self.places.weight
        hidden = self.norm(self.block(embedded, mask, is_causal=True))
        return hidden @ self.tokens.weight.T


def whole_state(kind: str, model: Any) -> dict[str, np.ndarray]:
    if kind == "ddp":
        return {key: x.numpy() for key, x in model.module.state_dict().items()}
    return {key: x.full_tensor().numpy() for key, x in model.state_dict().items()}


def main() -> None:
    kind, rank, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    folder = Path(sys.argv[4])
    torch.set_num_threads(1)
    place = f"file://{folder / 'meeting'}"
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=size)
    model: Any = TinyGPT()
    start = np.load(folder / "start.npz")
    model.load_state_dict({key: torch.from_numpy(start[key]) for key in start})
    if kind == "ddp":
        model = DistributedDataParallel(model)
    else:
        mesh = dist.device_mesh.init_device_mesh("cpu", (size,))
        fully_shard(model.block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(int(sys.argv[5])):
        x, y = batch("gpt", step, ROWS * size)
        part = slice(ROWS * rank, ROWS * (rank + 1))
        optimizer.zero_grad()
        out = model(torch.from_numpy(x[part])).flatten(0, 1)
        wanted = torch.from_numpy(y[part]).flatten()
        loss = nn.functional.cross_entropy(out, wanted)
        loss.backward()
        optimizer.step()
        mean = loss.detach() / size
        dist.all_reduce(mean)
        losses.append(mean.item())
    state = whole_state(kind, model)
    if rank == 0:
        np.savez(folder / "end.npz", losses=losses, **state)
    dist.destroy_process_group()
    # Without PyTorch's destructors: they hold the interpreter's lock, and wait for a
    # thread of gloo's that waits for it.
    os._exit(0)


if __name__ == "__main__":
    main()
