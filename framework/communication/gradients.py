"""Gradients of collectives: collectives, too, so all ranks have to ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..autograd.function import Function
from ..tensor.factories import zeros_like
from ..tensor.tensor import Tensor

if TYPE_CHECKING:
    from .group import Group


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group, name: str, op: str) -> Tensor:
        ctx.call = group, name, op
        return group._reduce(name, op, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        group, name, op = ctx.call
        return group._reduced(f"{name} (backward)", op, grad), None, None, None


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group, dim: int, op: str) -> Tensor:
        ctx.call = group, dim, op
        return group._reduce_scatter(x, dim, op)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        group, dim, op = ctx.call
        grad = grad / group.size if op == "mean" else grad
        return group.all_gather(grad, dim), None, None, None


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group, dim: int) -> Tensor:
        ctx.call = group, dim
        return group._all_gather(x, dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        group, dim = ctx.call
        return group.reduce_scatter(grad, dim), None, None


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group, source: int) -> Tensor:
        ctx.call = group, source
        return group._broadcast(x, source)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        group, source = ctx.call
        found = group._reduced("broadcast (backward)", "sum", grad)
        own = group.rank == source
        return found if own else zeros_like(found), None, None


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group, dim: int) -> Tensor:
        ctx.call = group, dim
        return group._all_to_all(x, dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        group, dim = ctx.call
        return group.all_to_all(grad, dim), None, None


# The collectives on the tape, which `Group` calls with a tensor that requires one.
reduce = _Reduce.apply
reduce_scatter = _ReduceScatter.apply
gather = _Gather.apply
broadcast = _Broadcast.apply
all_to_all = _AllToAll.apply
