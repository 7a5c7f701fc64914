"""Modules over several devices or processes: there are none, so making one raises."""

from __future__ import annotations

from typing import Any

from .module import Module

__all__ = ["DataParallel", "DistributedDataParallel"]


class DataParallel(Module):
    """Module on several devices, which is not here.

    Raises
    ------
    NotImplementedError
        Always: one device computes; use the module itself.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        raise NotImplementedError(
            'DataParallel: one device computes; use the module itself, on device "gpu"'
        )

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return nothing: no such module can be made."""


class DistributedDataParallel(Module):
    """Module in several processes, which is not here.

    Raises
    ------
    NotImplementedError
        Always: one process computes; use the module itself.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        raise NotImplementedError(
            "DistributedDataParallel: one process computes on one device; use the"
            " module itself, as where distributed.is_initialized() is False"
        )


# A package for Python, as PyTorch's has `nn.parallel.distributed` below it.
__path__: list[str] = []
