"""Kernels of one invocation per element or per 32-bit word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..base.errors import ShapeError
from ..base.shape import TensorSpec, ceil_div
from ..ir.kernel_call import Argument, Dispatch, linear_grid
from .reduce import SOFTWARE_WORKGROUP, WORKGROUP

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

MOST_WORDS = 1 << 32
"""Upper bound of 32-bit words and elements: kernels index them in 32 bits."""

COPY_ITEMS = 4
"""Loads that an invocation of a copy keeps in flight where latency can be hidden."""

MIN_COPY_ITEMS = 1 << 18
"""Copied items from which one invocation for each would only be more of them."""


def linear_workgroup(gpu: DeviceInfo) -> int:
    """Return the workgroup size of a kernel that takes long for each element."""
    return WORKGROUP if gpu.target.hides_latency else SOFTWARE_WORKGROUP


def linear_dispatch(
    kernel: str,
    invocations: int,
    push: Mapping[str, Argument],
    constants: Mapping[str, int] | None = None,
    defines: Mapping[str, str] | None = None,
    workgroup: int = WORKGROUP,
) -> Dispatch:
    """Return the dispatch of a kernel whose invocations share nothing.

    `constants` are those beside the workgroup size.
    """
    constants = {"LOCAL_X": workgroup, **(constants or {})}
    grid = linear_grid(invocations, workgroup)
    return Dispatch(kernel, grid, push, constants, defines or {})


def zeros_dispatch(words: int) -> Dispatch:
    """Return the dispatch that zero-fills the result."""
    push: dict[str, Argument] = {"out_": "out", "words": "out", "count": words}
    return linear_dispatch("copy/fill_zero", ceil_div(words, 4), push)


def word_dispatch(
    kernel: str,
    name: str,
    out: TensorSpec,
    push: Mapping[str, Argument],
    constants: Mapping[str, int] | None = None,
) -> Dispatch:
    """Return the dispatch of a kernel that writes `out` by words, of any dtype.

    `name` is that of the op, for `words_of`.
    """
    constants = {"SIZE": out.dtype.itemsize, **(constants or {})}
    return linear_dispatch(kernel, words_of(name, out), push, constants)


def copy_dispatch(
    gpu: DeviceInfo,
    kernel: str,
    items: int,
    push: Mapping[str, Argument],
    constants: Mapping[str, int],
    defines: Mapping[str, str] | None = None,
) -> Dispatch:
    """Return the dispatch of a copy whose invocations write one item or several.

    Items are 32-bit words, or vectors of them; `constants` include the bytes of an
    element, SIZE.
    """
    several = gpu.target.hides_latency and items >= MIN_COPY_ITEMS
    each = COPY_ITEMS if several else 1
    return linear_dispatch(
        kernel, ceil_div(items, each), push, {**constants, "ITEMS": each}, defines
    )


def words_of(name: str, spec: TensorSpec) -> int:
    """Return how many 32-bit words hold a tensor.

    Raises
    ------
    ShapeError
        If a kernel cannot count its words or elements in 32 bits.
    """
    words = ceil_div(spec.numel * spec.dtype.itemsize, 4)
    if max(words, spec.numel) >= MOST_WORDS:
        raise ShapeError(
            f"{name}: shape {tuple(spec.shape)} has {spec.numel} elements of"
            f" {spec.dtype.itemsize} bytes; devices take less than {MOST_WORDS}"
            " elements and 32-bit words"
        )
    return words
