"""Kernel classes of `bench growth`: what each computes at a size, and its work."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import vkbackend.framework as fw
from vkbackend.framework import Tensor
from vkbackend.framework.nn import functional

Run = Callable[[], Sequence[Tensor]]

COLUMNS = 1024
"""Columns where the rows grow."""

ROWS = 64
"""Rows where the columns grow."""


class Inputs:
    """Inputs of any size: views of one tensor for each kind, made once.

    Parameters
    ----------
    device : framework device
    most : int
        Elements of the largest.
    """

    def __init__(self, device: Any, most: int) -> None:
        self.device, self.most = device, most
        self._made: dict[tuple[str, int], Tensor] = {}

    def floats(self, *shape: int, dtype: str = "float32") -> Tensor:
        """Return random numbers from 0 to 1."""
        return self._view(dtype, 0, shape)

    def integers(self, below: int, *shape: int) -> Tensor:
        """Return random int32 numbers from 0 on."""
        return self._view("int32", below, shape)

    def marks(self, *shape: int) -> Tensor:
        """Return random bools."""
        return self._view("bool", 2, shape)

    def _view(self, dtype: str, below: int, shape: tuple[int, ...]) -> Tensor:
        count = math.prod(shape)
        made = self._made.get((dtype, below))
        if made is None or made.shape[0] < count:
            self._made.pop((dtype, below), None)
            length = max(count, min(self.most, 1 << 20))
            if below:
                made = fw.randint(0, below, (length,), device=self.device).to(dtype)
            else:
                made = fw.rand(length, dtype=dtype, device=self.device)
            fw.eval(made)
            self._made[dtype, below] = made
        return made[:count].reshape(*shape)

    def forget(self) -> None:
        """Let go of all tensors."""
        self._made.clear()


class Sized(NamedTuple):
    """A class at one size.

    Attributes
    ----------
    run : callable
    work : float
        What time should be in proportion to: bytes moved, or operations.
    """

    run: Run
    work: float


class KernelClass(NamedTuple):
    """A class of kernels.

    Attributes
    ----------
    name : str
    make : callable
        Takes `Inputs` and a number of elements.
    size : float
        Bytes of memory for each element, all tensors together.
    least : int
        Elements of the smallest size.
    """

    name: str
    make: Callable[[Inputs, int], Sized]
    size: float
    least: int


CLASSES: list[KernelClass] = []

Make = Callable[[Inputs, int], Sized]


def kernel_class(size: float, least: int = 1 << 10) -> Callable[[Make], Make]:
    """Declare a class by a function of its name; see `KernelClass`."""

    def add(make: Make) -> Make:
        CLASSES.append(KernelClass(make.__name__.strip("_"), make, size, least))
        return make

    return add


def _simple(name: str, moved: float, make: Callable[[Inputs, int], Run]) -> None:
    """Declare a class that moves so many bytes for each element."""
    CLASSES.append(
        KernelClass(name, lambda i, n: Sized(make(i, n), moved * n), moved + 4, 1 << 10)
    )


def _of(call: Callable[[Tensor], Any], x: Tensor) -> Run:
    def run() -> Sequence[Tensor]:
        found = call(x)
        return list(found) if isinstance(found, tuple) else [found]

    return run


def _of_floats(
    name: str, moved: float, call: Callable[[Tensor], Any], dtype: str = "float32"
) -> None:
    _simple(name, moved, lambda i, n: _of(call, i.floats(n, dtype=dtype)))


def _of_rows(name: str, moved: float, call: Callable[[Tensor], Any]) -> None:
    """Declare two classes: more rows of `COLUMNS`, and `ROWS` that grow longer."""

    def more(inputs: Inputs, n: int) -> Sized:
        x = inputs.floats(n // COLUMNS, COLUMNS)
        return Sized(_of(call, x), moved * x.numel())

    def longer(inputs: Inputs, n: int) -> Sized:
        x = inputs.floats(ROWS, n // ROWS)
        return Sized(_of(call, x), moved * x.numel())

    CLASSES.append(KernelClass(f"{name}, more rows", more, moved + 4, 4 * COLUMNS))
    CLASSES.append(KernelClass(f"{name}, longer rows", longer, moved + 4, 1 << 10))


def _gradient(call: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Any]:
    """Return the gradient of a function of rows, with the rows as incoming one."""

    def run(x: Tensor) -> Any:
        leaf = x.detach().requires_grad_()
        return fw.autograd.grad([call(leaf)], [leaf], [x])

    return run


def _normalized(x: Tensor) -> Tensor:
    return functional.layer_norm(x, (x.shape[1],))


def _entropy(x: Tensor) -> Tensor:
    labels = fw.zeros(x.shape[0], dtype="int64", device=x.device)
    return functional.cross_entropy(x, labels)


_of_floats("add", 8, lambda x: x + 1)
_of_floats("exp bfloat16", 4, fw.exp, "bfloat16")
_of_floats("cast to float16", 6, lambda x: x.to("float16"))
_of_floats("every second", 6, lambda x: x[::2].contiguous())
_of_floats("flip", 8, lambda x: fw.flip(x, (0,)))
_of_floats("roll", 8, lambda x: fw.roll(x, 1000, 0))
_of_floats("cat", 12, lambda x: fw.cat([x, x[1:]]) if x.shape[0] > 1 else x)
_of_floats("pad", 8, lambda x: functional.pad(x, (1, 2)))
_of_rows("transpose", 8, lambda x: x.T.contiguous())
_of_rows("row added", 8, lambda x: x + x[0])
_of_floats("sum", 4, fw.sum)
_of_floats("sum bfloat16", 2, fw.sum, "bfloat16")
_of_floats("argmax", 4, fw.argmax)
_of_floats("norm", 4, fw.linalg.norm)
_of_rows("sum of rows", 4, lambda x: x.sum(1))
_of_rows("sum of columns", 4, lambda x: x.sum(0))
_of_rows("argmax of rows", 4, lambda x: x.argmax(1))
_of_rows("softmax", 8, lambda x: functional.softmax(x, 1))
_of_rows("softmax gradient", 12, _gradient(lambda x: functional.softmax(x, 1)))
_of_rows("layer norm", 8, _normalized)
_of_rows("layer norm gradient", 12, _gradient(_normalized))
_of_rows("cross entropy", 4, _entropy)
_of_floats("cumsum", 8, lambda x: fw.cumsum(x, 0))
_of_rows("cumsum of rows", 8, lambda x: fw.cumsum(x, 1))
_of_rows("cumsum of columns", 8, lambda x: fw.cumsum(x, 0))
_of_floats("sort", 12, lambda x: tuple(fw.sort(x)))
_of_rows("sort of rows", 12, lambda x: tuple(fw.sort(x, 1)))
_of_floats("topk 8", 4, lambda x: tuple(fw.topk(x, 8)))
_of_rows("topk 8 of rows", 4, lambda x: tuple(fw.topk(x, 8, 1)))
_simple("sort int32", 12, lambda i, n: _of(fw.sort, i.integers(1 << 20, n)))
_simple("unique", 12, lambda i, n: _of(fw.unique, i.integers(1 << 10, n)))
_simple("bincount 256", 4, lambda i, n: _of(fw.bincount, i.integers(256, n)))
_simple("bincount 65536", 4, lambda i, n: _of(fw.bincount, i.integers(65536, n)))
_simple("nonzero", 9, lambda i, n: _of(fw.nonzero, i.marks(n)))


@kernel_class(20)
def _gather(inputs: Inputs, n: int) -> Sized:
    x, index = inputs.floats(1 << 10), inputs.integers(1 << 10, n)
    return Sized(lambda: [x[index]], 8 * n)


@kernel_class(20)
def _scatter_add(inputs: Inputs, n: int) -> Sized:
    x, index = inputs.floats(n), inputs.integers(1 << 10, n)
    into = inputs.floats(1 << 10)
    return Sized(lambda: [into.scatter_add(0, index.long(), x)], 8 * n)


@kernel_class(16)
def _rows_by_index(inputs: Inputs, n: int) -> Sized:
    table, index = inputs.floats(1 << 10, ROWS), inputs.integers(1 << 10, n // ROWS)
    return Sized(lambda: [fw.index_select(table, 0, index)], 8 * n)


@kernel_class(20)
def _rows_added_by_index(inputs: Inputs, n: int) -> Sized:
    rows = n // ROWS
    index, x = inputs.integers(1 << 10, rows), inputs.floats(rows, ROWS)
    into = inputs.floats(1 << 10, ROWS)
    return Sized(lambda: [into.index_add(0, index, x)], 8 * n)


@kernel_class(12)
def _searchsorted(inputs: Inputs, n: int) -> Sized:
    bounds = fw.arange(1 << 10, dtype="float32", device=inputs.device) / (1 << 10)
    fw.eval(bounds)
    return Sized(lambda: [fw.searchsorted(bounds, inputs.floats(n))], 12 * n)


def _product(name: str, least: int, shape: Callable[[int], Any], dtype: str) -> None:
    """Declare products of (batch, m, k, n) for a number of elements."""

    def make(inputs: Inputs, count: int) -> Sized:
        batch, m, k, n = shape(count)
        a = inputs.floats(batch, m, k, dtype=dtype)
        b = inputs.floats(batch, k, n, dtype=dtype)
        moved = 4 * batch * (m * k + k * n + m * n)
        # Operations in bytes of memory that a device moves meanwhile, about.
        return Sized(lambda: [a @ b], max(moved, 2 * batch * m * k * n / 16))

    CLASSES.append(KernelClass(f"{name} {dtype}", make, 16, least))


for _dtype in ("float32", "float16"):
    _product("square product", 1 << 10, lambda c: (1, *(math.isqrt(c),) * 3), _dtype)
    _product("one row", 1 << 14, lambda c: (1, 1, c // COLUMNS, COLUMNS), _dtype)
    _product("16 rows", 1 << 14, lambda c: (1, 16, c // COLUMNS, COLUMNS), _dtype)
    _product("deep product", 1 << 12, lambda c: (1, ROWS, c // ROWS, ROWS), _dtype)
    _product("tall product", 1 << 12, lambda c: (1, c // ROWS, ROWS, ROWS), _dtype)
    _product("batch of 32", 1 << 11, lambda c: (c >> 10, 32, 32, 32), _dtype)


def _convolution(name: str, shape: Callable[[int], Any], taps: int) -> None:
    """Declare convolutions of (images, channels, side), and their gradients."""

    def call(inputs: Inputs, count: int) -> tuple[Tensor, Tensor, float]:
        images, channels, side = shape(count)
        x = inputs.floats(images, channels, side, side)
        weight = inputs.floats(channels, channels, taps, taps)
        operations = 2 * x.numel() * channels * taps**2
        return x, weight, max(8 * x.numel(), operations / 16)

    def make(inputs: Inputs, count: int) -> Sized:
        x, weight, work = call(inputs, count)
        return Sized(lambda: [functional.conv2d(x, weight, padding=taps // 2)], work)

    def make_gradient(inputs: Inputs, count: int) -> Sized:
        x, weight, work = call(inputs, count)
        leaves = [x.detach().requires_grad_(), weight.detach().requires_grad_()]

        def run() -> Sequence[Tensor]:
            out = functional.conv2d(leaves[0], leaves[1], padding=taps // 2)
            return list(fw.autograd.grad([out], leaves, [x]))

        return Sized(run, 3 * work)

    CLASSES.append(KernelClass(name, make, 24, 1 << 14))
    CLASSES.append(KernelClass(f"{name}, gradients", make_gradient, 40, 1 << 14))


_convolution("convolution, more images", lambda c: (c >> 13, 8, 32), 3)
_convolution("convolution, larger images", lambda c: (1, 16, math.isqrt(c // 16)), 3)
_convolution("convolution, more channels", lambda c: (1, c >> 8, 16), 3)


def _attention(name: str, shape: Callable[[int], Any], dtype: str) -> None:
    """Declare attention of (batch, heads, length, 64)."""

    def make(inputs: Inputs, count: int) -> Sized:
        batch, heads, length = shape(count)
        q = inputs.floats(batch, heads, length, 64, dtype=dtype)
        operations = 4 * batch * heads * length**2 * 64
        return Sized(
            lambda: [functional.scaled_dot_product_attention(q, q, q)],
            max(16 * q.numel(), operations / 16),
        )

    CLASSES.append(KernelClass(f"{name} {dtype}", make, 24, 1 << 14))


for _dtype in ("float32", "float16"):
    _attention("attention, longer", lambda c: (1, 8, c // 512), _dtype)
    _attention("attention, more heads", lambda c: (c // 8192, 1, 128), _dtype)


@kernel_class(12, 1 << 13)
def _max_pool(inputs: Inputs, n: int) -> Sized:
    x = inputs.floats(n >> 13, 8, 32, 32)
    return Sized(lambda: [functional.max_pool2d(x, 2)], 5 * n)


@kernel_class(24, 1 << 13)
def _bilinear(inputs: Inputs, n: int) -> Sized:
    x = inputs.floats(n >> 13, 8, 32, 32)
    return Sized(
        lambda: [functional.interpolate(x, scale_factor=2, mode="bilinear")], 20 * n
    )


@kernel_class(8)
def _rand(inputs: Inputs, n: int) -> Sized:
    return Sized(lambda: [fw.rand(n, device=inputs.device)], 4 * n)


@kernel_class(12)
def _dropout(inputs: Inputs, n: int) -> Sized:
    x = inputs.floats(n)
    return Sized(lambda: [functional.dropout(x, 0.5)], 8 * n)


@kernel_class(24, 1 << 12)
def _fourier(inputs: Inputs, n: int) -> Sized:
    x = inputs.floats(n // COLUMNS, COLUMNS)
    return Sized(lambda: [fw.fft.rfft(x)], 8 * n)


@kernel_class(24, 1 << 12)
def _longer_fourier(inputs: Inputs, n: int) -> Sized:
    x = inputs.floats(1 << (n.bit_length() - 1))
    return Sized(lambda: [fw.fft.rfft(x)], 8 * x.numel())
