"""Padding layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from .. import ops
from ..base.docstring import shares_parameters
from ..base.errors import ShapeError
from ..base.validation import as_int_or_ints
from ..tensor.tensor import Tensor
from .module import Module


class _Pad(Module):
    """Pads the last `dims` dimensions; see `ops.pad`."""

    dims: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        count = 2 * self.dims
        given = as_int_or_ints(f"{type(self).__name__}: padding", padding)
        numbers = (given,) * count if isinstance(given, int) else given
        if len(numbers) != count:
            raise ShapeError(
                f"{type(self).__name__}: padding is {padding}; it must be one number or"
                f" {count}"
            )
        self.padding = numbers
        self.value = 0.0

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` padded."""
        return ops.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Adds elements of one value around signals.

    Parameters
    ----------
    padding : int or sequence of int
        Elements added at both ends, or before and after; below 0 they are taken off.
    value : float
        What is added.
    """

    dims = 1


class ConstantPad2d(_ConstantPad):
    """Adds elements of one value around images, as `ConstantPad1d` does.

    `padding` is one number for every edge, or left, right, above and below.

    Parameters
    ----------
    padding : int or (int, int, int, int)
        How many elements are added at every edge, or left, right, above and below;
        below 0 they are taken off.
    value : float
        Theirs.
    """

    dims = 2


class ConstantPad3d(_ConstantPad):
    """Adds elements of one value around volumes, as `ConstantPad1d` does.

    `padding` is one number for every side, or left, right, above, below, before and
    behind.

    Parameters
    ----------
    padding : int or six of int
        How many elements are added at every side, or left, right, above, below, in
        front and behind; below 0 they are taken off.
    value : float
        Theirs.
    """

    dims = 3


@shares_parameters(ConstantPad1d)
class ZeroPad1d(_Pad):
    """Adds zeros around signals; `padding` as in `ConstantPad1d`."""

    dims, mode = 1, "constant"


@shares_parameters(ConstantPad2d)
class ZeroPad2d(_Pad):
    """Adds zeros around images; `padding` as in `ConstantPad2d`."""

    dims, mode = 2, "constant"


class ReflectionPad1d(_Pad):
    """Mirrors signals at their ends; `padding` is one number or two, not below 0.

    Parameters
    ----------
    padding : int or (int, int)
        How many elements are added at both ends, or at each; not below 0.
    """

    dims, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Mirrors images at their edges; `padding` is one number or four, not below 0.

    Parameters
    ----------
    padding : int or (int, int, int, int)
        How many elements are added at every edge, or left, right, above and below; not
        below 0.
    """

    dims, mode = 2, "reflect"


@shares_parameters(ReflectionPad1d)
class ReplicationPad1d(_Pad):
    """Repeats the ends of signals; `padding` as in `ReflectionPad1d`."""

    dims, mode = 1, "replicate"


@shares_parameters(ReflectionPad2d)
class ReplicationPad2d(_Pad):
    """Repeats the edges of images; `padding` as in `ReflectionPad2d`."""

    dims, mode = 2, "replicate"


@shares_parameters(ConstantPad3d)
class ZeroPad3d(_Pad):
    """Adds zeros around volumes; `padding` as in `ConstantPad3d`."""

    dims, mode = 3, "constant"


class ReflectionPad3d(_Pad):
    """Mirrors volumes at their sides; `padding` is one number or six, not below 0.

    Parameters
    ----------
    padding : int or six of int
        How many elements are added at every side, or left, right, above, below, in
        front and behind; not below 0.
    """

    dims, mode = 3, "reflect"


@shares_parameters(ReflectionPad3d)
class ReplicationPad3d(_Pad):
    """Repeats the sides of volumes; `padding` as in `ReflectionPad3d`."""

    dims, mode = 3, "replicate"


class _CircularPad(_Pad):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` padded."""
        if input.ndim - self.dims not in (1, 2):
            raise ShapeError(
                f"{type(self).__name__}: input is {tuple(input.shape)}; it must be"
                f" {self.dims + 2}-D, or {self.dims + 1}-D without a batch"
            )
        return super().forward(input)


@shares_parameters(ReflectionPad1d)
class CircularPad1d(_CircularPad):
    """Continues signals with their other end; `padding` as in `ReflectionPad1d`."""

    dims = 1


@shares_parameters(ReflectionPad2d)
class CircularPad2d(_CircularPad):
    """Continues images with their other edge; `padding` as in `ReflectionPad2d`."""

    dims = 2


@shares_parameters(ReflectionPad3d)
class CircularPad3d(_CircularPad):
    """Continues volumes with their other side; `padding` as in `ReflectionPad3d`."""

    dims = 3
