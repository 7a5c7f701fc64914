"""Creation ops: values computed inside fused kernels, which read no memory.

Each op's first parameter is a tensor that gives class and device; its elements are not
read. `shape` and `dtype` are the result's, and an op's dtypes are what that may be. The
other parameters are numbers that the expression is over, beside `i`, the row-major
number of an element, or a draw `u`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..base.device import META, GpuDevice
from ..base.dtype import (
    BOOL,
    FLOAT,
    FLOAT8,
    NUMERIC,
    STORED,
    DType,
    float32,
    int32,
    int64,
    takes,
    uint32,
)
from ..base.errors import DTypeError, Float8Error, ShapeError
from ..base.philox import (
    Generator,
    Stream,
    bits,
    default_generator,
    exponential,
    integers,
    normal,
    uniform,
)
from ..base.shape import Layout, Shape, Size
from ..base.validation import as_ints, check_numel
from ..dispatch import batching
from ..dispatch.call_cache import CallCache
from ..dispatch.op import Op, need_feature, submit_node
from ..dispatch.scalar import number, scalar_items
from ..eager.base_tensor import TensorCore
from ..eager.node_recorder import recorded_result
from ..ir.kernel_call import divisor
from ..ir.lazy_graph import PLAIN, Node, NodeSignature, cache_key

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor

STARTS = {
    "index": ("i", uint32),
    "random": ("u", float32),
    "normal": ("u", float32),
    "exponential": ("u", float32),
    "bits": ("u", uint32),
}
"""Name and dtype of the leaf value of an expression."""

_REPEATED = frozenset({*PLAIN, float, tuple, Size})
"""Types of arguments of cached calls; numbers that replays read again are others."""

_INTEGERS = frozenset({int})

MOST_INDEXED = 1 << 31
"""Elements that a non-negative int32 tells apart."""


class _CachedSource(NamedTuple):
    """Cached call: validated, with its node's signature, and numbers but a stream's."""

    generation: int
    signature: NodeSignature
    numbers: tuple[Any, ...]


class Source(Op[..., Any]):
    """Creation op, whose elements depend on their index and on numbers alone."""

    is_elementwise = True

    def __init__(
        self,
        function: Callable[..., Any],
        glsl: str,
        start: str | None,
        results: tuple[DType, ...],
        compute: DType | None,
    ) -> None:
        super().__init__(function, results)
        self.results = results
        self.glsl = self.complex_glsl = glsl
        self.compute = compute
        self.numbers = tuple(
            name
            for name in self.names
            if name not in ("like", "stream", "shape", "dtype")
        )
        self.operands = self.numbers
        self.call_cache: CallCache[_CachedSource] = CallCache()
        self.draws = "stream" in self.names
        assert not self.draws or self.names[1] == "stream", self.name
        if start is not None:
            name, dtype = STARTS[start]
            self.source = (start, dtype)
            self.operands = (name, *self.numbers)

    def reference(self, rule: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        """Declare the NumPy reference over shape, dtype and the rest."""
        self.host = rule
        return rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the op; a call seen before records its node at once."""
        if (
            kwargs
            or len(args) != len(self.names)
            or not isinstance(args[0], TensorCore)
            or type(args[0].layout) is not Layout  # batched, or made of others
            or not isinstance(device := args[0].device, GpuDevice)
        ):
            return super().__call__(*args, **kwargs)
        rest, stream = args[1:], ()
        if self.draws:
            # Words that a replay takes anew are no ints.
            stream, rest = args[1], args[2:]
            if batching.has_rules or not _INTEGERS.issuperset(map(type, stream)):
                return super().__call__(*args)
        if not _REPEATED.issuperset(map(type, rest)):
            return super().__call__(*args)
        marks = [cache_key(each) for each in rest]
        if None in marks:
            return super().__call__(*args)
        key = (device, *marks)
        cached = self.call_cache[key]
        if cached is not None and cached.generation == device.generation:
            _, signature, numbers = cached
            if stream:
                numbers = (*stream, *numbers)
            with device.lock:
                return recorded_result(signature, (), numbers, args[0].results, device)
        made = super().__call__(*args)
        if (node := made.array.value.node) is not None:
            numbers = node.numbers[len(stream) :]
            entry = _CachedSource(device.generation, node.signature, numbers)
            self.call_cache.add(key, entry)
        return made

    def forget(self) -> None:
        """Drop cached calls."""
        super().forget()
        self.call_cache.clear()

    def _record(self, *_: Any) -> None:
        """Leave no tape entry: the result does not depend on `like`'s elements."""

    def _apply(
        self, bound: dict[str, Any], tensors: dict[str, Any]
    ) -> tuple[TensorCore, ...]:
        like = bound.pop("like")
        dtype, shape = bound["dtype"], as_ints(f"{self.name}: shape", bound["shape"])
        check_numel(self.name, shape)
        if not takes(self.results, dtype):
            error = Float8Error if dtype in FLOAT8 else DTypeError
            raise error(
                f"{self.name}: dtype is {dtype.name}; accepted:"
                f" {', '.join(each.name for each in self.results)}"
            )
        compute = self.compute or dtype
        for name in self.numbers:
            bound[name] = number(self.name, compute, bound[name])
        if like.device is META:
            return (type(like).without_data(shape, dtype),)
        if not isinstance(like.device, GpuDevice):
            with np.errstate(all="ignore"):
                array = self.host(**{**bound, "shape": shape})
            return (type(like).from_host(array.reshape(shape), like.device, dtype),)
        for each in (compute, dtype):
            need_feature(self.name, each, like.device)
        layout = Layout.contiguous(shape)
        if self.source is not None and layout.numel > MOST_INDEXED:
            raise ShapeError(
                f"{self.name}: shape {shape} has {layout.numel} elements; devices take"
                f" at most {MOST_INDEXED}"
            )
        words = [(f"word{k}", word) for k, word in enumerate(bound.get("stream", ()))]
        numbers = {name: bound[name] for name in self.numbers}
        scalars = (*words, *scalar_items(compute, numbers))
        params = (("compute", compute), ("result", dtype), ("tensors", ()))
        node = Node.of(self, (), (layout,), (dtype,), params, scalars)
        with like.device.lock:
            return submit_node(like, node)


