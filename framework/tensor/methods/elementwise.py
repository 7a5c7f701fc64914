"""Methods for functions of each element alone."""

from ... import ops


class UnaryMethods:
    """What `Tensor` has of `ops` of one tensor; see there."""

    __slots__ = ()

    abs = ops.abs
    acos = ops.acos
    acosh = ops.acosh
    asin = ops.asin
    asinh = ops.asinh
    atan = ops.atan
    atanh = ops.atanh
    ceil = ops.ceil
    cos = ops.cos
    cosh = ops.cosh
    erf = ops.erf
    erfc = ops.erfc
    exp = ops.exp
    exp2 = ops.exp2
    expm1 = ops.expm1
    floor = ops.floor
    frac = ops.frac
    isfinite = ops.isfinite
    isinf = ops.isinf
    isnan = ops.isnan
    log = ops.log
    log10 = ops.log10
    log1p = ops.log1p
    log2 = ops.log2
    logical_not = ops.logical_not
    bitwise_not = ops.bitwise_not
    nan_to_num = ops.nan_to_num
    neg = ops.neg
    prelu = ops.prelu
    reciprocal = ops.reciprocal
    relu = ops.relu
    round = ops.round
    rsqrt = ops.rsqrt
    sigmoid = ops.sigmoid
    sign = ops.sign
    sin = ops.sin
    sinh = ops.sinh
    sqrt = ops.sqrt
    square = ops.square
    tan = ops.tan
    tanh = ops.tanh
    trunc = ops.trunc
