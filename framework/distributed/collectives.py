"""Collectives as PyTorch calls them: into tensors that are given, in place."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from ..autograd.grad_mode import no_grad
from ..base.errors import ShapeError
from ..base.process_group import ProcessGroup, group_for
from ..base.shape import Layout
from ..communication.group import Group as Engine
from ..communication.group import alone
from ..communication.reductions import Reduction
from ..tensor.tensor import Tensor
from .process_group import P2POp, ReduceOp, Work, other_rank, rank_in, steps_of

__all__ = [
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "irecv",
    "isend",
    "monitored_barrier",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
    "send",
]

Group = ProcessGroup | None
_ALONE = alone()


def engine_for(where: str, group: Group = None) -> Engine:
    """Return what communicates for a group, or for the default one."""
    found: Engine | None = group_for(where, group).engine
    return _ALONE if found is None else found


def _done(async_op: bool) -> Work | None:
    return Work() if async_op else None


def _list(where: str, engine: Engine, values: Sequence[Any] | None) -> Sequence[Any]:
    if values is None or len(values) != engine.size:
        count = "none" if values is None else len(values)
        raise ValueError(
            f"{where}: the list has {count} elements; it must have {engine.size}, one"
            " for each rank"
        )
    return values


def _check(where: str, target: Tensor, shape: Sequence[int], numel: int) -> None:
    if target.numel() != numel:
        raise ShapeError(
            f"{where}: the output has shape {tuple(target.shape)}, the input"
            f" {tuple(shape)}; they must have as many elements"
        )


def _copy(target: Tensor, source: Tensor) -> None:
    with no_grad():
        target.copy_(source.detach().reshape(target.shape))


def _fill(where: str, target: Tensor, data: np.ndarray) -> None:
    """Write elements, as they are in memory, to a tensor of their dtype."""
    _check(where, target, data.shape, data.size)
    layout = Layout.contiguous(tuple(target.shape))
    _copy(target, Tensor.from_stored(data, layout, target.device, target.dtype))


def _elements(tensors: Sequence[Tensor]) -> list[np.ndarray]:
    return [each.stored().reshape(-1) for each in tensors]


def _move(
    where: str,
    engine: Engine,
    like: Tensor,
    given: Sequence[np.ndarray],
    targets: Sequence[Tensor | None],
) -> None:
    """Give each rank an array, and write those of all ranks to tensors."""
    found = engine.exchange_arrays(where, like.dtype.name, given)
    for target, data in zip(targets, found):
        if target is not None:
            _fill(where, target, data.view(target.dtype.storage))


def all_reduce(
    tensor: Tensor,
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Replace a tensor by the reduction over all ranks.

    Parameters
    ----------
    tensor : Tensor
        Of one shape and dtype on all ranks.
    op : ReduceOp
    group : ProcessGroup, optional
    async_op : bool, default False
        Whether to return a `Work`, which is done.
    """
    engine = engine_for("all_reduce", group)
    if engine.size > 1:
        _copy(tensor, engine.all_reduce(tensor.detach(), steps_of(op)))
    return _done(async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Replace the tensor of one rank by the reduction over all; see `all_reduce`."""
    engine = engine_for("reduce", group)
    target = rank_in("reduce", engine, dst, group_dst)
    if engine.size > 1:
        found = engine.all_reduce(tensor.detach(), steps_of(op))
        if engine.rank == target:
            _copy(tensor, found)
    return _done(async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Replace a tensor by that of one rank, of the same shape and dtype."""
    engine = engine_for("broadcast", group)
    source = rank_in("broadcast", engine, src, group_src)
    if engine.size > 1:
        found = engine.broadcast(tensor.detach(), source)
        if engine.rank != source:
            _copy(tensor, found)
    return _done(async_op)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Replace the objects of a list by those of one rank, which travel pickled."""
    engine = engine_for("broadcast_object_list", group)
    source = rank_in("broadcast_object_list", engine, src, group_src)
    if engine.size > 1:
        found = engine.broadcast_object(object_list, source)
        if engine.rank != source:
            object_list[:] = found


def all_gather(
    tensor_list: Sequence[Tensor],
    tensor: Tensor,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Copy the tensors of all ranks to those of a list, in rank order."""
    engine = engine_for("all_gather", group)
    targets = _list("all_gather", engine, tensor_list)
    given = _elements([tensor]) * engine.size
    _check("all_gather", targets[engine.rank], tensor.shape, tensor.numel())
    _move("all_gather", engine, tensor, given, targets)
    return _done(async_op)


def all_gather_into_tensor(
    output_tensor: Tensor,
    input_tensor: Tensor,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Copy the tensors of all ranks, joined or stacked, to a tensor."""
    where = "all_gather_into_tensor"
    engine = engine_for(where, group)
    numel = engine.size * input_tensor.numel()
    _check(where, output_tensor, input_tensor.shape, numel)
    _copy(output_tensor, engine.all_gather(input_tensor.detach().reshape(-1)))
    return _done(async_op)


def all_gather_object(object_list: list[Any], obj: Any, group: Group = None) -> None:
    """Put an object of each rank into a list; they travel pickled."""
    engine = engine_for("all_gather_object", group)
    _list("all_gather_object", engine, object_list)
    object_list[:] = engine.gather_objects(obj)


def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Copy the tensors of all ranks to those of a list on one rank."""
    engine = engine_for("gather", group)
    target = rank_in("gather", engine, dst, group_dst, 0)
    targets: Sequence[Tensor | None] = [None] * engine.size
    if engine.rank == target:
        targets = _list("gather", engine, gather_list)
        _check("gather", targets[target], tensor.shape, tensor.numel())  # type: ignore[arg-type]
    data = _elements([tensor])[0]
    given = [data if rank == target else data[:0] for rank in range(engine.size)]
    _move("gather", engine, tensor, given, targets)
    return _done(async_op)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Group = None,
    group_dst: int | None = None,
) -> None:
    """Put an object of each rank into a list on one rank."""
    engine = engine_for("gather_object", group)
    target = rank_in("gather_object", engine, dst, group_dst, 0)
    if engine.rank == target:
        _list("gather_object", engine, object_gather_list)
    found = engine.gather_objects(obj)
    if engine.rank == target:
        object_gather_list[:] = found  # type: ignore[index]  # a list


def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copy a tensor of a list on one rank to a tensor on each rank."""
    engine = engine_for("scatter", group)
    source = rank_in("scatter", engine, src, group_src, 0)
    given = [np.empty(0, tensor.dtype.storage)] * engine.size
    if engine.rank == source:
        parts = _list("scatter", engine, scatter_list)
        _check("scatter", tensor, parts[source].shape, parts[source].numel())
        given = _elements(parts)
    targets = [tensor if rank == source else None for rank in range(engine.size)]
    _move("scatter", engine, tensor, given, targets)
    return _done(async_op)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Group = None,
    group_src: int | None = None,
) -> None:
    """Put an object of a list on one rank into a list on each rank."""
    where = "scatter_object_list"
    engine = engine_for(where, group)
    source = rank_in(where, engine, src, group_src, 0)
    given = [np.empty(0, np.uint8)] * engine.size
    if engine.rank == source:
        values = _list(where, engine, scatter_object_input_list)
        given = [np.frombuffer(pickle.dumps(each), np.uint8) for each in values]
    found = engine.exchange_arrays(where, f"rank {source}", given)[source]
    scatter_object_output_list[0] = pickle.loads(found.tobytes())


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Copy the reduction of what all ranks have for this one to a tensor."""
    engine = engine_for("reduce_scatter", group)
    parts = _list("reduce_scatter", engine, input_list)
    own = parts[engine.rank]
    _check("reduce_scatter", output, own.shape, own.numel())
    where = "reduce_scatter"
    reduction = Reduction(where, steps_of(op), output.dtype, engine.size)
    found = engine.exchange_arrays(where, output.dtype.name, _elements(parts))
    total = None
    for data in found:
        values = data.view(output.dtype.storage)
        _check(where, output, values.shape, values.size)
        total = reduction.add(values)
    assert total is not None
    _fill(where, output, total)
    return _done(async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Copy this rank's part of the reduction of a tensor to another one."""
    where = "reduce_scatter_tensor"
    engine = engine_for(where, group)
    if output.numel() * engine.size != input.numel():
        _check(where, output, input.shape, -1)
    flat = input.detach().reshape(-1)
    _copy(output, engine.reduce_scatter(flat, op=steps_of(op)))
    return _done(async_op)


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Copy what all ranks have for this one to the tensors of a list."""
    engine = engine_for("all_to_all", group)
    parts = _list("all_to_all", engine, input_tensor_list)
    targets = _list("all_to_all", engine, output_tensor_list)
    own = parts[engine.rank]
    _check("all_to_all", targets[engine.rank], own.shape, own.numel())
    _move("all_to_all", engine, own, _elements(parts), targets)
    return _done(async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Copy what all ranks have for this one, rows of a tensor, to those of another."""
    where = "all_to_all_single"
    engine = engine_for(where, group)
    given = _rows(where, engine, input, input_split_sizes)
    targets = _rows(where, engine, output, output_split_sizes)
    _move(where, engine, input, _elements(given), targets)
    return _done(async_op)


def _rows(
    where: str, engine: Engine, tensor: Tensor, sizes: Sequence[int] | None
) -> Sequence[Tensor]:
    """Return the rows of a tensor that belong to each rank."""
    rows = tensor.shape[0] if tensor.ndim else 1
    if not sizes:
        if rows % engine.size:
            raise ShapeError(
                f"{where}: a tensor has {rows} rows for {engine.size} ranks; give split"
                " sizes, or a multiple"
            )
        sizes = [rows // engine.size] * engine.size
    if len(sizes) != engine.size or sum(sizes) != rows:
        raise ShapeError(
            f"{where}: split sizes are {list(sizes)} for {rows} rows and {engine.size}"
            " ranks; there must be one for each rank, and their sum the rows"
        )
    return tensor.detach().split(list(sizes)) if tensor.ndim else [tensor]


def barrier(
    group: Group = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Return once all ranks have called it."""
    engine_for("barrier", group).barrier()
    return _done(async_op)


def monitored_barrier(
    group: Group = None, timeout: Any = None, wait_all_ranks: bool = False
) -> None:
    """Return once all ranks have called it; an error names those that cannot."""
    engine_for("monitored_barrier", group).barrier()


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to another rank."""
    engine = engine_for("send", group)
    engine.send(tensor.detach(), other_rank("send", engine, dst, group_dst), tag)


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Replace a tensor by one that another rank sends; return that rank.

    Parameters
    ----------
    tensor : Tensor
        Of the shape and dtype of what is sent.
    src : int, optional
        Rank; None takes what comes first.
    group : ProcessGroup, optional
    tag : int, default 0
        That of the message.
    group_src : int, optional
        The rank in the group, instead of `src`.
    """
    work = _receive("recv", tensor, src, group, tag, group_src)
    work.wait()
    return work.source


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Start to send a tensor, as it is now, to another rank."""
    engine = engine_for("isend", group)
    target = other_rank("isend", engine, dst, group_dst)
    task = engine.start_send("isend", tensor.detach(), target, tag)
    return Work(engine, task)


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Start to receive a tensor, which has its elements after `wait`; see `recv`."""
    return _receive("irecv", tensor, src, group, tag, group_src)


def _receive(
    where: str,
    tensor: Tensor,
    src: int | None,
    group: Group,
    tag: int,
    group_src: int | None,
) -> Work:
    engine = engine_for(where, group)
    named = (src, group_src) != (None, None) or engine.size == 1
    source = other_rank(where, engine, src, group_src, 0) if named else None
    shape, dtype = tuple(tensor.shape), tensor.dtype
    task = engine.start_recv(where, shape, dtype, source, tag)
    work = Work(engine, task)

    def receive() -> None:
        found, rank = engine.finish_recv(task, shape, dtype, tensor.device)
        work.source = engine.ranks[rank]
        _copy(tensor, found)

    work.finish = receive
    return work


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Start to send and receive tensors.

    Parameters
    ----------
    p2p_op_list : sequence of P2POp

    Returns
    -------
    list of Work
        One for each; wait for all.

    Raises
    ------
    ValueError
        If the list is empty, as in PyTorch.
    """
    group_for("batch_isend_irecv")
    if not p2p_op_list:
        raise ValueError(
            "batch_isend_irecv: the list is empty; it must have an operation"
        )
    return [
        each.op(each.tensor, group=each.group, tag=each.tag, **each.peers)
        for each in p2p_op_list
    ]
