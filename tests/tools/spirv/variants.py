"""The shaders of the library, each in as many dtypes as compile to different code."""

import functools
import zlib
from collections.abc import Callable, Sequence

import pytest

from vkbackend.errors import ShaderError
from vkbackend.shader.compiler import glsl_folder, load_kernel_source
from vkbackend.shader.preprocessor import expand
from vkbackend.tools.spirv.cli import kernels
from vkbackend.tools.spirv.target import Target, dtypes, find

Shaders = Callable[[], tuple[Target, ...]]
ALIKE = (
    ("float32",),
    ("float16", "bfloat16"),
    ("bool", "int8", "uint8", "int16", "uint16"),
    ("int32", "uint32"),
    ("float64", "int64", "uint64"),
)
"""Dtypes whose variants differ little: in types, or in the conversions of an element.

Both are those of `lib/dtype.glsl`, the same in all kernels.
"""


@functools.cache
def library() -> tuple[Target, ...]:
    """Return each kernel in one dtype of each row of `ALIKE` that it compiles for.

    Which one differs from kernel to kernel, so that there is every dtype; the others
    would repeat nearly the same operations.
    """
    rows = ((name, alike) for name in kernels() for alike in _rows(name))
    return tuple(target for row in rows for target in _first(*row))


@functools.cache
def once() -> tuple[Target, ...]:
    """Return each kernel in one dtype: of the first row of `ALIKE`, the next and so on.

    If it compiles for none of a row, the one after that has its turn.
    """
    found = []
    for number, name in enumerate(kernels()):
        rows = _rows(name)
        first = number % len(rows)
        in_turn = (_first(name, row) for row in rows[first:] + rows[:first])
        found += next(filter(None, in_turn))
    return tuple(found)


@functools.cache
def some() -> tuple[Target, ...]:
    """Return one of four of `once`."""
    return once()[::4]


each_library = pytest.mark.parametrize(
    "shaders", [once, pytest.param(library, marks=pytest.mark.wide)]
)
"""The gate takes each kernel once; further dtypes repeat most of its operations."""

some_of_library = pytest.mark.parametrize(
    "shaders",
    [some, *(pytest.param(each, marks=pytest.mark.wide) for each in (once, library))],
)
"""The gate takes one of four kernels, for what says nothing of these but of tools."""


def _rows(name: str) -> list[list[str]]:
    """Return the rows of `ALIKE` as far as a kernel knows them, in an order of its."""
    text, path = load_kernel_source(name)
    known = dtypes(expand(text, name, {}, (path.parent, glsl_folder())))
    turn = zlib.crc32(name.encode())
    turned = (row[turn % len(row) :] + row[: turn % len(row)] for row in ALIKE)
    return [[dtype for dtype in row if dtype in known] for row in turned]


def _first(name: str, alike: Sequence[str]) -> list[Target]:
    """Return a kernel in the first dtype that it compiles for, or nothing."""
    for dtype in alike:
        try:
            return [find(name, dtype=dtype)]
        except ShaderError:
            # A kernel of floats refuses integers.
            assert dtype != "float32"
    return []
