"""Communication within the group of one process: what it sends, it gets itself."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ..autograd.grad_mode import no_grad
from ..base.errors import ShapeError
from ..base.process_group import ProcessGroup, group_for
from ..tensor.tensor import Tensor
from .process_group import P2POp, ReduceOp, Work, other_rank, own_rank

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


def _done(async_op: bool) -> Work | None:
    return Work() if async_op else None


def _one(where: str, values: Sequence[Any] | None) -> Sequence[Any]:
    if values is None or len(values) != 1:
        count = "none" if values is None else len(values)
        raise ValueError(f"{where}: the list has {count} elements; it must have one")
    return values


def _copy(where: str, target: Tensor, source: Tensor) -> None:
    if target.numel() != source.numel():
        raise ShapeError(
            f"{where}: the output has shape {tuple(target.shape)}, the input"
            f" {tuple(source.shape)}; they must have as many elements"
        )
    with no_grad():
        target.copy_(source.detach().reshape(target.shape))


def _pickled(value: Any) -> Any:
    """Return a copy of an object, as one that has travelled is."""
    return pickle.loads(pickle.dumps(value))


def all_reduce(
    tensor: Tensor,
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Leave the tensor as it is, which is the reduction over one process."""
    group_for("all_reduce", group)
    return _done(async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Leave the tensor as it is, which is the reduction over one process."""
    group_for("reduce", group)
    own_rank("reduce", dst if group_dst is None else group_dst)
    return _done(async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Leave the tensor as it is: it is this process's own."""
    group_for("broadcast", group)
    own_rank("broadcast", src if group_src is None else group_src)
    return _done(async_op)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Group = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Leave the objects as they are: they are this process's own."""
    group_for("broadcast_object_list", group)
    own_rank("broadcast_object_list", src if group_src is None else group_src)


def all_gather(
    tensor_list: Sequence[Tensor],
    tensor: Tensor,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Copy a tensor to the only one of a list."""
    group_for("all_gather", group)
    _copy("all_gather", _one("all_gather", tensor_list)[0], tensor)
    return _done(async_op)


def all_gather_into_tensor(
    output_tensor: Tensor,
    input_tensor: Tensor,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Copy a tensor to another one, which may have a dimension of size 1 in front."""
    group_for("all_gather_into_tensor", group)
    _copy("all_gather_into_tensor", output_tensor, input_tensor)
    return _done(async_op)


def all_gather_object(object_list: list[Any], obj: Any, group: Group = None) -> None:
    """Put a copy of an object into a list of one element."""
    group_for("all_gather_object", group)
    _one("all_gather_object", object_list)
    object_list[0] = _pickled(obj)


def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Copy a tensor to the only one of a list."""
    group_for("gather", group)
    own_rank("gather", (dst or 0) if group_dst is None else group_dst)
    _copy("gather", _one("gather", gather_list)[0], tensor)
    return _done(async_op)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Group = None,
    group_dst: int | None = None,
) -> None:
    """Put a copy of an object into a list of one element."""
    group_for("gather_object", group)
    own_rank("gather_object", (dst or 0) if group_dst is None else group_dst)
    values = _one("gather_object", object_gather_list)
    values[0] = _pickled(obj)  # type: ignore[index]  # a list


def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int | None = None,
    group: Group = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copy the only tensor of a list to a tensor."""
    group_for("scatter", group)
    own_rank("scatter", (src or 0) if group_src is None else group_src)
    _copy("scatter", tensor, _one("scatter", scatter_list)[0])
    return _done(async_op)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Group = None,
    group_src: int | None = None,
) -> None:
    """Put a copy of the only object of a list into another list."""
    group_for("scatter_object_list", group)
    own_rank("scatter_object_list", (src or 0) if group_src is None else group_src)
    values = _one("scatter_object_list", scatter_object_input_list)
    scatter_object_output_list[0] = _pickled(values[0])


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Copy the only tensor of a list to a tensor."""
    group_for("reduce_scatter", group)
    _copy("reduce_scatter", output, _one("reduce_scatter", input_list)[0])
    return _done(async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: ReduceOp = ReduceOp.SUM,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Copy a tensor to another one."""
    group_for("reduce_scatter_tensor", group)
    _copy("reduce_scatter_tensor", output, input)
    return _done(async_op)


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Copy the only tensor of a list to that of another list."""
    group_for("all_to_all", group)
    source = _one("all_to_all", input_tensor_list)[0]
    _copy("all_to_all", _one("all_to_all", output_tensor_list)[0], source)
    return _done(async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Copy a tensor to another one."""
    group_for("all_to_all_single", group)
    _copy("all_to_all_single", output, input)
    return _done(async_op)


def barrier(
    group: Group = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Work | None:
    """Return at once: no other process is to be waited for."""
    group_for("barrier", group)
    return _done(async_op)


def monitored_barrier(
    group: Group = None, timeout: Any = None, wait_all_ranks: bool = False
) -> None:
    """Return at once: no other process is to be waited for."""
    group_for("monitored_barrier", group)


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Raise `ValueError`: a process sends itself nothing, and there is no other."""
    group_for("send", group)
    other_rank("send", dst if group_dst is None else group_dst)


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Raise `ValueError`: a process gets nothing from itself, and there is no other."""
    group_for("recv", group)
    other_rank("recv", (src or 0) if group_src is None else group_src)
    return 0


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Raise `ValueError`: a process sends itself nothing, and there is no other."""
    group_for("isend", group)
    other_rank("isend", dst if group_dst is None else group_dst)
    return None


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Group = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Raise `ValueError`: a process gets nothing from itself, and there is no other."""
    group_for("irecv", group)
    other_rank("irecv", (src or 0) if group_src is None else group_src)
    return None


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Return no works: there is nobody to send to.

    Raises
    ------
    ValueError
        If the list is empty, as in PyTorch; an operation for it cannot be made.
    """
    group_for("batch_isend_irecv")
    raise ValueError("batch_isend_irecv: the list is empty; it must have an operation")
