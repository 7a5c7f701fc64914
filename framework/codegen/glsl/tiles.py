"""GLSL of the order in which an element-wise kernel takes vectors across rows.

An operand whose contiguous dimension is not the last, as that of a transposed matrix,
is read a few bytes here and there where neighbouring invocations take neighbouring
vectors. So a workgroup takes a tile: vectors of `ROWS` places along that dimension,
the tile's rows, and of `VECTORS` places along the last. Neighbouring invocations take
some rows first, so many that they read a whole sector of 32 bytes, and then vectors.

A row has `tile_columns` elements; there are `tile_rows` along the dimension, and
between two of them `tile_between` rows of dimensions in between. A vector that begins
in a row belongs to it, also where it ends in the next.
"""

from __future__ import annotations

ROWS, VECTORS = 32, 8
"""Size of a tile; their product is the workgroup's."""

_SECTOR = 32
"""Bytes that are read at once."""


def rows_of(itemsize: int) -> int:
    """Return the rows that neighbouring invocations take, for an operand's elements."""
    return min(ROWS, max(8, _SECTOR // itemsize))


def tiled_vector(rows: int, number: str) -> list[str]:
    """Compute the index `i` of an invocation's vector, and end those without.

    Parameters
    ----------
    rows : int
        `KernelProgram.tile`.
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
        f"uint row = (place & {rows - 1}u)"
        f" | (place >> {low + first} & {ROWS // rows - 1}u) << {low};",
        f"uint vector = (place >> {low} & {32 // rows - 1}u)"
        f" | place >> {low + first + others} << {first};",
        "uint vectors = (tile_columns + 3u) / 4u;",
        f"uint across = (vectors + {VECTORS - 1}u) / {VECTORS}u;",
        f"vector += tile % across * {VECTORS}u, tile /= across;",
        f"uint down = (tile_rows + {ROWS - 1}u) / {ROWS}u;",
        f"row += tile % down * {ROWS}u, tile /= down;",
        "if (row >= tile_rows || vector >= vectors) return;",
        "row += tile / tile_between * tile_rows;",
        "row = row * tile_between + tile % tile_between;",
        "uint i = (row * tile_columns + 3u) / 4u + vector;",
        "if (i >= quads || 4u * i - row * tile_columns >= tile_columns) return;",
    ]
