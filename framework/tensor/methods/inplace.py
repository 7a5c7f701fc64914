"""In-place forms of functions of each element alone."""

from ... import ops
from .operand import in_place


class InPlaceUnaryMethods:
    """Methods that replace the elements by a function of each; see `ops`."""

    __slots__ = ()

    abs_ = in_place(ops.abs)
    acos_ = in_place(ops.acos)
    acosh_ = in_place(ops.acosh)
    asin_ = in_place(ops.asin)
    asinh_ = in_place(ops.asinh)
    atan_ = in_place(ops.atan)
    atanh_ = in_place(ops.atanh)
    bitwise_not_ = in_place(ops.bitwise_not)
    ceil_ = in_place(ops.ceil)
    cos_ = in_place(ops.cos)
    cosh_ = in_place(ops.cosh)
    erf_ = in_place(ops.erf)
    erfc_ = in_place(ops.erfc)
    exp_ = in_place(ops.exp)
    exp2_ = in_place(ops.exp2)
    expm1_ = in_place(ops.expm1)
    floor_ = in_place(ops.floor)
    frac_ = in_place(ops.frac)
    log_ = in_place(ops.log)
    log10_ = in_place(ops.log10)
    log1p_ = in_place(ops.log1p)
    log2_ = in_place(ops.log2)
    logical_not_ = in_place(ops.logical_not)
    nan_to_num_ = in_place(ops.nan_to_num)
    neg_ = in_place(ops.neg)
    reciprocal_ = in_place(ops.reciprocal)
    relu_ = in_place(ops.relu)
    round_ = in_place(ops.round)
    rsqrt_ = in_place(ops.rsqrt)
    sigmoid_ = in_place(ops.sigmoid)
    sign_ = in_place(ops.sign)
    sin_ = in_place(ops.sin)
    sinh_ = in_place(ops.sinh)
    sqrt_ = in_place(ops.sqrt)
    square_ = in_place(ops.square)
    tan_ = in_place(ops.tan)
    tanh_ = in_place(ops.tanh)
    trunc_ = in_place(ops.trunc)
