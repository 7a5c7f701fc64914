"""GLSL of the order in which an element-wise kernel takes vectors across rows.

An operand whose contiguous dimension is not the last, as that of a transposed matrix,
is read a few bytes here and there where neighbouring invocations take neighbouring
vectors. So a workgroup takes a tile: vectors of `ROWS` places along that dimension,
the tile's rows, and of `VECTORS` places along the last. Neighbouring invocations take
some rows first, so many that they read a whole sector of 32 bytes, and then vectors.
In each of several turns an invocation takes a vector of the next `ROWS` rows. It loads
those of all turns before it computes the first, so that enough loads are in flight.

A row has `tile_columns` elements; there are `tile_rows` along the dimension, and
between two of them `tile_between` rows of dimensions in between. A vector that begins
in a row belongs to it, also where it ends in the next.
"""

from __future__ import annotations

from collections.abc import Sequence

ROWS, VECTORS = 32, 8
"""Size of a tile; their product is the workgroup's."""

IN_FLIGHT = 64
"""Bytes that an invocation loads across rows before it computes."""

MOST_TURNS = 8
MOST_REGISTERS = 64
"""Loaded elements of an invocation."""

_SECTOR = 32
"""Bytes that are read at once."""


def rows_of(itemsize: int) -> int:
    """Return the rows that neighbouring invocations take, for an operand's elements."""
    return min(ROWS, max(8, _SECTOR // itemsize))


def turns_of(across: Sequence[int], operands: int, rows: int) -> int:
    """Return the turns of a workgroup.

    Parameters
    ----------
    across : sequence of int
        Bytes of an element of each operand that is read across rows.
    operands : int
        Number of all.
    rows : int
        Rows of all tiles.
    """
    wanted = IN_FLIGHT // (4 * sum(across))
    most = min(MOST_TURNS, MOST_REGISTERS // (4 * operands), -(-rows // ROWS))
    return max(1, min(wanted, most))


def tiled_vectors(rows: int, turns: int, number: str) -> list[str]:
    """Compute the indices `places` of an invocation's vectors, and which are `within`.

    Parameters
    ----------
    rows, turns : int
        `KernelProgram.tile` and `turns`.
    number : str
        Number of the invocation, in workgroups of `ROWS * VECTORS`.
    """
    low = rows.bit_length() - 1
    others = (ROWS // rows).bit_length() - 1
    first = (32 // rows).bit_length() - 1
    size = (ROWS * VECTORS).bit_length() - 1
    return [
        f"uint number = {number};",
        f"uint tile = number >> {size}, place = number & {ROWS * VECTORS - 1}u;",
        f"uint own = (place & {rows - 1}u)"
        f" | (place >> {low + first} & {ROWS // rows - 1}u) << {low};",
        f"uint vector = (place >> {low} & {32 // rows - 1}u)"
        f" | place >> {low + first + others} << {first};",
        "uint vectors = (tile_columns + 3u) / 4u;",
        f"uint across = (vectors + {VECTORS - 1}u) / {VECTORS}u;",
        f"vector += tile % across * {VECTORS}u, tile /= across;",
        f"uint down = (tile_rows + {ROWS * turns - 1}u) / {ROWS * turns}u;",
        f"own += tile % down * {ROWS * turns}u, tile /= down;",
        "uint before = tile / tile_between * tile_rows, between = tile % tile_between;",
        f"uint places[{turns}];",
        f"bool within[{turns}];",
        f"[[unroll]] for (uint turn = 0u; turn < {turns}u; ++turn) {{",
        f"    uint row = own + {ROWS}u * turn;",
        "    bool has = row < tile_rows && vector < vectors;",
        "    row = (before + row) * tile_between + between;",
        "    uint i = (row * tile_columns + 3u) / 4u + vector;",
        "    has = has && i < quads && 4u * i - row * tile_columns < tile_columns;",
        "    within[turn] = has;",
        "    places[turn] = has ? i : 0u;",
        "}",
    ]
