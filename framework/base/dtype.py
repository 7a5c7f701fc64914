"""Dtypes: the table of them, and their promotion.

A dtype is stored on the device exactly as NumPy stores it. Shaders read storage as
32-bit words and unpack it, so the 1- and 2-byte types need no optional device feature;
the 8-byte real types need 64-bit arithmetic in shaders.

A complex64 is a pair of float32, real part first, and shaders compute it as vec2. There
is no complex128 on devices.

NumPy has no bfloat16: on the host it is stored as uint16, the upper half of a float32,
and read as float32, which holds every bfloat16.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .errors import DTypeError, Float8Error
from .float8 import FORMATS, decode_float8, encode_float8


# Each name stands once in the table, so identity decides (no `eq`); this also keeps the
# keys of the caches cheap to hash.
@dataclass(frozen=True, eq=False)
class DType:
    """Dtype: the type of an element.

    Its `repr` is PyTorch's, so that what programs print stays the same.

    Parameters
    ----------
    name : str
        PyTorch's name, which is also NumPy's where NumPy has the type.
    kind : str
        "bool", "uint", "int", "float" or "complex".
    itemsize : int
        Size of one element in bytes.
    glsl : str
        Type that shaders compute in; the 2-byte floats compute in float32.
    feature : str or None
        The `DeviceInfo` field that must be true for shaders to compute in it.
    """

    name: str
    kind: str
    itemsize: int
    glsl: str
    feature: str | None = None

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Callable[..., DType], tuple[str]]:
        return as_dtype, (self.name,)

    @functools.cached_property
    def numpy(self) -> np.dtype:
        """The NumPy dtype of the elements on the host: float32 for encoded ones."""
        return np.dtype(np.float32 if self.is_encoded else self.name)

    @functools.cached_property
    def storage(self) -> np.dtype:
        """The NumPy dtype of the elements in memory: unsigned for encoded ones."""
        return np.dtype(f"u{self.itemsize}" if self.is_encoded else self.name)

    @functools.cached_property
    def is_encoded(self) -> bool:
        """Whether NumPy has no such type: bfloat16, and the floats of 8 bits."""
        return self.name == "bfloat16" or self.name in FORMATS

    @functools.cached_property
    def arithmetic(self) -> np.dtype:
        """The NumPy dtype that element-wise ops compute in on the host."""
        return np.dtype(np.float32) if self is float16 else self.numpy

    @functools.cached_property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest number that a bool or integer dtype holds."""
        if self.kind == "bool":
            return 0, 1
        bits = 8 * self.itemsize
        if self.kind == "uint":
            return 0, (1 << bits) - 1
        return -(1 << bits - 1), (1 << bits - 1) - 1

    @functools.cached_property
    def storage_feature(self) -> str | None:
        """The `DeviceInfo` field that a shader needs whose buffers have this type."""
        return {1: "storage_8bit", 2: "storage_16bit"}.get(self.itemsize, self.feature)

    @functools.cached_property
    def is_float(self) -> bool:
        """Whether it is a float dtype."""
        return self.kind == "float"

    @functools.cached_property
    def is_differentiable(self) -> bool:
        """Whether gradients can flow through it."""
        return self.kind in ("float", "complex")

    @functools.cached_property
    def is_floating_point(self) -> bool:
        """Whether it is a float dtype."""
        return self.kind == "float"

    @functools.cached_property
    def is_complex(self) -> bool:
        """Whether its numbers are complex."""
        return self.kind == "complex"

    @functools.cached_property
    def is_signed(self) -> bool:
        """Whether it has negative numbers."""
        return self.kind in ("int", "float", "complex")

    def to_real(self) -> DType:
        """Return the dtype of real parts: of a real dtype itself."""
        return _REAL_PARTS.get(self.name, self)

    def to_complex(self) -> DType:
        """Return the complex dtype of such parts: complex64 of 2-byte floats."""
        if self.kind == "complex":
            return self
        return complex128 if self is float64 else complex64


bool_ = DType("bool", "bool", 1, "bool")
uint8 = DType("uint8", "uint", 1, "uint")
uint16 = DType("uint16", "uint", 2, "uint")
uint32 = DType("uint32", "uint", 4, "uint")
uint64 = DType("uint64", "uint", 8, "uint64_t", "shader_int64")
int8 = DType("int8", "int", 1, "int")
int16 = DType("int16", "int", 2, "int")
int32 = DType("int32", "int", 4, "int")
int64 = DType("int64", "int", 8, "int64_t", "shader_int64")
float16 = DType("float16", "float", 2, "float")
bfloat16 = DType("bfloat16", "float", 2, "float")
float8_e4m3fn = DType("float8_e4m3fn", "float", 1, "float")
float8_e5m2 = DType("float8_e5m2", "float", 1, "float")
float8_e4m3fnuz = DType("float8_e4m3fnuz", "float", 1, "float")
float8_e5m2fnuz = DType("float8_e5m2fnuz", "float", 1, "float")
float32 = DType("float32", "float", 4, "float")
float64 = DType("float64", "float", 8, "double", "shader_float64")
complex64 = DType("complex64", "complex", 8, "vec2")
complex128 = DType("complex128", "complex", 16, "dvec2", "complex128")

