"""Linear layers whose weights are divided among the ranks of a group."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar

from .. import ops
from ..base.dtype import DTypeLike
from ..tensor.factories import DeviceLike
from ..tensor.tensor import Tensor
from .data_parallel import checked_group
from .linear import Linear
from .module import Module
from .parallel_module import (
    Divided,
    Gathered,
    ParallelModule,
    Sections,
    Shared,
    Summed,
    check_divisible,
    section_sizes,
    shard_of,
)
from .parameter import Parameter

if TYPE_CHECKING:
    from ..communication.group import Group

__all__ = ["ColumnParallelLinear", "RowParallelLinear"]


class ParallelLinear(ParallelModule):
    """What both kinds have; `dim` is the dimension of the weight that is divided."""

    dim: int
    options: ClassVar[dict[str, Any]]
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        group: Group | None = None,
        *,
        bias: bool = True,
        sections: Sections = 1,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        made = Linear(in_features, out_features, bias, device, dtype)
        self._take(made, group, sections)

    @classmethod
    def sizes_of(
        cls, where: str, linear: Any, sections: Sections, group: Group
    ) -> tuple[int, ...]:
        """Return the sizes of what is divided; errors of those that cannot be."""
        if cls.dim:
            check_divisible(where, "in_features", linear.in_features, group)
            return (linear.in_features,)
        return section_sizes(where, linear.out_features, sections, group)

    def _take(self, linear: Any, group: Group | None, sections: Sections = 1) -> None:
        """Become the part of a layer, with the values of rank 0."""
        where = type(self).__name__
        group = checked_group(where, group)
        sizes = self.sizes_of(where, linear, sections, group)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.transposed = getattr(type(linear), "weight_is_transposed", False)
        self.weight = linear.weight
        self.register_parameter("bias", deepcopy(linear.bias))
        dim = 1 - self.dim if self.transposed else self.dim
        shards = {"weight": shard_of(tuple(linear.weight.shape), dim, sizes, group)}
        if linear.bias is not None and not self.dim:
            shards["bias"] = shard_of((self.out_features,), 0, sizes, group)
        self.divide(group, shards)
        self.train(linear.training)

    @classmethod
    def from_linear(
        cls, linear: Module, group: Group | None = None, **options: Any
    ) -> Any:
        """Return the part of a layer.

        Parameters
        ----------
        linear : Linear
            The whole layer; that of rank 0 counts. Or one whose class says
            `weight_is_transposed`: its weight has shape (in_features, out_features).
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
        found = cls.options | options
        sections = found.pop("sections", 1)
        for name, value in found.items():
            setattr(made, name, value)
        made._take(linear, group, sections)
        return made

    def whole(self) -> Linear:
        """Return the layer with the weights of all ranks; all of them call it."""
        found = self.whole_parameters()
        weight = found["weight"]
        made = Linear(1, 1, self.bias is not None)
        made.in_features, made.out_features = self.in_features, self.out_features
        made.weight = Parameter(
            weight.mT.clone() if self.transposed else weight, self.weight.requires_grad
        )
        if self.bias is not None:
            bias = found["bias"] if "bias" in found else self.bias.detach().clone()
            made.bias = Parameter(bias, self.bias.requires_grad)
        return made.train(self.training)

    def _product(self, x: Tensor, bias: Tensor | None) -> Tensor:
        if not self.transposed:
            return ops.linear(x, self.weight, bias)
        out: Tensor = x @ self.weight
        return out if bias is None else out + bias

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features},"
            f" bias={self.bias is not None}, ranks={self.group.size}"
        )


class ColumnParallelLinear(ParallelLinear):
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
    sections : int or sequence of int, default 1
        Of a layer that computes several projections side by side, as queries, keys and
        values: how many of one size, or their sizes. A rank has its part of each.
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
        If the ranks do not divide `out_features`, or one of the sections.

    Notes
    -----
    `clip_grad_norm_` and `GradScaler` take the gradients of all ranks together: all
    ranks call them. `get_total_norm` gets gradients alone, so that its norm is that of
    this rank, and `clip_grads_with_norm_` raises. Source: Shoeybi et al.,
    arXiv:1909.08053.
    """

    dim = 0
    options: ClassVar[dict[str, Any]] = {"gather_output": False, "sections": 1}

    def __init__(
        self,
        in_features: int,
        out_features: int,
        group: Group | None = None,
        *,
        bias: bool = True,
        gather_output: bool = False,
        sections: Sections = 1,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(
            in_features,
            out_features,
            group,
            bias=bias,
            sections=sections,
            device=device,
            dtype=dtype,
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
        self.mark()
        if self.group.size == 1:
            return self._product(input, self.bias)
        out = self._product(Shared.apply(input, self.group), self.bias)
        if not self.gather_output:
            return out
        parts = ops.split(out, self._shards["weight"].sizes, -1)
        every = [Gathered.apply(each, self.group, -1) for each in parts]
        return every[0] if len(every) == 1 else ops.cat(every, -1)


class RowParallelLinear(ParallelLinear):
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
    options: ClassVar[dict[str, Any]] = {"input_is_parallel": True}

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
        self.mark()
        if self.group.size == 1:
            return self._product(input, self.bias)
        x = input if self.input_is_parallel else Divided.apply(input, self.group)
        out: Tensor = Summed.apply(self._product(x, None), self.group)
        return out if self.bias is None else out + self.bias
