"""Collectives with gradients, as PyTorch's `distributed.nn.functional` has them."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ops
from ..base.process_group import ProcessGroup
from ..tensor.tensor import Tensor
from .collectives import _list, _rows, engine_for
from .process_group import ReduceOp, rank_in, steps_of

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
    """Return the reduction of a tensor over all ranks.

    Parameters
    ----------
    tensor : Tensor
    op : ReduceOp
        Sums and means have gradients.
    group : ProcessGroup, optional
    """
    engine = engine_for("all_reduce", group)
    return engine.all_reduce(tensor, steps_of(op)) if engine.size > 1 else _own(tensor)


def _own(tensor: Tensor) -> Tensor:
    return tensor.clone()


def reduce(
    tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Group = None
) -> Tensor:
    """Return the reduction over all ranks, which counts on one of them."""
    rank_in("reduce", engine_for("reduce", group), dst)
    return all_reduce(tensor, op, group)


def broadcast(tensor: Tensor, src: int, group: Group = None) -> Tensor:
    """Return the tensor of one rank."""
    engine = engine_for("broadcast", group)
    source = rank_in("broadcast", engine, src)
    return engine.broadcast(tensor, source) if engine.size > 1 else _own(tensor)


def all_gather(tensor: Tensor, group: Group = None) -> tuple[Tensor, ...]:
    """Return the tensors of all ranks."""
    engine = engine_for("all_gather", group)
    if engine.size == 1:
        return (_own(tensor),)
    return tuple(engine.all_gather(tensor.unsqueeze(0)).unbind(0))


def gather(tensor: Tensor, dst: int = 0, group: Group = None) -> tuple[Tensor, ...]:
    """Return the tensors of all ranks, which count on one of them."""
    rank_in("gather", engine_for("gather", group), dst)
    return all_gather(tensor, group)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Group = None) -> Tensor:
    """Return this rank's tensor of one rank's list; all give a list of its shapes."""
    engine = engine_for("scatter", group)
    source = rank_in("scatter", engine, src)
    parts = _list("scatter", engine, tensors)
    if engine.size == 1:
        return _own(parts[0])
    return engine.broadcast(ops.stack(list(parts)), source)[engine.rank]


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
) -> Tensor:
    """Return the reduction of the tensors that all ranks have for this one."""
    engine = engine_for("reduce_scatter", group)
    parts = _list("reduce_scatter", engine, input_list)
    if engine.size == 1:
        return _own(parts[0])
    return engine.reduce_scatter(ops.stack(list(parts)), op=steps_of(op))[0]


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Group = None,
) -> tuple[Tensor, ...]:
    """Return the tensors, of one shape, that all ranks have for this one."""
    engine = engine_for("all_to_all", group)
    parts = _list("all_to_all", engine, input_tensor_list)
    if engine.size == 1:
        return (_own(parts[0]),)
    return tuple(engine.all_to_all(ops.stack(list(parts))).unbind(0))


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
) -> Tensor:
    """Return the rows that all ranks have for this one, as many from each.

    Raises
    ------
    NotImplementedError
        If split sizes differ among several ranks.
    """
    engine = engine_for("all_to_all_single", group)
    if engine.size == 1:
        return _own(input)
    for tensor, sizes in ((input, input_split_sizes), (output, output_split_sizes)):
        found = {
            len(each) for each in _rows("all_to_all_single", engine, tensor, sizes)
        }
        if len(found) > 1:
            raise NotImplementedError(
                f"all_to_all_single: split sizes are {list(sizes or ())}; with"
                " gradients all must be the same"
            )
    return engine.all_to_all(input)
