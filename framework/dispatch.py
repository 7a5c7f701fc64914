"""What a kernel rule answers: which shader, which constants, which grid; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .shape import Layout, TensorSpec, ceil_div

Grid = tuple[int, int, int]

MAX_GROUPS = 65535
"""Workgroups that every device takes along x or y (Vulkan 1.0, limits table)."""


@dataclass(frozen=True)
class Placed(TensorSpec):
    """A kernel's input: its spec and where its elements lie."""

    layout: Layout


@dataclass(frozen=True)
class Scratch:
    """Memory that lives for one operation only.

    Parameters
    ----------
    name : str
        Dispatches of one operation that say the same name share the memory.
    size : int
        Bytes.
    """

    name: str
    size: int


@dataclass(frozen=True)
class Dispatch:
    """One run of one shader.

    Parameters
    ----------
    kernel : str
        Shader under `glsl/`, without `.comp`.
    grid : tuple of int
        Workgroups in x, y and z.
    push : mapping of str to number, str or Scratch
        Every argument by name. A string names an input or output of the operation; a
        `Scratch` asks for memory. Both become addresses.
    constants : mapping of str to number
        Specialization constants by name.
    defines : mapping of str to str
        Macros for types.
    """

    kernel: str
    grid: Grid
    push: Mapping[str, int | float | str | Scratch]
    constants: Mapping[str, int | float | bool] = field(default_factory=dict)
    defines: Mapping[str, str] = field(default_factory=dict)


def linear_grid(invocations: int, workgroup: int) -> Grid:
    """Return a grid of at least `invocations`, folded into y past the limit in x.

    Shaders find their number with `linear_invocation()` of `lib/index.glsl`.
    """
    return fold_grid(ceil_div(invocations, workgroup))


def fold_grid(groups: int, batch: int = 1) -> Grid:
    """Return a grid of at least `groups` workgroups in x and y, and `batch` in z."""
    rows = max(1, ceil_div(groups, MAX_GROUPS))
    return ceil_div(groups, rows), rows, batch


def divisor(size: int) -> tuple[int, int]:
    """Return (magic, shift) with which `lib/index.glsl` divides by `size`.

    Exact for every 32-bit dividend. Source: Granlund and Montgomery, "Division by
    Invariant Integers using Multiplication", PLDI 1994, figure 4.1.
    """
    shift = (size - 1).bit_length()
    return ((1 << 32) * ((1 << shift) - size)) // size + 1, shift
