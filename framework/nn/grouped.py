"""Stacks of linear layers, of which each row passes through one."""

from __future__ import annotations

import math

from vkbackend.errors import ArgumentError

from ..base.dtype import DTypeLike, int32
from ..base.validation import as_int
from ..ops.matmul.grouped import gather_mm, grouped_mm
from ..tensor.factories import DeviceLike, empty
from ..tensor.tensor import Tensor
from . import init
from .module import Module
from .parameter import Parameter


class GroupedLinear(Module):
    """y = x W^T without a bias, with a W for each group of rows.

    Parameters
    ----------
    groups, in_features, out_features : int
        Number of matrices, and sizes of the last dimension before and after.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32

    Attributes
    ----------
    weight : Parameter, shape (groups, out_features, in_features)
        Drawn from U(-k, k) with k = 1 / sqrt(in_features).

    Notes
    -----
    PyTorch has `nn.functional.grouped_mm` alone.

    Examples
    --------
    >>> layer = nn.GroupedLinear(3, 4, 2)
    >>> layer(fw.zeros((5, 4)), offs=fw.tensor([1, 1, 5])).shape
    torch.Size([5, 2])
    >>> layer(fw.zeros((1, 4)), numbers=fw.tensor([2, 0])).shape
    torch.Size([2, 2])
    """

    def __init__(
        self,
        groups: int,
        in_features: int,
        out_features: int,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        self.groups = as_int("GroupedLinear: groups", groups)
        self.in_features = as_int("GroupedLinear: in_features", in_features)
        self.out_features = as_int("GroupedLinear: out_features", out_features)
        shape = (groups, out_features, in_features)
        self.weight = Parameter(empty(shape, dtype=dtype, device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        init.uniform_(self.weight, -bound, bound)

    def forward(
        self,
        input: Tensor,
        *,
        offs: Tensor | None = None,
        numbers: Tensor | None = None,
    ) -> Tensor:
        """Return the products of rows with the matrices of their groups.

        Parameters
        ----------
        input : Tensor, shape (rows, in_features)
        offs : Tensor, an integer dtype, shape (groups,), optional
            Where the groups of rows end, as of `nn.functional.grouped_mm`.
        numbers : Tensor, an integer dtype, shape (count,), optional
            The group of each row of the result, for few rows, without a gradient.
            `count` is a multiple of the rows, each of which is taken as many times.

        Returns
        -------
        Tensor, shape (rows, out_features) or (count, out_features)

        Raises
        ------
        ArgumentError
            If both `offs` and `numbers` are given, or none.
        ShapeError
            If sizes do not fit.
        IndexRangeError
            If offsets or numbers are out of range: on the host at once, on a device by
            the next read.
        """
        check_groups(offs, numbers)
        weight = self.weight.transpose(1, 2)
        if offs is not None:
            return grouped_mm(input, weight, offs)
        assert numbers is not None
        return gather_mm(input, weight, numbers.to(int32))

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"{self.groups}, {self.in_features}, {self.out_features}"


def check_groups(offs: Tensor | None, numbers: Tensor | None) -> None:
    """Raise `ArgumentError` unless one of two is given."""
    if (offs is None) == (numbers is None):
        given = "neither is given" if offs is None else "both are given"
        raise ArgumentError(
            f"GroupedLinear: {given} of `offs` and `numbers`; one of them must be"
        )
