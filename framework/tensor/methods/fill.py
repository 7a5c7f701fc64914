"""In-place fill, copy, scatter and random methods."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ... import ops
from ...autograd.tape import ShownNode
from ...base.dtype import float32
from ...base.errors import DomainError, ShapeError
from ...eager.base_tensor import TensorCore, operand
from ...ops.elementwise.cast import need_real_float, need_real_numbers, refuse_complex
from ..inplace import (
    assign,
    fill_bernoulli,
    fill_exponential,
    fill_integers,
    fill_normal,
    fill_uniform,
)
from ..overlap import refuse_partial_overlap
from .operand import Number, Operand, in_place

if TYPE_CHECKING:
    from ...base.philox import Generator
    from ..tensor import Tensor


def _shown(x: Tensor, name: str) -> Tensor:
    """Show the change in place of a whole tensor as PyTorch's; return the tensor."""
    node = x.grad_node
    if node is not None and getattr(node.apply, "whole", False):
        before, new = node.edges
        node.shown = ShownNode(name, (before,) if new is None else (before, new))
    return x


class FillMethods:
    """Methods that replace elements in place and return the tensor."""

    __slots__ = ()

    def copy_(self: Tensor, source: Operand, non_blocking: bool = False) -> Tensor:
        """Replace the elements by those of another, and return this tensor.

        Parameters
        ----------
        source : Tensor, NumPy array or number
            Broadcast to this shape and cast to this dtype, on the tape.
        non_blocking : bool, default False
            Without effect: a copy between devices waits for what it copies.

        Raises
        ------
        GradError
            If gradients are being recorded and this is a leaf that requires one.
        ShapeError
            If `source` does not broadcast to this shape, or shares a part of the memory
            of this tensor, but not all.
        """
        new = source
        if not isinstance(source, TensorCore):
            new = operand(self, source, "copy_")
        if isinstance(new, TensorCore) and new.array is self.array:
            refuse_partial_overlap("copy_", self, (new,))
        return assign(self, new)

    def fill_(self: Tensor, value: Tensor | Number) -> Tensor:
        """Set every element to one value, also of an expanded tensor.

        Parameters
        ----------
        value : number or Tensor without dimensions
            Cut to an integer where this tensor has integers.

        Raises
        ------
        ShapeError
            If `value` has dimensions.
        """
        if isinstance(value, TensorCore) and value.ndim:
            raise ShapeError(
                f"fill_: value is {tuple(value.shape)}; it must have no dimension"
            )
        name = "FillBackward3" if isinstance(value, TensorCore) else "FillBackward2"
        assign(_unexpanded(self), value)
        return _shown(self, name)

    def zero_(self: Tensor) -> Tensor:
        """Set every element to 0, also of an expanded tensor."""
        assign(_unexpanded(self), 0)
        return _shown(self, "ZeroBackward0")

    masked_fill_ = in_place(ops.masked_fill)
    index_fill_ = in_place(ops.index_fill)
    index_add_ = in_place(ops.index_add)
    index_copy_ = in_place(ops.index_copy)
    scatter_ = in_place(ops.scatter)
    scatter_add_ = in_place(ops.scatter_add)
    scatter_reduce_ = in_place(ops.scatter_reduce)
    index_put_ = in_place(ops.index_put)
    put_ = in_place(ops.put)
    masked_scatter_ = in_place(ops.masked_scatter)

    def uniform_(
        self: Tensor,
        low: float = 0.0,
        high: float = 1.0,
        generator: Generator | None = None,
    ) -> Tensor:
        """Replace the elements, which are floats, by draws from [low, high).

        Parameters
        ----------
        low, high : float, default 0, 1
            Equal ones give that number.
        generator : Generator or None
            What draws; None means the default one.

        Raises
        ------
        ShapeError
            If `low` is above `high`.
        DTypeError
            If the dtype is not a float one.
        """
        return fill_uniform(self, low, high, generator)

    def normal_(
        self: Tensor,
        mean: float = 0.0,
        std: float = 1.0,
        generator: Generator | None = None,
    ) -> Tensor:
        """Replace the elements, which are floats, by normal draws.

        Parameters
        ----------
        mean : float, default 0
        std : float, default 1
            At least 0.
        generator : Generator or None
            What draws; None means the default one.

        Raises
        ------
        ShapeError
            If `std` is below 0.
        DTypeError
            If the dtype is not a float one.
        """
        return fill_normal(self, mean, std, generator)

    def exponential_(
        self: Tensor, lambd: float = 1.0, generator: Generator | None = None
    ) -> Tensor:
        """Replace the elements, which are floats, by exponential draws.

        Parameters
        ----------
        lambd : float, default 1
            One by their mean.
        generator : Generator or None
            What draws; None means the default one.

        Raises
        ------
        DomainError
            If `lambd` is not above 0.
        DTypeError
            If the dtype is not a float one.
        """
        return fill_exponential(self, lambd, generator)

    def cauchy_(
        self: Tensor,
        median: float = 0.0,
        sigma: float = 1.0,
        *,
        generator: Generator | None = None,
    ) -> Tensor:
        """Replace the elements by draws from the Cauchy distribution.

        Parameters
        ----------
        median : float, default 0
        sigma : float, default 1
            Half of the width at half of the height.
        generator : Generator or None
            What draws; None means the default one.

        Raises
        ------
        DomainError
            If `sigma` is not above 0.
        DTypeError
            If the dtype is not a float one.
        """
        need_real_float("cauchy_", x=self)
        if not sigma > 0:
            raise DomainError(f"cauchy_: sigma is {sigma!r}; it must be above 0")
        return assign(self, _uniform_angle(self, generator).tan() * sigma + median)

    def log_normal_(
        self: Tensor,
        mean: float = 1.0,
        std: float = 2.0,
        *,
        generator: Generator | None = None,
    ) -> Tensor:
        """Replace the elements, which are floats, by exponentials of normal draws.

        Parameters
        ----------
        mean, std : float, default 1, 2
            Of the normal draws.
        generator : Generator or None
            What draws; None means the default one.

        Raises
        ------
        DomainError
            If `std` is not above 0.
        DTypeError
            If the dtype is not a float one.
        """
        need_real_float("log_normal_", x=self)
        if not std > 0:
            raise DomainError(f"log_normal_: std is {std!r}; it must be above 0")
        like = self.detach()
        drawn = ops.draw_normal(like, like.shape, like.dtype, generator)
        return assign(self, ops.exp(drawn * std + mean))

    def geometric_(
        self: Tensor, p: float, *, generator: Generator | None = None
    ) -> Tensor:
        """Replace the elements by numbers of trials up to the first success.

        Parameters
        ----------
        p : float
            Probability of success, between 0 and 1.
        generator : Generator or None
            What draws; None means the default one.

        Raises
        ------
        DomainError
            If `p` is not between 0 and 1.
        DTypeError
            If the dtype is bool or complex.
        """
        need_real_numbers("geometric_", x=self)
        if not 0 < p < 1:
            raise DomainError(f"geometric_: p is {p!r}; it must be between 0 and 1")
        like = self.detach()
        drawn = ops.draw_exponential(like, like.shape, float32, generator)
        return assign(self, ops.floor(drawn * (-1.0 / math.log1p(-p))) + 1.0)

    def bernoulli_(
        self: Tensor, p: Tensor | float = 0.5, generator: Generator | None = None
    ) -> Tensor:
        """Replace the elements by 1 with probability `p`, otherwise 0.

        Parameters
        ----------
        p : Tensor or float, default 0.5
            From 0 to 1; a tensor, of a shape that broadcasts to this one, has the
            probability of each element.
        generator : Generator or None
            What draws; None means the default one.

        Raises
        ------
        ShapeError
            If a number is not from 0 to 1, or shapes do not broadcast.
        DTypeError
            If the dtype is complex.
        """
        refuse_complex("bernoulli_", x=self)
        return fill_bernoulli(self, p, generator)

    def random_(
        self: Tensor,
        low: int | None = None,
        high: int | None = None,
        *,
        to: int | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """Replace the elements by integers: `random_()`, `random_(to)`, or both bounds.

        Parameters
        ----------
        low : int or None
            The least; alone it is `to`, and the least is 0.
        high, to : int or None
            Before which the integers are; None means one more than the largest that
            the dtype holds, a float exactly, or the largest int64.
        generator : Generator or None
            None means the default one.

        Raises
        ------
        ShapeError
            If there is no such integer.
        DTypeError
            If the dtype does not hold them all.
        """
        refuse_complex("random_", x=self)
        high = to if high is None else high
        if high is None:
            low, high = None, low
        return fill_integers(self, low or 0, high, generator)


def _uniform_angle(x: Tensor, generator: Generator | None) -> Tensor:
    """Return angles from -pi / 2 to pi / 2, neither of them."""
    drawn = ops.draw_uniform(x.detach(), x.shape, float32, generator)
    angle: Tensor = (drawn - (0.5 - 2.0**-25)) * math.pi
    return angle


def _unexpanded(x: Tensor) -> Tensor:
    """Return a view of `x` that has each element of an expanded dimension once."""
    pairs = [*zip(x.layout.strides, x.layout.shape, strict=True)]
    if all(stride or size < 2 for stride, size in pairs):
        return x
    view: Tensor = ops.slice_(
        x, tuple(slice(None) if stride else slice(1) for stride, _ in pairs)
    )
    return view