complex32 = DType("complex32", "complex", 4, "none")
"""A name to ask for and compare: no tensor is of it."""

_REAL_PARTS = {"complex64": float32, "complex128": float64}

DTYPES = {
    dtype.name: dtype
    for dtype in (
        bool_, uint8, uint16, uint32, uint64, int8, int16, int32, int64,
        float16, bfloat16, float32, float64, complex64, complex128,
        float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz,
    )
}  # fmt: skip

BOOL = (bool_,)
UINT = (uint8, uint16, uint32, uint64)
INT = (int8, int16, int32, int64)
INTEGER = (*UINT, *INT)
FLOAT = (float16, bfloat16, float32, float64)
SINGLE = (float16, bfloat16, float32)
"""Floats that shaders compute in float32, for which GLSL has most functions."""
COMPLEX = (complex64, complex128)
NUMERIC = (*INTEGER, *FLOAT)
ANY = (*BOOL, *NUMERIC)
"""Every real dtype."""
STORED = (*ANY, *COMPLEX)
"""Every dtype: what only moves elements takes them all."""

FLOAT8 = (float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz)
"""Floats that are stored, moved and cast; what computes refuses them."""


def takes(dtypes: Sequence[DType], dtype: DType) -> bool:
    """Return whether a dtype is among those of an op.

    What takes every stored dtype takes the floats of 8 bits as well.
    """
    return dtype in dtypes or (dtype in FLOAT8 and tuple(dtypes) == STORED)


DTypeLike = DType | str | type | np.dtype
"""Accepted `dtype` arguments: a `DType`, a name, a Python type or a NumPy dtype."""


def as_dtype(value: DTypeLike) -> DType:
    """Return the `DType` of a name, a Python type or a NumPy dtype.

    Raises
    ------
    DTypeError
        If there is no such dtype.
    """
    if isinstance(value, DType):
        if value is complex32:
            raise DTypeError(
                "dtype: there are no elements of complex32, two numbers of 2 bytes; use"
                " complex64"
            )
        return value
    if isinstance(value, str) and value in DTYPES:
        return DTYPES[value]
    try:
        # NumPy takes None for float64, and numbers and arrays for their own.
        known = isinstance(value, str | type | np.dtype)
        return DTYPES[np.dtype(value).name if known else ""]
    except (KeyError, TypeError):
        names = ", ".join(DTYPES)
        raise DTypeError(f"dtype: {value!r} is unknown; accepted: {names}") from None


def promote(a: DType, b: DType) -> DType:
    """Return the promoted dtype of `a` and `b`.

    Within one kind the larger type wins, and float16 with bfloat16 gives float32; a
    float wins over every integer without growing (int64 with float32 is float32, as in
    PyTorch); a complex dtype wins over every real one, and float64 makes it complex128;
    a signed and an unsigned integer give the next larger signed one, as in NumPy, where
    PyTorch has uint8 alone.

    Raises
    ------
    DTypeError
        For uint64 with a signed integer, which no integer type can hold.
    """
    if a is b:
        return a
    if a in FLOAT8 or b in FLOAT8:
        raise Float8Error(
            f"promote: {a.name} and {b.name} are not promoted; cast one of them first"
        )
    if a.kind == b.kind:
        if a.itemsize == b.itemsize:
            return float32
        return a if a.itemsize > b.itemsize else b
    rank = ("bool", "uint", "int", "float", "complex")
    low, high = sorted((a, b), key=lambda dtype: rank.index(dtype.kind))
    if high.kind == "complex":
        return complex128 if low is float64 else high
    if low.kind == "bool" or high.kind == "float" or high.itemsize > low.itemsize:
        return high
    if low is uint64:
        raise DTypeError(
            f"promote: no integer holds both {a.name} and {b.name};"
            " cast one of them first"
        )
    return DTYPES[f"int{low.itemsize * 16}"]


def promote_types(a: DTypeLike, b: DTypeLike) -> DType:
    """Return the smallest dtype that two promote to.

    Parameters
    ----------
    a, b : DType or str
        `ops.result_type` takes tensors.

    Raises
    ------
    DTypeError
        For uint64 with a signed integer, which no integer type can hold.
    """
    return promote(as_dtype(a), as_dtype(b))


