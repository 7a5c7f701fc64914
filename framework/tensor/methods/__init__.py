"""The methods of tensors, by family: one line for each, with the op behind it."""

from .aliases import AliasMethods
from .attributes import AttributeMethods
from .conversion import ConversionMethods
from .derived import DerivedMethods
from .elementwise import UnaryMethods
from .fill import FillMethods
from .indexing import ChoiceMethods
from .inplace import InPlaceUnaryMethods
from .inplace_several import InPlaceBinaryMethods
from .movement import MovementMethods
from .new import NewMethods
from .operators import Operators
from .product import ProductMethods
from .reduction import ReductionMethods
from .several import BinaryMethods
from .shape_in_place import ShapeInPlaceMethods
from .sparse import SparseMethods
from .subclass import SubclassMethods

__all__ = [
    "AliasMethods",
    "AttributeMethods",
    "BinaryMethods",
    "ChoiceMethods",
    "ConversionMethods",
    "DerivedMethods",
    "FillMethods",
    "InPlaceBinaryMethods",
    "InPlaceUnaryMethods",
    "MovementMethods",
    "NewMethods",
    "Operators",
    "ProductMethods",
    "ReductionMethods",
    "ShapeInPlaceMethods",
    "SparseMethods",
    "SubclassMethods",
    "UnaryMethods",
]
