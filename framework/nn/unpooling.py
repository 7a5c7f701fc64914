"""Max unpooling and fractional max pooling layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..base.docstring import shares_parameters
from ..base.errors import ShapeError
from ..base.shape import Shape
from ..tensor.tensor import Tensor
from . import functional
from .functional.unpooling import each_dim
from .functional_module import FunctionalModule
from .module import Module

Sizes = int | Shape


class _MaxUnpool(Module):
    """Puts maxima back where they were."""

    dims: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0
    ) -> None:
        super().__init__()
        name, steps = type(self).__name__, kernel_size if stride is None else stride
        self.kernel_size = each_dim(f"{name}: kernel_size", kernel_size, self.dims)
        self.stride = each_dim(f"{name}: stride", steps, self.dims)
        self.padding = each_dim(f"{name}: padding", padding, self.dims)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        """Return the maxima in their places, and 0 elsewhere.

        Parameters
        ----------
        input : Tensor
            Maxima.
        indices : Tensor, shape of `input`, integer
            Where they were.
        output_size : sequence of int or None
            Size of the result, or its whole shape.
        """
        window = (self.kernel_size, self.stride, self.padding)
        return type(self).function(input, indices, *window, output_size)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride},"
            f" padding={self.padding}"
        )


@shares_parameters(functional.max_unpool1d)
class MaxUnpool1d(_MaxUnpool):
    """Undoes `MaxPool1d`, with the indices that it returns; see `MaxUnpool2d`."""

    dims, function = 1, staticmethod(functional.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """Undoes `MaxPool2d`, with the indices that it returns; other elements are 0.

    Parameters
    ----------
    kernel_size, stride, padding : int or (int, int)
        Those of the pooling.
    """

    dims, function = 2, staticmethod(functional.max_unpool2d)


@shares_parameters(functional.max_unpool3d)
class MaxUnpool3d(_MaxUnpool):
    """Undoes `MaxPool3d`, with the indices that it returns; see `MaxUnpool2d`."""

    dims, function = 3, staticmethod(functional.max_unpool3d)


class _FractionalMaxPool(FunctionalModule):
    shown = ()
    dims: ClassVar[int]

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if (output_size is None) == (output_ratio is None):
            raise ShapeError(
                f"{name}: output_size is {output_size}, output_ratio {output_ratio};"
                " one of them must be given"
            )
        self.kernel_size = each_dim(f"{name}: kernel_size", kernel_size, self.dims)
        self.output_size = None
        if output_size is not None:
            self.output_size = each_dim(f"{name}: output_size", output_size, self.dims)
        self.output_ratio = None
        if output_ratio is not None:
            several = isinstance(output_ratio, Sequence)
            ratios: Any = output_ratio if several else (output_ratio,) * self.dims
            self.output_ratio = tuple(ratios)
            if not all(0 < ratio < 1 for ratio in self.output_ratio):
                raise ShapeError(
                    f"{name}: output_ratio is {output_ratio}; it must be between 0"
                    " and 1"
                )
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)


class FractionalMaxPool2d(
    _FractionalMaxPool, function=functional.fractional_max_pool2d
):
    """The largest element of each of a number of random windows of an image.

    Parameters
    ----------
    kernel_size : int or (int, int)
        Size of the windows.
    output_size : int or (int, int), or None
        How many there are.
    output_ratio : float or (float, float), or None
        Their number as a share of the size instead, below 1.
    return_indices : bool, default False
        Whether positions in the image are returned too.

    Notes
    -----
    Source: Graham, Fractional Max-Pooling, arXiv:1412.6071.
    """

    dims = 2


@shares_parameters(functional.fractional_max_pool3d)
class FractionalMaxPool3d(
    _FractionalMaxPool, function=functional.fractional_max_pool3d
):
    """The same of a volume; see `FractionalMaxPool2d`."""

    dims = 3
