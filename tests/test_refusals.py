"""What the operations refuse, and how they say it.

Each call is listed with its error in `tests/data/refusals.txt`; those in
`refusals_host.txt` are about the values of indices, which a device refuses when its
results are read.
"""

import ast
from pathlib import Path
from typing import Any

import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework import ops
from vkbackend.framework.base import dtype
from vkbackend.framework.base.errors import (
    DTypeError,
    IndexDTypeError,
    IndexRangeError,
    ShapeError,
)

DATA = Path(__file__).parent / "data"
ERRORS = {
    each.__name__: each
    for each in (
        DTypeError,
        IndexDTypeError,
        IndexRangeError,
        ShapeError,
        TypeError,
        ValueError,
    )
}
# Whatever tensor they get, they have an answer; or they are no functions for users.
REFUSE_NOTHING = {
    "cast", "copy", "equal", "isfinite", "isinf", "isnan", "logical_not", "nonzero",
    "arange_like", "strided_scatter", "band_like", "draw_permutation", "fill_like",
    "linspace_like", "move", "random_uniform",
}  # fmt: skip


def rows(name: str) -> list[tuple[str, str]]:
    """Return calls, and what they must raise."""
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [(call, text.strip()) for call, text in zip(lines[::2], lines[1::2])]


ANYWHERE, ON_HOST = rows("refusals.txt"), rows("refusals_host.txt")


def refuse(call: str, expected: str, device: str) -> None:
    """Check what a call raises."""

    def ones(*shape: int, dtype: str = "float32") -> fw.Tensor:
        return fw.ones(shape, dtype, device)

    scope: dict[str, Any] = {name: getattr(ops, name) for name in ops.NAMES}
    scope |= {"ones": ones, "int32": dtype.int32, "float32": dtype.float32}
    name, _, text = expected.partition(": ")
    # The indices of a device are checked where its results are read.
    read = ".numpy()" if (call, expected) in ON_HOST else ""
    with pytest.raises(ERRORS[name]) as raised:
        eval(call + read, scope)
    assert type(raised.value) is ERRORS[name]
    assert str(raised.value) == text


@pytest.mark.parametrize(("call", "expected"), ANYWHERE + ON_HOST)
def test_on_the_host(call: str, expected: str) -> None:
    refuse(call, expected, "cpu")


@pytest.mark.core
@pytest.mark.parametrize(
    ("call", "expected"),
    [
        *ANYWHERE,
        *(
            # The result of this one is int64.
            pytest.param(*row, marks=[pytest.mark.int64] if "one_hot" in row[0] else [])
            for row in ON_HOST
        ),
    ],
)
def test_on_a_device(call: str, expected: str, device: vkbackend.Device) -> None:
    refuse(call, expected, device.name)


def test_every_function_has_a_row() -> None:
    called = {
        node.func.id
        for call, _ in ANYWHERE + ON_HOST
        for node in ast.walk(ast.parse(call))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    public = set(ops.NAMES) - {"ValuesIndices"}
    assert public - called == REFUSE_NOTHING


def test_rows_are_sorted_and_different() -> None:
    for found in (ANYWHERE, ON_HOST):
        names = [call.partition("(")[0] for call, _ in found]
        assert names == sorted(names)
        assert len(set(found)) == len(found)
