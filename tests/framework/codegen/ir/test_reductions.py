"""Which reductions are of rows, and what they compute."""

import math

import pytest

from vkbackend.framework.base.dtype import (
    DType,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint32,
)
from vkbackend.framework.base.shape import Shape
from vkbackend.framework.codegen.ir.reductions import (
    DECOMPOSITIONS,
    is_row_shape,
    reduction,
    split_of,
)
from vkbackend.framework.dispatch.op import REGISTRY


@pytest.mark.parametrize(
    ("shape", "dims", "split"),
    [
        ((4, 3), (1,), 1),
        ((4, 3), (0, 1), 0),
        ((4, 3), (0,), None),
        ((4, 5, 3), (1, 2), 1),
        ((4, 5, 3), (0, 2), None),
        ((4, 1, 3), (2,), 1),
        ((4, 3, 1), (1,), 1),
        ((1, 3), (1,), 0),
        ((4, 1), (1,), None),
        ((3,), (0,), 0),
        ((1, 1), (0, 1), None),
    ],
)
def test_split(shape: Shape, dims: tuple[int, ...], split: int | None) -> None:
    assert split_of(shape, dims) == split


def test_shapes_of_rows() -> None:
    whole = (4, 5, 3)
    fitting = [(4, 5), (4, 5, 1), (4, 5, 1, 1)]
    assert all(is_row_shape(shape, whole, 2) for shape in fitting)
    others = [(4, 5, 3), (20,), (5, 4), (4,), (1, 4, 5)]
    assert not any(is_row_shape(shape, whole, 2) for shape in others)


@pytest.mark.parametrize(
    ("x", "out", "compute"),
    [
        (float32, float32, float32),
        (float16, float16, float32),
        (float16, float32, float32),
        (float64, float64, float64),
        (bool_, bool_, uint32),
        (bool_, int64, int64),
        (int8, int8, int32),
        (int32, int64, int64),
    ],
)
def test_what_is_computed_in(x: DType, out: DType, compute: DType) -> None:
    assert reduction("add", x, out, {}).compute is compute


def test_scale_and_mapping_come_from_the_node() -> None:
    mean = reduction("add", float32, float32, {"scale": 0.25, "dims": (1,)})
    assert (mean.steps, mean.scale) == (DECOMPOSITIONS["add"], 0.25)
    squares = reduction("add", float32, float32, {"mapping": "square"})
    assert [step.name for step in squares.steps] == ["each", "out"]
    assert reduction("variance", float32, float32, {"divisor": 4}).scale == 0.25
    assert reduction("variance", float32, float32, {"divisor": 0}).scale == math.inf


def test_each_reduction_of_the_library_has_a_recipe() -> None:
    found = {op.reduction for op in REGISTRY.values() if op.reduction}
    assert found == {"add", "mul", "max", "min", "variance", "logsumexp"}
    assert found <= DECOMPOSITIONS.keys()


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_steps_take_what_was_made_before(name: str) -> None:
    known = {"x", "per_count"}
    for step in DECOMPOSITIONS[name]:
        assert known.issuperset(step.over)
        assert step.per_row or not step.fold
        known.add(step.name)
    assert DECOMPOSITIONS[name][-1].name == "out"
