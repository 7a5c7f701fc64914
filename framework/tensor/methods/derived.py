"""Methods for functions that are written with others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import ops
from ...base.errors import DTypeError, ShapeError
from ...base.validation import several
from ...ops import matrix_functions
from ...ops.elementwise.cast import need_real_float
from ..inplace import change
from .operand import in_place

if TYPE_CHECKING:
    from ..tensor import Tensor


class DerivedMethods:
    """What `Tensor` has of `ops` that are written with other ops; see there."""

    __slots__ = ()

    def hardshrink(self: Tensor, lambd: float = 0.5) -> Tensor:
        """Return 0 where an element is at most `lambd` from 0, else the element.

        Parameters
        ----------
        lambd : number, default 0.5
            At least 0.

        Raises
        ------
        DTypeError
            If the dtype is not a float one.
        """
        need_real_float("hardshrink", input=self)
        return ops.where(ops.abs(self) <= lambd, 0.0, self)

    def float_power_(self: Tensor, exponent: Tensor | complex) -> Tensor:
        """Replace the elements by powers; see `float_power`.

        Parameters
        ----------
        exponent : Tensor or number

        Raises
        ------
        DTypeError
            If the tensor is neither float64 nor complex128, of which the powers are.
        """
        wide = ops.float_power(self, exponent)
        if self.dtype is not wide.dtype:
            raise DTypeError(
                f"float_power_: the tensor is {self.dtype.name}, its powers are"
                f" {wide.dtype.name}; write x = x.float_power(exponent)"
            )
        return change(self, ops.float_power, exponent)

    addbmm = ops.addbmm
    addmv = ops.addmv
    addr = ops.addr
    adjoint = ops.adjoint
    conj_physical = ops.conj_physical
    istft = ops.istft
    stft = ops.stft
    conj_physical_ = in_place(ops.conj_physical)
    aminmax = ops.aminmax
    angle = ops.angle
    argwhere = ops.argwhere
    as_strided = ops.as_strided
    as_strided_scatter = ops.as_strided_scatter
    corrcoef = ops.corrcoef
    cov = ops.cov
    cross = ops.cross
    cummax = ops.cummax
    cummin = ops.cummin
    deg2rad = ops.deg2rad
    diagflat = ops.diagflat
    diagonal_scatter = ops.diagonal_scatter
    digamma = ops.digamma
    dist = ops.dist
    erfinv = ops.erfinv
    fliplr = ops.fliplr
    flipud = ops.flipud
    float_power = ops.float_power
    fmax = ops.fmax
    fmin = ops.fmin
    frexp = ops.frexp
    gcd = ops.gcd
    heaviside = ops.heaviside
    histogram = ops.histogram
    i0 = ops.i0
    index_reduce = ops.index_reduce
    igamma = ops.igamma
    igammac = ops.igammac
    inner = ops.inner
    is_same_size = ops.is_same_size
    isneginf = ops.isneginf
    isposinf = ops.isposinf
    isreal = ops.isreal
    kron = ops.kron
    lcm = ops.lcm
    ldexp = ops.ldexp
    lgamma = ops.lgamma
    logaddexp2 = ops.logaddexp2
    logcumsumexp = ops.logcumsumexp
    logit = ops.logit
    matrix_power = matrix_functions.matrix_power
    mode = ops.mode
    msort = ops.msort
    mvlgamma = ops.mvlgamma
    nanmedian = ops.nanmedian
    nanquantile = ops.nanquantile
    nextafter = ops.nextafter
    positive = ops.positive
    quantile = ops.quantile
    rad2deg = ops.rad2deg
    renorm = ops.renorm
    select_scatter = ops.select_scatter
    sgn = ops.sgn
    signbit = ops.signbit
    sinc = ops.sinc
    slice_scatter = ops.slice_scatter
    sum_to_size = ops.sum_to_size
    unique_consecutive = ops.unique_consecutive
    xlogy = ops.xlogy

    def hsplit(self: Tensor, *parts: Any, **named: Any) -> tuple[Tensor, ...]:
        """Return views of parts along the second dimension; see `ops.hsplit`.

        Parameters
        ----------
        *parts, **named : int, or one sequence of int
            How many equal parts, or as several ints where parts begin.
        """
        return ops.hsplit(self, *several(parts), **named)

    def vsplit(self: Tensor, *parts: Any, **named: Any) -> tuple[Tensor, ...]:
        """Return views of parts along the first dimension; see `ops.vsplit`.

        Parameters
        ----------
        *parts, **named : int, or one sequence of int
            How many equal parts, or as several ints where parts begin.
        """
        return ops.vsplit(self, *several(parts), **named)

    def dsplit(self: Tensor, *parts: Any, **named: Any) -> tuple[Tensor, ...]:
        """Return views of parts along the third dimension; see `ops.dsplit`.

        Parameters
        ----------
        *parts, **named : int, or one sequence of int
            How many equal parts, or as several ints where parts begin.
        """
        return ops.dsplit(self, *several(parts), **named)

    def polygamma(self: Tensor, n: int) -> Tensor:
        """Return the polygamma function of order `n`, which is at least 0.

        Parameters
        ----------
        n : int
            The order.
        """
        return ops.polygamma(n, self)

    addbmm_ = in_place(ops.addbmm)
    addmv_ = in_place(ops.addmv)
    addr_ = in_place(ops.addr)
    deg2rad_ = in_place(ops.deg2rad)
    digamma_ = in_place(ops.digamma)
    erfinv_ = in_place(ops.erfinv)
    gcd_ = in_place(ops.gcd)
    heaviside_ = in_place(ops.heaviside)
    i0_ = in_place(ops.i0)
    index_reduce_ = in_place(ops.index_reduce)
    igamma_ = in_place(ops.igamma)
    igammac_ = in_place(ops.igammac)
    lcm_ = in_place(ops.lcm)
    ldexp_ = in_place(ops.ldexp)
    lgamma_ = in_place(ops.lgamma)
    logit_ = in_place(ops.logit)
    mvlgamma_ = in_place(ops.mvlgamma)
    nextafter_ = in_place(ops.nextafter)
    rad2deg_ = in_place(ops.rad2deg)
    renorm_ = in_place(ops.renorm)
    sgn_ = in_place(ops.sgn)
    sinc_ = in_place(ops.sinc)
    xlogy_ = in_place(ops.xlogy)

    def polygamma_(self: Tensor, n: int) -> Tensor:
        """Change in place by `polygamma`.

        Parameters
        ----------
        n : int
            The order, at least 0.
        """
        return change(self, lambda x: ops.polygamma(n, x))

    def fill_diagonal_(self: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
        """Set the elements whose indices are all the same; return the tensor.

        Parameters
        ----------
        fill_value : number
            Cut to an integer where this tensor has integers.
        wrap : bool, default False
            Go on after the end of a tall matrix, below a row left out.

        Raises
        ------
        ShapeError
            If there is one dimension, or more than two of different sizes.
        """
        if self.ndim < 2 or (self.ndim > 2 and len(set(self.shape)) > 1):
            raise ShapeError(
                f"fill_diagonal_: x is {self.shape}; it must be a matrix, or have equal"
                " sizes"
            )
        if self.ndim > 2:
            steps = (sum(self.layout.strides),)
            ops.as_strided(self.detach(), self.shape[:1], steps).fill_(fill_value)
            return self
        ops.diagonal(self).fill_(fill_value)
        rows, columns = self.shape
        if wrap:
            for start in range(columns + 1, rows, columns + 1):
                ops.diagonal(self[start:]).fill_(fill_value)
        return self
