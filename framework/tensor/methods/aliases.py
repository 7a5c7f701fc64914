"""Other names of methods, which PyTorch has for NumPy's sake; a line for each."""

from ... import ops
from .elementwise import UnaryMethods
from .inplace import InPlaceUnaryMethods
from .inplace_several import InPlaceBinaryMethods
from .several import BinaryMethods


class AliasMethods:
    """Methods under a second name."""

    __slots__ = ()

    absolute = UnaryMethods.abs
    arccos = UnaryMethods.acos
    arccosh = UnaryMethods.acosh
    arcsin = UnaryMethods.asin
    arcsinh = UnaryMethods.asinh
    arctan = UnaryMethods.atan
    arctanh = UnaryMethods.atanh
    fix = UnaryMethods.trunc
    negative = UnaryMethods.neg
    arctan2 = BinaryMethods.atan2
    clip = BinaryMethods.clamp
    divide = BinaryMethods.div
    greater = BinaryMethods.gt
    greater_equal = BinaryMethods.ge
    less = BinaryMethods.lt
    less_equal = BinaryMethods.le
    multiply = BinaryMethods.mul
    not_equal = BinaryMethods.ne
    subtract = BinaryMethods.sub
    true_divide = BinaryMethods.div
    moveaxis = ops.movedim
    swapaxes = ops.swapaxes
    swapdims = ops.transpose
    ger = ops.outer

    absolute_ = InPlaceUnaryMethods.abs_
    arccos_ = InPlaceUnaryMethods.acos_
    arccosh_ = InPlaceUnaryMethods.acosh_
    arcsin_ = InPlaceUnaryMethods.asin_
    arcsinh_ = InPlaceUnaryMethods.asinh_
    arctan_ = InPlaceUnaryMethods.atan_
    arctanh_ = InPlaceUnaryMethods.atanh_
    fix_ = InPlaceUnaryMethods.trunc_
    negative_ = InPlaceUnaryMethods.neg_
    arctan2_ = InPlaceBinaryMethods.atan2_
    clip_ = InPlaceBinaryMethods.clamp_
    divide_ = InPlaceBinaryMethods.div_
    greater_ = InPlaceBinaryMethods.gt_
    greater_equal_ = InPlaceBinaryMethods.ge_
    less_ = InPlaceBinaryMethods.lt_
    less_equal_ = InPlaceBinaryMethods.le_
    multiply_ = InPlaceBinaryMethods.mul_
    not_equal_ = InPlaceBinaryMethods.ne_
    subtract_ = InPlaceBinaryMethods.sub_
    true_divide_ = InPlaceBinaryMethods.div_
