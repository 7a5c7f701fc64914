"""PyTorch's training steps of several processes, beside which ours are measured."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import vkbackend.framework as fw

if TYPE_CHECKING:
    from .parallel import Model


class TorchRanks:
    """PyTorch's group of the ranks that a group has: by NCCL, or by Gloo without CUDA.

    Parameters
    ----------
    group : Group
        All ranks make it.

    Attributes
    ----------
    name, backend : str
        PyTorch and its version; "nccl" or "gloo".
    """

    def __init__(self, group: fw.distributed.Group) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._group = group
        cuda = self._torch.cuda.is_available()
        self.name = f"PyTorch {self._torch.__version__.split('+')[0]}"
        self.backend = "nccl" if cuda else "gloo"
        # Ranks have the cards in order, as ours have.
        self._device = self._torch.device("cuda", group.rank) if cuda else "cpu"
        if not self._torch.distributed.is_initialized():
            made = tempfile.mkdtemp() if group.rank == 0 else ""
            folder = group.broadcast_object(made)
            self._torch.distributed.init_process_group(
                self.backend,
                init_method=f"file://{os.path.join(folder, 'ranks')}",
                rank=group.rank,
                world_size=group.size,
            )

    def step(self, model: Model, shared: bool = True) -> Callable[[], Any]:
        """Return a training step with AdamW, eager.

        Parameters
        ----------
        model : Model
        shared : bool, default True
            Whether ranks average gradients.
        """
        torch = self._torch
        dtype = getattr(torch, model.dtype)
        torch.manual_seed(0)
        made = model.build(torch).to(self._device, dtype)
        if shared:
            ids = None if self.backend == "gloo" else [self._device]
            made = torch.nn.parallel.DistributedDataParallel(made, device_ids=ids)
        optimizer = torch.optim.AdamW(
            made.parameters(), 1e-3, fused=self.backend == "nccl"
        )
        arrays = model.data(self._group.rank)
        x, y = (torch.from_numpy(each).to(self._device) for each in arrays)
        x = x.to(dtype) if x.is_floating_point() else x

        def step() -> Any:
            optimizer.zero_grad()
            found = made(x).float()
            loss = torch.nn.functional.cross_entropy(
                found.reshape(-1, found.shape[-1]), y.reshape(-1)
            )
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step
