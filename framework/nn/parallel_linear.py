"""Linear layers whose weights are divided among the ranks of a group."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar

from .. import ops
from ..autograd.function import Function
from ..autograd.grad_mode import no_grad
from ..base.dtype import DTypeLike
from ..base.errors import ShapeError
from ..tensor.factories import DeviceLike
from ..tensor.tensor import Tensor
from .data_parallel import checked_group, take_values
from .divided import TensorShard, mark_divided
from .linear import Linear
from .module import Module
from .parameter import Parameter

if TYPE_CHECKING:
    from ..communication.group import Group

__all__ = [
    "ColumnParallelLinear",
    "RowParallelLinear",
    "tensor_parallel",
    "whole_state_dict",
]

PLAN = {
    **dict.fromkeys(("*q_proj", "*k_proj", "*v_proj"), "column"),
    **dict.fromkeys(("*gate_proj", "*up_proj", "*linear1"), "column"),
    **dict.fromkeys(("*o_proj", "*down_proj", "*linear2"), "row"),
    **dict.fromkeys(("*q_norm", "*k_norm"), "sum"),
}
"""Kinds of modules by name, for transformers whose heads follow from the layers' sizes.

Those of `models.llama` and its relatives, and the feed-forward part of
`TransformerEncoderLayer` and `TransformerDecoderLayer`.
"""


class _Shared(Function):
    """A tensor that all ranks have alike, before each uses it in its own way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return x.view(x.shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return ctx.group.all_sum(grad), None


class _Summed(Function):
    """The sum over ranks, which all use alike."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        return group.all_sum(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad, None


class _Gathered(Function):
    """The parts of all ranks, which all use alike."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return group.all_gather(x, -1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _own_part(grad, ctx.group), None


class _Divided(Function):
    """The part of this rank, of a tensor that all have alike."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        return _own_part(x, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return ctx.group.all_gather(grad, -1), None


def _own_part(x: Tensor, group: Group) -> Tensor:
    size = x.shape[-1] // group.size
    return x[..., group.rank * size : (group.rank + 1) * size]


def _part_size(where: str, name: str, size: int, group: Group) -> int:
    if size % group.size:
        raise ShapeError(
            f"{where}: {name} is {size}; it must be a multiple of {group.size}, the"
            " number of ranks"
        )
    return size // group.size


class _ParallelLinear(Module):
    """What both kinds have; `dim` is the dimension of the weight that is divided."""

    dim: int
    options: ClassVar[dict[str, bool]]
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        group: Group | None = None,
        *,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        made = Linear(in_features, out_features, bias, device, dtype)
        self._take(made, group)

    def _take(self, linear: Linear, group: Group | None) -> None:
        """Become the part of a layer, with the values of rank 0."""
        where = type(self).__name__
        self.group = group = checked_group(where, group)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        name = ("out_features", "in_features")[self.dim]
        size = _part_size(where, name, linear.weight.shape[self.dim], group)
        if group.size > 1:
            take_values(group, list(linear.parameters()))
        own = slice(group.rank * size, (group.rank + 1) * size)
        part = (slice(None),) * self.dim + (own,)
        self.weight = _parameter(linear.weight, part)
        kept = (slice(None),) if self.dim else (own,)
        shift = None if linear.bias is None else _parameter(linear.bias, kept)
        self.register_parameter("bias", shift)
        self._mark()
        self.train(linear.training)

    def _mark(self) -> None:
        """Say which parameters are parts; each call does, as others may be assigned."""
        group, whole = self.group, (self.out_features, self.in_features)
        size = whole[self.dim] // group.size
        span = group.rank * size, (group.rank + 1) * size
        mark_divided(self.weight, group, TensorShard(whole, self.dim, *span))
        if self.bias is not None and not self.dim:
            mark_divided(self.bias, group, TensorShard(whole[:1], 0, *span))

    @classmethod
    def from_linear(
        cls, linear: Linear, group: Group | None = None, **options: Any
    ) -> Any:
        """Return the part of a layer.

        Parameters
        ----------
        linear : Linear
            The whole layer; that of rank 0 counts.
        group : Group, optional
        **options
            Those of the class.
        """
        made = cls.__new__(cls)
        Module.__init__(made)
        unknown = options.keys() - cls.options
        if unknown:
            raise TypeError(
                f"{cls.__name__}: from_linear takes no {', '.join(sorted(unknown))};"
                f" it takes {', '.join(cls.options)}"
            )
        for name, default in cls.options.items():
            setattr(made, name, options.get(name, default))
        made._take(linear, group)
        return made

    def whole(self) -> Linear:
        """Return the layer with the weights of all ranks; all of them call it."""
        weight = self.group.all_gather(self.weight.detach(), self.dim)
        made = Linear(1, 1, self.bias is not None)
        made.in_features, made.out_features = self.in_features, self.out_features
        made.weight = Parameter(weight, self.weight.requires_grad)
        if self.bias is not None:
            own = self.bias.detach()
            found = own.clone() if self.dim else self.group.all_gather(own)
            made.bias = Parameter(found, self.bias.requires_grad)
        return made.train(self.training)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features},"
            f" bias={self.bias is not None}, ranks={self.group.size}"
        )


def _parameter(whole: Parameter, part: tuple[slice, ...]) -> Parameter:
    with no_grad():
        return Parameter(whole.detach()[part].clone(), whole.requires_grad)


class ColumnParallelLinear(_ParallelLinear):
    """Linear layer of which each rank computes some of the outputs.

    All ranks call it with the same input. Gradients of the input are summed over ranks,
    as each of them computes a part of the sum; those of the weight need no exchange.

    Parameters
    ----------
    in_features, out_features : int
        Of the whole layer; `out_features` is a multiple of the number of ranks.
    group : Group, optional
        By default that of all processes.
    bias : bool, default True
    gather_output : bool, default False
        Whether each rank gets the outputs of all.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32

    Attributes
    ----------
    weight : Parameter, shape (out_features / ranks, in_features)
        Rows of the weight that `Linear` draws on rank 0.
    bias : Parameter, shape (out_features / ranks,), or None

    Raises
    ------
    ShapeError
        If the ranks do not divide `out_features`.

    Notes
    -----
    `clip_grad_norm_` and `GradScaler` take the gradients of all ranks together: all
    ranks call them. `get_total_norm` gets gradients alone, so that its norm is that of
    this rank, and `clip_grads_with_norm_` raises. Source: Shoeybi et al.,
    arXiv:1909.08053.
    """

    dim = 0
    options: ClassVar[dict[str, bool]] = {"gather_output": False}

    def __init__(
        self,
        in_features: int,
        out_features: int,
        group: Group | None = None,
        *,
        bias: bool = True,
        gather_output: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(
            in_features, out_features, group, bias=bias, device=device, dtype=dtype
        )
        self.gather_output = gather_output

    def forward(self, input: Tensor) -> Tensor:
        """Return this rank's outputs, or with `gather_output` those of all.

        Parameters
        ----------
        input : Tensor, shape (..., in_features)
            The same on all ranks.

        Returns
        -------
        Tensor, shape (..., out_features / ranks) or (..., out_features)
        """
        self._mark()
        several = self.group.size > 1
        x = _Shared.apply(input, self.group) if several else input
        out: Tensor = ops.linear(x, self.weight, self.bias)
        gathers = several and self.gather_output
        return _Gathered.apply(out, self.group) if gathers else out


class RowParallelLinear(_ParallelLinear):
    """Linear layer of which each rank has some of the inputs; outputs are their sums.

    Parameters
    ----------
    in_features, out_features : int
        Of the whole layer; `in_features` is a multiple of the number of ranks.
    group : Group, optional
        By default that of all processes.
    bias : bool, default True
    input_is_parallel : bool, default True
        Whether the input is this rank's part, as from `ColumnParallelLinear`, rather
        than the whole.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32

    Attributes
    ----------
    weight : Parameter, shape (out_features, in_features / ranks)
        Columns of the weight that `Linear` draws on rank 0.
    bias : Parameter, shape (out_features,), or None
        The same on all ranks, and added once.

    Raises
    ------
    ShapeError
        If the ranks do not divide `in_features`.

    Notes
    -----
    See `ColumnParallelLinear`.
    """

    dim = 1
    options: ClassVar[dict[str, bool]] = {"input_is_parallel": True}

    def __init__(
        self,
        in_features: int,
        out_features: int,
        group: Group | None = None,
        *,
        bias: bool = True,
        input_is_parallel: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(
            in_features, out_features, group, bias=bias, device=device, dtype=dtype
        )
        self.input_is_parallel = input_is_parallel

    def forward(self, input: Tensor) -> Tensor:
        """Return the outputs, the same on all ranks.

        Parameters
        ----------
        input : Tensor, shape (..., in_features / ranks)
            Without `input_is_parallel` of shape (..., in_features), and the same on all
            ranks.

        Returns
        -------
        Tensor, shape (..., out_features)
        """
        self._mark()
        if self.group.size == 1:
            return ops.linear(input, self.weight, self.bias)
        x = input if self.input_is_parallel else _Divided.apply(input, self.group)
        out: Tensor = _Summed.apply(ops.linear(x, self.weight), self.group)
        return out if self.bias is None else out + self.bias


def tensor_parallel(
    module: Module, group: Group | None = None, plan: Mapping[str, str] | None = None
) -> Module:
    """Divide the linear layers of a transformer among ranks, in place.

    Parameters
    ----------
    module : Module
        The same on all ranks; the weights of rank 0 count, also of what stays whole.
    group : Group, optional
        By default that of all processes.
    plan : mapping of str to str, optional
        "column", "row" or "sum" by patterns of names (`fnmatch`), of which the first
        that fits counts. A layer of columns feeds one of rows, with nothing between
        them that needs all features; "sum" is for modules with parameters there, which
        ranks use on their own features, so that gradients are summed over ranks. By
        default attention and feed-forward layers are divided of
        models as `models.llama` has them, and the feed-forward layers of
        `TransformerEncoderLayer` and `TransformerDecoderLayer`.

    Returns
    -------
    Module
        `module`. Its state has this rank's parts; see `whole_state_dict`.

    Raises
    ------
    ShapeError
        If the ranks do not divide what is to be divided; nothing is changed then.
    ValueError
        If the plan fits no linear layer, or has another kind.

    Notes
    -----
    Make the optimizer afterwards: parameters are others. All ranks call the module with
    the same batch. Ranks must divide the heads of keys and values, or reshaping raises.
    """
    group = checked_group("tensor_parallel", group)
    plan = PLAN if plan is None else plan
    found = _chosen(module, plan)
    for name, (layer, kind) in found.items():
        size = layer.out_features if kind == "column" else layer.in_features
        _part_size(f"tensor_parallel: {name}", "the size", size, group)
    if group.size > 1:
        divided = {id(x) for layer, _ in found.values() for x in layer.parameters()}
        every = [*module.parameters(), *module.buffers()]
        take_values(group, [each for each in every if id(each) not in divided])
    for name, (layer, kind) in found.items():
        made = _KINDS[kind].from_linear(layer, group)
        parent, _, own = name.rpartition(".")
        setattr(module.get_submodule(parent), own, made)
    if group.size > 1:
        for name, part in module.named_modules():
            if _kind_of(name, plan) == "sum":
                part.register_forward_pre_hook(_Sums(group))
    return module


_SUMMED = "_is_summed"
"""Attribute of parameters whose gradients are sums already."""


class _Sums:
    """Lets the gradients of a module's parameters be sums over ranks.

    Before each call, as others may have been assigned.
    """

    def __init__(self, group: Group) -> None:
        self.group = group

    def __call__(self, module: Module, _: Any) -> None:
        for each in module.parameters():
            if each.requires_grad and not hasattr(each, _SUMMED):
                each.register_hook(self.group.all_sum)
                setattr(each, _SUMMED, True)


def _kind_of(name: str, plan: Mapping[str, str]) -> str:
    kinds = (kind for each, kind in plan.items() if fnmatchcase(name, each))
    return next(kinds, "")


_KINDS: dict[str, type[_ParallelLinear]] = {
    "column": ColumnParallelLinear,
    "row": RowParallelLinear,
}


def _chosen(module: Module, plan: Mapping[str, str]) -> dict[str, tuple[Linear, str]]:
    """Return the linear layers that a plan divides, with their kinds, by name."""
    for kind in plan.values():
        if kind not in (*_KINDS, "sum"):
            raise ValueError(
                f"tensor_parallel: the plan has kind {kind!r}; it must be 'column',"
                " 'row' or 'sum'"
            )
    found: dict[str, tuple[Linear, str]] = {}
    for name, layer in module.named_modules():
        kind = _kind_of(name, plan)
        if kind in _KINDS and name and type(layer) is Linear:
            found[name] = layer, kind
    if not found:
        raise ValueError(
            "tensor_parallel: the plan fits no linear layer of"
            f" {type(module).__name__}; give one with the names of its layers"
        )
    return found


def whole_state_dict(module: Module) -> dict[str, Tensor]:
    """Return the state of a module as if nothing were divided; all ranks call it.

    Parameters
    ----------
    module : Module
        With `ColumnParallelLinear` and `RowParallelLinear` layers.

    Returns
    -------
    dict of str to Tensor
        As `state_dict` of the module before `tensor_parallel`, the same on all ranks.
    """
    found = dict(module.state_dict())
    for name, layer in module.named_modules():
        if isinstance(layer, _ParallelLinear):
            prefix = f"{name}." if name else ""
            for key, value in layer.whole().state_dict().items():
                found[prefix + key] = value
    return found
