"""The methods of tensors, by family: one line for each, with the op behind it."""

from .binary import BinaryMethods
from .choice import ChoiceMethods
from .fill import FillMethods
from .inplace_binary import InPlaceBinaryMethods
from .inplace_unary import InPlaceUnaryMethods
from .movement import MovementMethods
from .operator import Operators
from .product import ProductMethods
from .reduction import ReductionMethods
from .unary import UnaryMethods

__all__ = [
    "BinaryMethods",
    "ChoiceMethods",
    "FillMethods",
    "InPlaceBinaryMethods",
    "InPlaceUnaryMethods",
    "MovementMethods",
    "Operators",
    "ProductMethods",
    "ReductionMethods",
    "UnaryMethods",
]