class Default:
    """The float dtype of what has no dtype of its own; see `defaults`."""

    dtype = float32


def default_dtype() -> DType:
    """Return the dtype of Python floats, and of factories that are given none."""
    return Default.dtype


def number_dtype(value: complex) -> DType:
    """Return the dtype of a Python number."""
    if isinstance(value, bool | np.bool_):
        return bool_
    if isinstance(value, complex | np.complexfloating):
        return Default.dtype.to_complex()
    return int64 if isinstance(value, int | np.integer) else Default.dtype


def combined(
    shaped: Sequence[DType],
    single: Sequence[DType] = (),
    numbers: Sequence[complex] = (),
) -> DType:
    """Return the promoted dtype of tensors and Python numbers.

    As in PyTorch, zero-dimensional tensors count only where their kind (bool,
    integer, float, complex) is higher than that of those with dimensions, and numbers
    only where theirs is higher than that of all tensors. An integer tensor with a
    Python float gives float32, a bool tensor with an int int64.

    Parameters
    ----------
    shaped, single : sequence of DType
        Of the tensors that have dimensions, and of those that have none.
    numbers : sequence of number
        At least one of all three is not empty.

    Raises
    ------
    DTypeError
        As `promote`.
    """
    kinds = [_promoted(each) for each in (shaped, single)]
    found = _over(kinds[0], _over(kinds[1], _promoted([*map(number_dtype, numbers)])))
    assert found is not None
    return found


def _promoted(dtypes: Sequence[DType]) -> DType | None:
    return functools.reduce(promote, dtypes) if dtypes else None


def _over(higher: DType | None, lower: DType | None) -> DType | None:
    """Return `higher`, promoted with `lower` where that is of a higher kind."""
    if higher is None or lower is None:
        return higher or lower
    if _KIND_RANK[lower.kind] > _KIND_RANK[higher.kind]:
        # A float keeps its precision.
        complex_float = lower.is_complex and higher.is_float
        return higher.to_complex() if complex_float else promote(higher, lower)
    return higher


_KIND_RANK = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}


def can_cast(source: DTypeLike, target: DTypeLike) -> bool:
    """Return whether an in-place change may convert one dtype to the other.

    Complex numbers do not become real, nor floats integers, nor anything but bools
    bools; see `convert` for values out of range.

    Parameters
    ----------
    source, target : DType or str
    """
    return _KIND_RANK[as_dtype(source).kind] <= _KIND_RANK[as_dtype(target).kind]


def convert(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Return the elements of an array as `dtype`, in `dtype.numpy`.

    A float is truncated towards zero to an integer. Floats beyond the integer's
    range give its nearest end, and NaN gives 0; integers wrap; rounding to a narrower
    float is to nearest, ties to even, and may give an infinity. A complex number
    becomes real by its real part, and true unless it is 0.
    """
    if array.dtype == dtype.numpy and not dtype.is_encoded:
        return array
    if array.dtype.kind == "c" and dtype.kind not in ("complex", "bool"):
        array = array.real
    if dtype.is_encoded:
        return decode(encode(array, dtype), dtype)
    if dtype.kind not in ("int", "uint") or array.dtype.kind != "f":
        with np.errstate(over="ignore", invalid="ignore"):
            return array.astype(dtype.numpy, copy=False)
    wide = array.astype(np.float64)
    low, high = dtype.limits
    # `float(high)` may be rounded up; every float below it still fits.
    under, over = wide <= low, wide >= float(high)
    inside = np.where(under | over | np.isnan(wide), 0, wide).astype(dtype.numpy)
    ends = dtype.numpy.type(low), dtype.numpy.type(high)
    return np.where(under, ends[0], np.where(over, ends[1], inside))


def encode(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Return the elements of an array as `dtype` stores them."""
    if not dtype.is_encoded:
        return convert(array, dtype)
    if array.dtype.kind == "c":
        array = array.real
    if dtype is not bfloat16:
        with np.errstate(over="ignore"):
            return encode_float8(array, dtype.name)
    with np.errstate(over="ignore"):
        bits = np.array(array, np.float32, order="C").view(np.uint32)
        rounded = bits + 0x7FFF + (bits >> 16 & 1)
    # Rounding could carry a NaN into the sign.
    kept = np.where(bits & 0x7FFFFFFF > 0x7F800000, bits | 1 << 22, rounded)
    return (kept >> 16).astype(np.uint16)


def decode(stored: np.ndarray, dtype: DType) -> np.ndarray:
    """Return stored elements in `dtype.numpy`: the same array unless it is encoded."""
    if not dtype.is_encoded:
        return stored
    if dtype is not bfloat16:
        return decode_float8(stored, dtype.name)
    return (stored.astype(np.uint32) << 16).view(np.float32)
