"""Modules of whose parameters ranks of a group have parts, and compute with these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from .. import ops
from ..autograd.function import Function
from ..autograd.grad_mode import no_grad
from ..base.errors import ShapeError
from ..tensor.tensor import Tensor
from .data_parallel import take_values
from .divided import TensorShard, mark_divided
from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from ..communication.group import Group

Sections = int | Sequence[int]
"""Projections side by side in one: how many of one size, or the sizes."""


class Shared(Function):
    """A tensor that all ranks have alike, before each uses it in its own way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        """Return it, before what ranks do with it."""
        ctx.group = group
        return x.view(x.shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        """Return the gradient of what is given."""
        return ctx.group.all_sum(grad), None


class Summed(Function):
    """The sum over ranks, which all use alike."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        """Return it."""
        return group.all_sum(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        """Return the gradient of what is given."""
        return grad, None


class Gathered(Function):
    """The parts of all ranks in a dimension, which all use alike."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group, dim: int) -> Tensor:
        """Return it."""
        ctx.group, ctx.dim = group, dim
        return group.all_gather(x, dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        """Return the gradient of what is given."""
        return own_part(grad, ctx.group, ctx.dim), None, None


class Divided(Function):
    """The part of this rank in the last dimension, of a tensor that all have alike."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        """Return it."""
        ctx.group = group
        return own_part(x, group, -1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        """Return the gradient of what is given."""
        return ctx.group.all_gather(grad, -1), None


def own_part(x: Tensor, group: Group, dim: int) -> Tensor:
    """Return the part of this rank in a dimension that ranks divide."""
    size = x.shape[dim] // group.size
    return ops.narrow(x, dim, group.rank * size, size)


def check_divisible(where: str, name: str, size: int, group: Group) -> None:
    """Raise `ShapeError` if ranks do not divide a size."""
    if size % group.size:
        raise ShapeError(
            f"{where}: {name} is {size}; it must be a multiple of {group.size}, the"
            " number of ranks"
        )


def section_sizes(
    where: str, size: int, sections: Sections, group: Group
) -> tuple[int, ...]:
    """Return the sizes of projections side by side, each of which ranks divide.

    Parameters
    ----------
    where : str
        What asks, for messages.
    size : int
        Of all together.
    sections : int or sequence of int
        How many of one size, or their sizes.
    group : Group

    Raises
    ------
    ShapeError
        If they are not of that size together, or ranks do not divide one.
    """
    if isinstance(sections, int):
        found = (size // sections,) * sections if sections > 0 else ()
    else:
        found = tuple(sections)
    if sum(found) != size or min(found, default=0) < 1:
        raise ShapeError(
            f"{where}: sections is {sections} for {size} features; it must be a number"
            " that divides these, or sizes whose sum they are"
        )
    for each in found:
        name = "out_features" if len(found) == 1 else "a section"
        check_divisible(where, name, each, group)
    return found


def shard_of(
    shape: tuple[int, ...], dim: int, sizes: Sequence[int], group: Group
) -> TensorShard:
    """Return the part of a rank: its piece of each of the sections of a dimension."""
    if group.size == 1:
        return TensorShard(shape, dim, ((0, shape[dim]),))
    starts = [0, *accumulate(sizes)]
    ranges = [
        (
            low + group.rank * size // group.size,
            low + (group.rank + 1) * size // group.size,
        )
        for low, size in zip(starts, sizes)
    ]
    return TensorShard(shape, dim, tuple(ranges))


class ParallelModule(Module):
    """Module of whose parameters this rank has parts.

    Attributes
    ----------
    group : Group
    """

    group: Group
    _shards: dict[str, TensorShard]

    def divide(self, group: Group, shards: Mapping[str, TensorShard]) -> None:
        """Take the values of rank 0, and keep parts of the parameters named.

        Parameters
        ----------
        group : Group
            All ranks of it call this.
        shards : mapping of str to TensorShard
        """
        self.group, self._shards = group, dict(shards)
        if group.size > 1:
            take_values(group, list(self.parameters()))
        for name, shard in shards.items():
            owner, key = self._owner(name)
            whole = getattr(owner, key)
            with no_grad():
                part = shard.of(whole.detach()).clone()
            setattr(owner, key, Parameter(part, whole.requires_grad))
        self.mark()

    def _owner(self, name: str) -> tuple[Module, str]:
        path, _, key = name.rpartition(".")
        return self.get_submodule(path), key

    def mark(self) -> None:
        """Say which parameters are parts; each call does, as others may be assigned."""
        for name, shard in self._shards.items():
            owner, key = self._owner(name)
            mark_divided(getattr(owner, key), self.group, shard)

    def whole_parameters(self) -> dict[str, Tensor]:
        """Return the whole of what is divided, by name; all ranks call it."""
        found = {}
        for name, shard in self._shards.items():
            owner, key = self._owner(name)
            found[name] = self._whole(getattr(owner, key).detach(), shard)
        return found

    def _whole(self, own: Tensor, shard: TensorShard) -> Tensor:
        assert shard.dim is not None
        pieces = ops.split(own, shard.sizes, shard.dim)
        every = [self.group.all_gather(each, shard.dim) for each in pieces]
        return every[0] if len(every) == 1 else ops.cat(every, shard.dim)


def whole_state_dict(module: Module) -> dict[str, Tensor]:
    """Return the state of a module as if nothing were divided; all ranks call it.

    Parameters
    ----------
    module : Module
        With layers that `tensor_parallel` has divided, or such as
        `ColumnParallelLinear`.

    Returns
    -------
    dict of str to Tensor
        As `state_dict` of the module before `tensor_parallel`, the same on all ranks.
    """
    found = dict(module.state_dict())
    for name, part in module.named_modules():
        if isinstance(part, ParallelModule):
            prefix = f"{name}." if name else ""
            for key, value in part.whole_parameters().items():
                found[prefix + key] = value
    return found
