"""Kernel calls: shader, specialization constants, arguments and grid; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from ..base.errors import ShapeError
from ..base.shape import Layout, TensorSpec, ceil_div

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

Grid = tuple[int, int, int]

MAX_GROUPS = 65535
"""Workgroups that every device takes along x or y (Vulkan 1.0, limits table)."""


@dataclass(frozen=True)
class StridedSpec(TensorSpec):
    """A strided spec: shape and dtype of a kernel's input, with its layout."""

    layout: Layout


@dataclass(frozen=True)
class Scratch:
    """Scratch memory of one node.

    Parameters
    ----------
    name : str
        Dispatches of one node share scratch memory of the same name.
    size : int
        Bytes.
    """

    name: str
    size: int


@dataclass(frozen=True)
class PersistentScratch:
    """Persistent scratch memory of one dispatch, zero-initialised once.

    Parameters
    ----------
    size : int
        Bytes.
    """

    size: int


@dataclass(frozen=True)
class IndexSlot:
    """Device address of a site's slot in the status record; see `base.index_checks`.

    Parameters
    ----------
    site : str
        The call and what it indexes.
    size : int
        Number of what can be indexed.
    """

    site: str
    size: int


class BufferOffset(NamedTuple):
    """A byte offset into an input, an output or scratch memory.

    Attributes
    ----------
    memory : str or Scratch
        The memory.
    offset : int
        Bytes from its start.
    """

    memory: str | Scratch
    offset: int


Argument = int | float | str | Scratch | PersistentScratch | BufferOffset | IndexSlot
"""A kernel argument: a number, or memory that becomes an address."""


class JoinedTiles(NamedTuple):
    """Tiles that a dispatch may have where it is fused horizontally with others.

    Alone each takes the tile that fills the device by itself.

    Attributes
    ----------
    groups : int
        Workgroups that all of them are to have together.
    tiles : tuple of (Grid, mapping of str to number)
        Grid and specialization constants. The first is taken that gives them as many,
        or else the last.
    """

    groups: int
    tiles: tuple[tuple[Grid, Mapping[str, int | float | bool]], ...]


@dataclass(frozen=True)
class Dispatch:
    """One dispatch of one shader.

    Parameters
    ----------
    kernel : str
        Shader under `glsl/`, without `.comp`.
    grid : tuple of int
        Workgroups in x, y and z.
    push : mapping of str to Argument
        Every argument by name. A string names an input or output of the node.
    constants : mapping of str to number
        Specialization constants by name.
    defines : mapping of str to str
        Macros for types.
    copies : (str, str) or None
        Input and output, of which this makes the second equal to the first, before
        later dispatches of the node change a part of it. It is left out where the
        output may have the input's memory.
    joins : bool
        Whether it may be fused horizontally with others of its shader, constants and
        macros; see `lib/horizontal.glsl`.
    joined : JoinedTiles or None
        Its tiles then, if it may be fused with those of other constants. Those of each
        tile are the same for all.
    """

    kernel: str
    grid: Grid
    push: Mapping[str, Argument]
    constants: Mapping[str, int | float | bool] = field(default_factory=dict)
    defines: Mapping[str, str] = field(default_factory=dict)
    copies: tuple[str, str] | None = None
    joins: bool = False
    joined: JoinedTiles | None = None


class SortedArguments(NamedTuple):
    """Arguments of a dispatch, sorted by what becomes of them.

    Attributes
    ----------
    words : dict of str to number
        Numbers, and a 0 for each address that is known without the node.
    index_slots : list of (str, IndexSlot)
    persistent : list of (str, PersistentScratch)
    scratch : list of Scratch
        Each once.
    memory : list of (str, (str or Scratch), int)
        Argument, memory and offset in bytes.
    """

    words: dict[str, float]
    index_slots: list[tuple[str, IndexSlot]]
    persistent: list[tuple[str, PersistentScratch]]
    scratch: list[Scratch]
    memory: list[tuple[str, str | Scratch, int]]


def sorted_arguments(dispatch: Dispatch) -> SortedArguments:
    """Return the arguments of a dispatch, sorted by what becomes of them."""
    found = SortedArguments({}, [], [], [], [])
    for name, value in dispatch.push.items():
        if isinstance(value, int | float):
            found.words[name] = value
        elif isinstance(value, IndexSlot):
            found.words[name] = 0
            found.index_slots.append((name, value))
        elif isinstance(value, PersistentScratch):
            found.words[name] = 0
            found.persistent.append((name, value))
        else:
            at = value if isinstance(value, BufferOffset) else BufferOffset(value, 0)
            memory, offset = at
            found.memory.append((name, memory, offset))
            if isinstance(memory, Scratch) and memory not in found.scratch:
                found.scratch.append(memory)
    return found


def with_memory(
    dispatches: Sequence[Dispatch], memory: Mapping[str, str | Scratch | BufferOffset]
) -> list[Dispatch]:
    """Return dispatches with other memory in place of inputs and outputs, by name."""

    def placed(value: Argument) -> Argument:
        at = value if isinstance(value, BufferOffset) else BufferOffset(value, 0)  # type: ignore[arg-type]  # another argument is no key
        if not isinstance(at.memory, str) or at.memory not in memory:
            return value
        found = memory[at.memory]
        if isinstance(found, BufferOffset):
            return BufferOffset(found.memory, found.offset + at.offset)
        return BufferOffset(found, at.offset) if at is value else found

    return [
        replace(each, push={name: placed(value) for name, value in each.push.items()})
        for each in dispatches
    ]


def device_macros(gpu: DeviceInfo) -> Mapping[str, str]:
    """Return the preprocessor macros of every kernel on a device.

    See `lib/float16.glsl`, as software devices convert to float16 by as many integer
    operations themselves, and `lib/math/division.glsl` and `arithmetic.glsl`. Where
    there are no 64-bit integers, as in SwiftShader, a cast of a reference to another
    type ends the process.
    """
    target = gpu.target
    given = {
        "DEVICE_ROUNDING": target.converts_to_float16,
        "ROUNDED_QUOTIENTS": target.rounds_quotients,
        "DIVIDES_INT64": target.divides_int64,
        "FUSED_MULTIPLY_ADD": target.fuses_multiply_add and not target.rounds_quotients,
        "REFERENCE_CASTS": gpu.shader_int64,
    }
    return {name: "1" for name, wanted in given.items() if wanted}


def check_rounds(gpu: DeviceInfo, name: str, rounds: int) -> None:
    """Raise `ShapeError` if a shader exceeds the loop limit of a device."""
    limit = gpu.target.loop_limit
    if limit is not None and rounds > limit:
        raise ShapeError(
            f"{name}: one result would take {rounds} rounds of a loop; software devices"
            f" are trusted with {limit}; use the cpu device for this size"
        )


def least_chunks(gpu: DeviceInfo, rounds: int) -> int:
    """Return the chunks that a loop must be cut into for the limit of a device."""
    limit = gpu.target.loop_limit
    return 1 if limit is None else max(1, ceil_div(rounds, limit))


def linear_grid(invocations: int, workgroup: int) -> Grid:
    """Return a grid of at least `invocations`, folded into y past the limit in x.

    Shaders compute their linear index with `linear_invocation()` of `lib/index.glsl`.
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


def entry_divisors(entries: int, inner: int) -> dict[str, int]:
    """Return the arguments by which kernels take (outer, entries, inner) apart.

    They are `division` of `lib/index.glsl`.
    """
    parts = *divisor(max(inner, 1)), *divisor(max(entries, 1))
    return {f"division[{number}]": part for number, part in enumerate(parts)}
