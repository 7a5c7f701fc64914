"""Modules that several ranks train, each with a part of the batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from .. import ops
from ..autograd.grad_mode import is_grad_enabled, no_grad
from ..base.errors import DistributedError
from ..tensor.from_data import tensor as tensor_of
from ..tensor.tensor import Tensor
from .gradient_bucket import buckets_of, pieces
from .gradient_reducer import BUCKETS, Reducer, bucket_sizes
from .join import Joining, joined
from .module import Module

if TYPE_CHECKING:
    from ..communication.group import Group

__all__ = ["DataParallel"]


class DataParallel(Module):
    """Module whose gradients are means over the ranks of a group.

    Each rank has a copy of the module and calls it with its part of a batch. All begin
    with the parameters and buffers of rank 0. A backward pass replaces gradients by
    their means over the ranks, summed in rank order, so that all ranks have the same
    bits; a loss that is a mean over the part then gives the step of the whole batch,
    where parts are of one size (see `weighted_loss` for others). Buckets of gradients
    are exchanged while the rest of the pass is computed, also within `fw.jit`.

    Parameters
    ----------
    module : Module
        The same on all ranks but for its values; its names in a state begin with
        `module.`.
    group : Group, optional
        By default that of all processes, which `fw.distributed.init` returns. Alone
        the module is called as it is.
    bucket_bytes : int, optional
        Gradients that are exchanged at once, at most; the last buckets are smaller. By
        default 10 MiB where the transport is `cuda`, 25 MiB elsewhere.
    broadcast_buffers : bool, default True
        Whether, in training, each call begins with the buffers of rank 0, as running
        statistics are; not those on the host beside others on a device, which count.
    init_sync : bool, default True
        Whether ranks compare names, shapes and dtypes, and take the values of rank 0.

    Attributes
    ----------
    module : Module
    group : Group
    require_backward_grad_sync : bool
        Whether backward passes exchange gradients; see `no_sync`.

    Raises
    ------
    DistributedError
        If another rank's module has other parameters or buffers.
    TypeError
        If `group` is no group.

    Notes
    -----
    All ranks must go backward equally often. A parameter that a rank did not use counts
    as 0 there; one that no rank used has no gradient (within `fw.jit` either raises
    `GradError`). Sparse gradients raise `NotImplementedError`.

    Examples
    --------
    >>> group = fw.distributed.init()
    >>> model = nn.DataParallel(nn.Linear(2, 1), group)
    >>> model(fw.ones(3, 2)).mean().backward()
    >>> model.module.bias.grad
    tensor([1.])
    """

    def __init__(
        self,
        module: Module,
        group: Group | None = None,
        *,
        bucket_bytes: int | None = None,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
    ) -> None:
        super().__init__()
        if bucket_bytes is not None and bucket_bytes < 1:
            raise ValueError(
                f"DataParallel: bucket_bytes is {bucket_bytes}; it must be at least 1"
            )
        self.module = module
        self.group = checked_group(type(self).__name__, group)
        self.broadcast_buffers = broadcast_buffers
        self.require_backward_grad_sync = True
        named = list(module.named_parameters())
        if self.group.size > 1 and init_sync:
            tensors = [*named, *module.named_buffers()]
            check_alike(type(self).__name__, self.group, tensors)
            take_values(self.group, [each for _, each in tensors])
        most = bucket_sizes(self.group).most
        self.bucket_bytes = most if bucket_bytes is None else bucket_bytes
        self.joining: Joining | None = None
        self.reducer = self._made_reducer()

    def _made_reducer(self) -> Reducer:
        named = self.module.named_parameters()
        wanted = [(name, each) for name, each in named if each.requires_grad]
        return Reducer(self.group, wanted, self.bucket_bytes)

    def __deepcopy__(self, memo: dict[int, Any]) -> DataParallel:
        """Return a copy whose gradients are exchanged by the same group."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        state = {k: x for k, x in vars(self).items() if k not in ("reducer", "joining")}
        made.__dict__.update(deepcopy(state, memo))
        made.__dict__["joining"] = None
        made.__dict__["reducer"] = made._made_reducer()
        return made

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return what the module returns."""
        if self._joins():
            assert self.joining is not None
            self.joining.step(True)
        if self._shares_buffers():
            take_values(self.group, shared_buffers(self.module))
        return self.module(*inputs, **kwargs)

    def _joins(self) -> bool:
        syncs = self.require_backward_grad_sync and is_grad_enabled()
        return self.joining is not None and syncs

    @contextmanager
    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[None]:
        """Return a block in which ranks may have different numbers of batches.

        Each step is announced before its forward pass. Ranks that have left the block
        take part in the exchanges of the others, with gradients of 0, until none has a
        batch; then all have the parameters of the last one. Not within `fw.jit`.

        Parameters
        ----------
        divide_by_initial_world_size : bool, default True
            Whether gradients are divided by the number of all ranks; else by that of
            the ranks that have a batch.
        enable : bool, default True
            Whether the block does anything.
        throw_on_early_termination : bool, default False
            Whether all ranks raise `RuntimeError` as soon as one has no further batch.
        """
        if self.group.size == 1 or not enable:
            yield
            return
        with joined(self, divide_by_initial_world_size, throw_on_early_termination):
            yield

    def follow_step(self) -> None:
        """Take part in a step of ranks that have a batch, without one."""
        if self._shares_buffers():
            take_values(self.group, shared_buffers(self.module))
        self.reducer.follow()

    def take_all(self, source: int) -> None:
        """Take the parameters and buffers of a rank."""
        tensors = [*self.module.parameters(), *self.module.buffers()]
        take_values(self.group, tensors, source)

    def _shares_buffers(self) -> bool:
        several = self.group.size > 1
        syncs = self.require_backward_grad_sync and self.broadcast_buffers
        return several and syncs and self.training

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Return a block whose backward passes accumulate gradients of this rank.

        The next pass outside of it exchanges their sums, in place of one exchange for
        each.
        """
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = self.reducer.enabled = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = self.reducer.enabled = before

    def weighted_loss(self, loss: Tensor, count: int) -> Tensor:
        """Return a loss whose gradients give the mean over the samples of all ranks.

        Of ranks with parts of different sizes, as of the last batch of an epoch, the
        mean of their means is another one than that of the whole batch.

        Parameters
        ----------
        loss : Tensor
            Mean over the samples of this rank.
        count : int
            Number of these. A rank that has none calls the module with any batch, and
            gives 0.

        Returns
        -------
        Tensor
            `loss` times `count` and the number of ranks, divided by the sum of all
            counts; the mean of it over the ranks is the loss of the whole batch.
        """
        if count < 0:
            raise ValueError(
                f"{type(self).__name__}: count is {count}; it must be at least 0"
            )
        if self.group.size == 1:
            return loss
        own = tensor_of([float(count)], device=loss.device)
        share = own * self.group.size / self.group.all_sum(own)
        return loss * share.reshape(()).to(loss.dtype)