def source(
    *,
    glsl: str,
    dtypes: tuple[DType, ...],
    start: str | None = None,
    compute: DType | None = None,
) -> Callable[[Callable[..., Any]], Source]:
    """Declare an op that makes elements from numbers.

    Parameters
    ----------
    glsl : str
        Expression over the numbers and what it starts from.
    dtypes : tuple of DType
        What the result may be.
    start : str or None
        A key of `STARTS`.
    compute : DType or None
        What the numbers are; None means the dtype of the result.
    """
    return lambda function: Source(function, glsl, start, dtypes, compute)


@source(glsl="value", dtypes=STORED)
def fill_like(like: Tensor, shape: Shape, value: float, dtype: DType) -> Tensor:
    """Return a tensor with every element `value`, on the device of `like`."""
    raise NotImplementedError


@fill_like.reference
def fill_like_reference(shape: Shape, value: float, dtype: DType) -> np.ndarray:
    return np.full(shape, value, dtype.numpy)


@source(glsl="start + step * i", start="index", dtypes=NUMERIC)
def arange_like(
    like: Tensor, shape: Shape, start: float, step: float, dtype: DType
) -> Tensor:
    """Return `start` plus `step` times the number of each element; integers wrap."""
    raise NotImplementedError


@arange_like.reference
def arange_like_reference(
    shape: Shape, start: float, step: float, dtype: DType
) -> np.ndarray:
    kind = dtype.arithmetic.type
    numbers = np.arange(math.prod(shape)).astype(kind)
    return kind(start) + kind(step) * numbers


@source(
    glsl="i < 0.5 * last ? fma(step, i, start) : fma(-step, last - i, end)",
    start="index",
    dtypes=FLOAT,
)
def linspace_like(
    like: Tensor,
    shape: Shape,
    start: float,
    end: float,
    step: float,
    last: float,
    dtype: DType,
) -> Tensor:
    """Return numbers `step` apart, from `start` and, in the upper half, from `end`."""
    raise NotImplementedError


@linspace_like.reference
def linspace_like_reference(
    shape: Shape, start: float, end: float, step: float, last: float, dtype: DType
) -> np.ndarray:
    kind = dtype.arithmetic.type
    # Products are exact, as those of fma are, or nearly so of float64.
    wide: Any = np.longdouble if kind is np.float64 else np.float64
    i: Any = np.arange(math.prod(shape)).astype(kind).astype(wide)
    low, high, apart = (wide(kind(each)) for each in (start, end, step))
    line = np.where(i < 0.5 * last, low + apart * i, high - apart * (last - i))
    numbers: np.ndarray = line.astype(kind)
    return numbers


