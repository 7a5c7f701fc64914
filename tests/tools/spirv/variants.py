"""The shaders of the library, each in as many dtypes as compile to different code."""

import functools
import zlib
from collections.abc import Iterator, Sequence

from vkbackend.errors import ShaderError
from vkbackend.include import expand
from vkbackend.shader import glsl_folder, load_kernel_source
from vkbackend.tools.spirv.command import kernels
from vkbackend.tools.spirv.target import Target, dtypes, find

ALIKE = (
    ("float32",),
    ("float16", "bfloat16"),
    ("bool", "int8", "uint8", "int16", "uint16"),
    ("int32", "uint32"),
    ("float64", "int64", "uint64"),
)
"""Dtypes whose variants differ little: in types, or in the conversions of an element.

Both are those of `lib/element.glsl`, the same in all kernels.
"""


@functools.cache
def library() -> tuple[Target, ...]:
    """Return each kernel in one dtype of each row of `ALIKE` that it compiles for.

    Which one differs from kernel to kernel, so that there is every dtype; the others
    would repeat nearly the same operations.
    """
    found = []
    for name in kernels():
        text, path = load_kernel_source(name)
        source = expand(text, name, {}, (path.parent, glsl_folder()))
        for alike in _in_turn(name, dtypes(source)):
            found += _first(name, alike)
    return tuple(found)


def _in_turn(name: str, known: Sequence[str]) -> Iterator[list[str]]:
    """Yield each row of `ALIKE` as far as it is known, in an order of the kernel's."""
    turn = zlib.crc32(name.encode())
    for row in ALIKE:
        first = turn % len(row)
        yield [dtype for dtype in row[first:] + row[:first] if dtype in known]


def _first(name: str, alike: Sequence[str]) -> list[Target]:
    """Return a kernel in the first dtype that it compiles for, or nothing."""
    for dtype in alike:
        try:
            return [find(name, dtype=dtype)]
        except ShaderError:
            # A kernel of floats refuses integers.
            assert dtype != "float32"
    return []