def shared_buffers(module: Module) -> list[Tensor]:
    """Return buffers without those on the host beside others, which count calls."""
    buffers = list(module.buffers())
    on_device = [each for each in buffers if each.is_gpu]
    return on_device or buffers


def checked_group(where: str, group: Group | None) -> Group:
    """Return a group, by default that of all processes.

    Raises
    ------
    TypeError
        If something else is given, as PyTorch's lists of devices.
    """
    from ..communication import group as groups
    from ..communication import setup

    if group is None:
        return setup.init()
    if not isinstance(group, groups.Group):
        raise TypeError(
            f"{where}: group is a {type(group).__name__}; it must be a group of"
            " processes, one a device, as fw.distributed.init() returns"
        )
    return group


def check_alike(
    where: str, group: Group, tensors: Sequence[tuple[str, Tensor]]
) -> None:
    """Raise if ranks have tensors of other names, shapes or dtypes than rank 0.

    Parameters
    ----------
    where : str
        The class, for messages.
    group : Group
    tensors : sequence of (str, Tensor)
    """
    own = [f"{name}: {each.dtype.name} {tuple(each.shape)}" for name, each in tensors]
    every = group.gather_objects(own)
    for rank, found in enumerate(every):
        for first, other in zip([*every[0], "nothing"], [*found, "nothing"]):
            if first != other:
                raise DistributedError(
                    f"{where}: rank {rank} has {other} where rank 0 has {first}; all"
                    " ranks must make the same module"
                )


def take_values(group: Group, tensors: Sequence[Tensor], source: int = 0) -> None:
    """Write those of a rank to tensors of the other ranks."""
    with no_grad():
        for bucket in buckets_of(tensors, BUCKETS.most):
            own = [tensors[place] for place in bucket]
            flat = ops.cat([each.detach().reshape(-1) for each in own])
            found = group.broadcast(flat, source)
            if group.rank != source:
                for each, piece in zip(own, pieces(found, own)):
                    each.copy_(piece)
