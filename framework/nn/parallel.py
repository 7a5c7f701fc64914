"""PyTorch's address of modules that several processes train."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..base.process_group import ProcessGroup, group_for
from ..base.public_names import public_names as _public_names
from ..tensor.tensor import Tensor
from .data_parallel import DataParallel
from .gradient_bucket import GradBucket
from .module import Module

if TYPE_CHECKING:
    from ..communication.group import Group

__all__ = ["DataParallel", "DistributedDataParallel"]


class DistributedDataParallel(DataParallel):
    """Module whose gradients are means over processes; see `DataParallel`.

    Parameters
    ----------
    module : Module
        Its names in a state begin with `module.`.
    process_group : ProcessGroup, optional
        By default the one that `distributed.init_process_group` made.
    bucket_cap_mb : int, optional
        MiB of gradients that are exchanged at once, by default as `nn.DataParallel`.
    broadcast_buffers, forward_sync_buffers : bool, optional
        Whether, in training, each call begins with the buffers of rank 0; it does if
        neither is given. One name for the other.
    init_sync : bool, default True
        Whether ranks compare what they have, and take the values of rank 0.
    device_ids, output_device, dim, find_unused_parameters, ... : object
        Without effect: a process has one device, and unused parameters are found.

    Raises
    ------
    DistributedError
        If another process's module has other parameters or buffers.
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
        asked = {broadcast_buffers, forward_sync_buffers}
        found = group_for("DistributedDataParallel", process_group)
        super().__init__(
            module,
            _engine_of(found),
            bucket_bytes=None if bucket_cap_mb is None else bucket_cap_mb << 20,
            broadcast_buffers=False not in asked,
            init_sync=init_sync,
        )
        self.process_group = found
        self.device_ids = device_ids
        self.output_device = output_device
        self.dim = dim

    def register_comm_hook(
        self, state: Any, hook: Callable[[Any, GradBucket], Any]
    ) -> None:
        """Let a hook make the gradients of the parameters, once in each backward pass.

        Parameters
        ----------
        state : object
            The hook's first argument.
        hook : callable
            Takes it and a `GradBucket`; returns the future of its gradients, of as many
            elements: of several processes, their means.

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
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook: there is a hook already; one only")
        self.reducer.hook = _made_by(hook, state)
        self.reducer.attach()


def _engine_of(group: ProcessGroup) -> Group:
    from ..communication.group import alone

    return alone() if group.engine is None else group.engine


def _made_by(
    hook: Callable[[Any, GradBucket], Any], state: Any
) -> Callable[[GradBucket], Tensor]:
    """Return a function that calls a hook, and checks what it makes."""

    def call(bucket: GradBucket) -> Tensor:
        like = bucket.buffer()
        found = hook(state, bucket).wait()
        if isinstance(found, list | tuple):
            found = found[0]
        if not isinstance(found, Tensor) or found.numel() != like.numel():
            raise RuntimeError(
                f"register_comm_hook: the hook returns {found!r}; it must return the"
                f" future of a tensor of {like.numel()} elements"
            )
        return found.detach().to(like.dtype).reshape(-1)

    return call


# A package for Python, as PyTorch's has `nn.parallel.distributed` below it.
__path__: list[str] = []


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