@source(
    glsl="in_band(i, rows, columns, low, high, ivec2(row_magic, row_shift),"
    " ivec2(column_magic, column_shift))",
    start="index",
    dtypes=BOOL,
    compute=int32,
)
def _band_like(
    like: Tensor,
    shape: Shape,
    rows: int,
    columns: int,
    low: int,
    high: int,
    row_magic: int,
    row_shift: int,
    column_magic: int,
    column_shift: int,
    dtype: DType,
) -> Tensor:
    """Return where column minus row is from `low` to `high`, for each matrix."""
    raise NotImplementedError


def band_like(
    like: Tensor,
    shape: Shape,
    rows: int,
    columns: int,
    low: int,
    high: int,
    dtype: DType,
) -> Tensor:
    """Return where column minus row is from `low` to `high`, for each matrix."""
    by = [*divisor(max(rows, 1)), *divisor(max(columns, 1))]
    # As int32, in which the kernel has numbers.
    words = [each - (1 << 32) if each >= 1 << 31 else each for each in by]
    made: Tensor = _band_like(like, shape, rows, columns, low, high, *words, dtype)
    return made


@_band_like.reference
def _band_like_reference(
    shape: Shape, rows: int, columns: int, low: int, high: int, dtype: DType, **_: int
) -> np.ndarray:
    apart = np.arange(columns) - np.arange(rows)[:, None]
    inside = (apart >= low) & (apart <= high)
    return np.broadcast_to(inside, shape)


@source(glsl="u", start="random", dtypes=FLOAT, compute=float32)
def uniform_like(like: Tensor, stream: Stream, shape: Shape, dtype: DType) -> Tensor:
    """Return draws from [0, 1), multiples of 2^-24, rounded to `dtype`."""
    raise NotImplementedError


@uniform_like.reference
def uniform_like_reference(stream: Stream, shape: Shape, dtype: DType) -> np.ndarray:
    return uniform(math.prod(shape), stream)


@source(glsl="u", start="normal", dtypes=FLOAT, compute=float32)
def normal_like(like: Tensor, stream: Stream, shape: Shape, dtype: DType) -> Tensor:
    """Return standard normal draws."""
    raise NotImplementedError


@normal_like.reference
def normal_like_reference(stream: Stream, shape: Shape, dtype: DType) -> np.ndarray:
    return normal(math.prod(shape), stream)


@source(glsl="u", start="exponential", dtypes=FLOAT, compute=float32)
def exponential_like(
    like: Tensor, stream: Stream, shape: Shape, dtype: DType
) -> Tensor:
    """Return draws from the exponential distribution of mean 1."""
    raise NotImplementedError


@exponential_like.reference
def exponential_like_reference(
    stream: Stream, shape: Shape, dtype: DType
) -> np.ndarray:
    return exponential(math.prod(shape), stream)


@source(glsl="low + below(u, uint(span))", start="bits", dtypes=(int32, int64))
def integers_like(
    like: Tensor, stream: Stream, shape: Shape, low: int, span: int, dtype: DType
) -> Tensor:
    """Return draws from the `span` integers from `low` on, modulo 2^32."""
    raise NotImplementedError


@integers_like.reference
def integers_like_reference(
    stream: Stream, shape: Shape, low: int, span: int, dtype: DType
) -> np.ndarray:
    draws = integers(math.prod(shape), stream, span % (1 << 32) or 1 << 32)
    return draws.astype(dtype.numpy) + dtype.numpy.type(low)


@source(glsl="u", start="bits", dtypes=(uint32,))
def random_bits_like(
    like: Tensor, stream: Stream, shape: Shape, dtype: DType
) -> Tensor:
    """Return draws of 32 bits."""
    raise NotImplementedError


@random_bits_like.reference
def random_bits_like_reference(
    stream: Stream, shape: Shape, dtype: DType
) -> np.ndarray:
    return bits(math.prod(shape), stream)


def stream_for(like: Tensor, generator: Generator | None = None) -> Stream:
    """Return the next call's stream of a generator, None meaning the default one.

    For a tensor on the meta device, for which nothing is drawn, none is taken.
    """
    if like.device is META:
        return 0, 0, 0, 0
    return (generator or default_generator).stream()


def random_uniform(like: Tensor, stream: Stream) -> Tensor:
    """Return uniform float32 draws from [0, 1) in the shape of `like`.

    Parameters
    ----------
    like : Tensor
        Gives shape and device; its elements are not read.
    stream : tuple of int
        Which draws, from `Generator.stream`; the same on every device.
    """
    drawn: Tensor = uniform_like(like, stream, like.layout.shape, float32)
    return drawn
