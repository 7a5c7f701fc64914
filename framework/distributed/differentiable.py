"""Communication within the group of one process, with gradients."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.process_group import ProcessGroup, group_for
from ..tensor.tensor import Tensor
from .collectives import _one
from .process_group import ReduceOp, own_rank

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]

Group = ProcessGroup | None


def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Group = None
) -> Tensor:
    """Return a copy of a tensor, which is the reduction over one process."""
    group_for("all_reduce", group)
    return tensor.clone()


def reduce(
    tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Group = None
) -> Tensor:
    """Return a copy of a tensor, which is the reduction over one process."""
    own_rank("reduce", dst)
    return all_reduce(tensor, op, group)


def broadcast(tensor: Tensor, src: int, group: Group = None) -> Tensor:
    """Return a copy of a tensor, which is this process's own."""
    own_rank("broadcast", src)
    return all_reduce(tensor, group=group)


def all_gather(tensor: Tensor, group: Group = None) -> tuple[Tensor, ...]:
    """Return the copy of a tensor as a tuple of one."""
    return (all_reduce(tensor, group=group),)


def gather(tensor: Tensor, dst: int = 0, group: Group = None) -> tuple[Tensor, ...]:
    """Return the copy of a tensor as a tuple of one."""
    own_rank("gather", dst)
    return (all_reduce(tensor, group=group),)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Group = None) -> Tensor:
    """Return a copy of the only tensor of a list."""
    own_rank("scatter", src)
    return all_reduce(_one("scatter", tensors)[0], group=group)


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
) -> Tensor:
    """Return a copy of the only tensor of a list."""
    return all_reduce(_one("reduce_scatter", input_list)[0], op, group)


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Group = None,
) -> tuple[Tensor, ...]:
    """Return the copy of the only tensor of a list as a tuple."""
    return (all_reduce(_one("all_to_all", input_tensor_list)[0], group=group),)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
) -> Tensor:
    """Return a copy of a tensor."""
    return all_reduce(input, group=group)
