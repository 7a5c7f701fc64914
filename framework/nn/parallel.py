"""Modules over several devices, which are not here, and over the one process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..base.process_group import ProcessGroup, group_for, refuse_several
from ..base.public_names import public_names as _public_names
from .gradient_bucket import GradBucket, hooked
from .module import Module

__all__ = ["DataParallel", "DistributedDataParallel"]


class DataParallel(Module):
    """Module on several devices, which is not here.

    Parameters
    ----------
    module : Module
        Runs as it is, on one device.
    device_ids, output_device : object
        As in PyTorch.
    dim : int, default 0
        The dimension that a batch would be split along.

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
    """Module whose gradients are averaged over processes, of which there is one.

    Parameters
    ----------
    module : Module
        Called as it is; its names in a state begin with `module.`.
    device_ids, output_device, dim, process_group, find_unused_parameters, ... : object
        Without effect in one process.

    Raises
    ------
    NotImplementedError
        If the group has several processes.
    ValueError
        If no process group is initialised, which `distributed.init_process_group` does.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: int | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[int] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        self.process_group = group_for("DistributedDataParallel", process_group)
        refuse_several("DistributedDataParallel", self.process_group)
        self.module = module
        self.device_ids = device_ids
        self.output_device = output_device
        self.dim = dim
        self._has_comm_hook = False

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return what the module returns."""
        return self.module(*inputs, **kwargs)

    def no_sync(self) -> AbstractContextManager[None]:
        """Return a block in which gradients are not averaged, as elsewhere."""
        return nullcontext()

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> AbstractContextManager[None]:
        """Return a block in which no other process is to be waited for."""
        return nullcontext()

    def register_comm_hook(
        self, state: Any, hook: Callable[[Any, GradBucket], Any]
    ) -> None:
        """Let a hook make the gradients of the parameters, once in each backward pass.

        Parameters
        ----------
        state : object
            The hook's first argument.
        hook : callable
            Takes it and a `GradBucket`, of one parameter here; returns the future of
            its gradients, of as many elements.

        Raises
        ------
        RuntimeError
            If there is a hook already.
        """
        if not callable(hook):
            raise TypeError(
                f"register_comm_hook: hook is a {type(hook).__name__}; it must be a"
                " function"
            )
        if self._has_comm_hook:
            raise RuntimeError("register_comm_hook: there is a hook already; one only")
        self._has_comm_hook = True
        wanted = [each for each in self.parameters() if each.requires_grad]
        for index, each in enumerate(wanted):
            is_last = index == len(wanted) - 1
            each.register_hook(hooked(hook, state, index, is_last, each))


# A package for Python, as PyTorch's has `nn.parallel.distributed` below it.
__path__: list[str] = []


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
