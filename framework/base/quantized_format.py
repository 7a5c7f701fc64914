"""Formats of quantized weights: how many bytes what number of columns take."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from vkbackend.errors import ArgumentError

from .errors import ShapeError


class QuantizedFormat(NamedTuple):
    """Format of quantized weights; each row of a matrix is quantized by itself.

    Attributes
    ----------
    name : str
    block : int
        Elements that share scales; columns are a multiple of it.
    size : int
        Bytes of a block, one after the other; 0 where a row has another layout.
    piece : int
        Elements that one invocation decodes at once.
    gguf : int or None
        Number of the type in GGUF files, whose layout it has.
    """

    name: str
    block: int
    size: int
    piece: int
    gguf: int | None = None

    def row_size(self, columns: int) -> int:
        """Return the bytes of a row."""
        if self.size:
            return columns // self.block * self.size
        if self.name == INT8:
            return ROW_HEAD + columns
        table = columns // self.block * GROUP_ENTRY
        return -(-(columns // 2 + table) // ROW_HEAD) * ROW_HEAD

    def check(self, name: str, columns: int) -> None:
        """Raise `ShapeError` if a row of so many columns is no number of blocks.

        `name` is what errors call the operation.
        """
        if not columns or columns % self.multiple:
            raise ShapeError(
                f"{name}: there are {columns} columns; {self.name} takes a multiple of"
                f" {self.multiple} above 0"
            )

    @property
    def multiple(self) -> int:
        """What the number of columns must be a multiple of."""
        return math.lcm(self.block, self.piece)

    @property
    def family(self) -> str:
        """The name, without the group's size."""
        return self.name.partition("_g")[0]


INT8 = "int8"
INT4 = "int4"

ROW_HEAD = 16
"""Bytes before the codes of a row of int8: its float32 scale, and zeros."""

GROUP_ENTRY = 4
"""Bytes of a group of int4, after the codes of its row: float16 scale and zero."""

DEFAULT_GROUP = 128
"""Elements of a group of int4."""

FORMATS = {
    each.name: each
    for each in (
        QuantizedFormat("q4_0", 32, 18, 32, 2),
        QuantizedFormat("q4_1", 32, 20, 32, 3),
        QuantizedFormat("q5_0", 32, 22, 32, 6),
        QuantizedFormat("q5_1", 32, 24, 32, 7),
        QuantizedFormat("q8_0", 32, 34, 16, 8),
        QuantizedFormat("q4_k", 256, 144, 32, 12),
        QuantizedFormat("q5_k", 256, 176, 32, 13),
        QuantizedFormat("q6_k", 256, 210, 32, 14),
        QuantizedFormat(INT8, 16, 0, 16),
        QuantizedFormat(f"{INT4}_g32", 32, 0, 32),
        QuantizedFormat(f"{INT4}_g64", 64, 0, 32),
        QuantizedFormat(f"{INT4}_g{DEFAULT_GROUP}", DEFAULT_GROUP, 0, 32),
    )
}
"""Formats by name; int4 also comes in groups of other multiples of 32."""


def find_format(name: str, where: str = "quantize") -> QuantizedFormat:
    """Return a format.

    Parameters
    ----------
    name : str
        A key of `FORMATS`, in any case; "int4" is that of groups of 128, and groups of
        other sizes have theirs in the name, as "int4_g256".
    where : str
        What errors call the operation.

    Raises
    ------
    ArgumentError
        If there is no such format.
    """
    wanted = name.lower() if isinstance(name, str) else name
    if wanted == INT4:
        wanted = f"{INT4}_g{DEFAULT_GROUP}"
    if wanted in FORMATS:
        return FORMATS[wanted]
    found = re.fullmatch(rf"{INT4}_g([0-9]{{1,6}})", str(wanted))
    if found and int(found[1]) and int(found[1]) % 32 == 0:
        group = int(found[1])
        return QuantizedFormat(f"{INT4}_g{group}", group, 0, 32)
    raise ArgumentError(
        f"{where}: format is {name!r}; accepted: {', '.join(FORMATS)}, and int4_gN in"
        " groups of N, a multiple of 32"
    )
